#include "runtime/devices/cuda/DnnBackend.h"
#include "runtime/devices/cuda/Library.h"

#include <algorithm>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

GraphFunctions::GraphFunctions(const Use &use, void **handle) {
  std::string what = concat("cuDNN, which computes ", use.what, ",");
  openLibrary({"libcudnn.so.9", "libcudnn.so"}, what.c_str(), [&](void *library) {
    bindAll(library, use);
    if (handle)
      checkStart(create(handle));
  });
}

void GraphFunctions::bindAll(void *library, const Use &use) {
  bind(library, "cudnnGetVersion", version);
  auto text = [](size_t version) { return concat(version / 10000, ".", version / 100 % 100); };
  if (size_t found = version(); found < use.leastVersion)
    throw std::runtime_error(concat(use.what, " needs cuDNN ", text(use.leastVersion), " or later; this is ",
                                    text(found), ".", found % 100));
  bind(library, "cudnnGetLastErrorString", lastError);
  bind(library, "cudnnCreate", create);
  bind(library, "cudnnDestroy", destroy);
  bind(library, "cudnnSetStream", setStream);
  bind(library, "cudnnBackendCreateDescriptor", createDescriptor);
  bind(library, "cudnnBackendDestroyDescriptor", destroyDescriptor);
  bind(library, "cudnnBackendFinalize", finalize);
  bind(library, "cudnnBackendSetAttribute", set);
  bind(library, "cudnnBackendGetAttribute", get);
  bind(library, "cudnnBackendExecute", execute);
}

void GraphFunctions::check(int status, const char *what) const {
  if (status == 0)
    return;
  char text[512] = "";
  lastError(text, sizeof text - 1);
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  throw std::runtime_error(concat("cuDNN cannot ", what, " (status ", status, line.empty() ? "" : ": ", line, ")"));
}

Descriptor::Descriptor(const GraphFunctions &dnn, int type) : dnn(dnn) {
  dnn.check(dnn.createDescriptor(type, &object), "describe a graph");
}
Descriptor::~Descriptor() {
  if (object)
    dnn.destroyDescriptor(object);
}
void Descriptor::set(int attribute, int type, int64_t count, const void *values) {
  dnn.check(dnn.set(object, attribute, type, count, values), "describe a graph");
}
void Descriptor::setInteger(int attribute, int64_t value) { set(attribute, integerType, 1, &value); }
void Descriptor::setElement(int attribute, Element value) { set(attribute, elementType, 1, &value); }
void Descriptor::setObject(int attribute, void *value) { set(attribute, objectType, 1, &value); }
void Descriptor::setFlag(int attribute) {
  bool yes = true;
  set(attribute, flagType, 1, &yes);
}
void Descriptor::finish(const char *what) { dnn.check(dnn.finalize(object), what); }
