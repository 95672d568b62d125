#include "divisi/RandomData.h"
#include "divisi/Output.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <random>

using namespace divisi;
namespace json = llvm::json;
using llvm::StringRef;

namespace {

/// NumPy's name of an element type, and its size; empty for types that no input has.
std::pair<StringRef, size_t> numpyType(StringRef type) {
  return llvm::StringSwitch<std::pair<StringRef, size_t>>(type)
      .Case("F32", {"<f4", 4})
      .Case("F64", {"<f8", 8})
      .Case("F16", {"<f2", 2})
      .Case("I64", {"<i8", 8})
      .Case("I32", {"<i4", 4})
      .Case("I16", {"<i2", 2})
      .Case("I8", {"|i1", 1})
      .Case("U8", {"|u1", 1})
      .Case("BOOL", {"|b1", 1})
      .Default({"", 0});
}

/// Writes version 1.0 of the format (numpy.lib.format).
bool writeNpy(const std::string &file, StringRef type, const std::vector<int64_t> &shape) {
  auto [name, width] = numpyType(type);
  std::string header = "{'descr': '" + name.str() + "', 'fortran_order': False, 'shape': (";
  size_t count = 1;
  for (int64_t size : shape) {
    header += std::to_string(size) + ",";
    count *= size;
  }
  header += "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += "\n";
  std::string data(count * width, '\0');
  std::mt19937 random(1);
  for (size_t i = 0; i < count; ++i) {
    double value = (random() >> 8) * 0x1p-24;
    float single = (float)value;
    if (type == "F32")
      std::memcpy(data.data() + i * 4, &single, 4);
    else if (type == "F64")
      std::memcpy(data.data() + i * 8, &value, 8);
  }
  std::string wrong = tools::writeOutput(file, [&](llvm::raw_ostream &out) {
    out << StringRef("\x93NUMPY\x01\x00", 8) << (char)(header.size() & 255) << (char)(header.size() >> 8) << header
        << data;
  });
  return wrong.empty();
}
} // namespace

llvm::Error tools::writeRandomData(const std::string &program, const std::string &folder, std::vector<std::string> &flags,
                                   int64_t &ranks) {
  std::string description = folder + "/description.json";
  llvm::sys::fs::remove(description); // a redirection does not truncate a file
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(description), std::nullopt};
  auto silent = [&] { return llvm::createStringError("'" + program + "' does not describe itself"); };
  if (llvm::sys::ExecuteAndWait(program, {program, "--describe", "json"}, std::nullopt, redirects))
    return silent();
  auto text = llvm::MemoryBuffer::getFile(description);
  if (!text)
    return silent();
  auto parsed = json::parse((*text)->getBuffer());
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return silent();
  }
  const json::Object *top = parsed->getAsObject();
  const json::Array *inputs = top ? top->getArray("inputs") : nullptr;
  if (!inputs)
    return silent();
  ranks = 1;
  if (const json::Object *mesh = top->getObject("mesh"))
    for (const auto &[name, size] : *mesh)
      ranks *= size.getAsInteger().value_or(1);
  for (auto [i, input] : llvm::enumerate(*inputs)) {
    const json::Object &object = *input.getAsObject();
    std::vector<int64_t> shape;
    for (const json::Value &size : *object.getArray("shape"))
      shape.push_back(size.getAsInteger().value_or(1));
    StringRef type = object.getString("dtype").value_or("");
    if (shape.empty() || numpyType(type).second == 0)
      return llvm::createStringError("no random data for an input of type " + type.str());
    shape[0] *= 4; // four batches, so that loading advances
    std::string file = folder + "/input" + std::to_string(i) + ".npy";
    if (!writeNpy(file, type, shape))
      return llvm::createStringError("cannot write '" + file + "'");
    flags.insert(flags.end(), {"--data", object.getString("name").value_or("").str() + "=" + file});
  }
  return llvm::Error::success();
}
