//===- DnnBackend.h - cuDNN's functions for graphs --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DNNBACKEND_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DNNBACKEND_H

#include "runtime/devices/cuda/Driver.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace divisi::runtime::cuda {

/// cuDNN's functions that plan and run graphs. All but the first two return a status.
struct GraphFunctions {
  size_t (*version)();
  void (*lastError)(char *, size_t);
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*setStream)(void *handle, Stream);
  int (*createDescriptor)(int type, void **);
  int (*destroyDescriptor)(void *);
  int (*finalize)(void *);
  int (*set)(void *, int attribute, int type, int64_t count, const void *values);
  int (*get)(void *, int attribute, int type, int64_t most, int64_t *count, void *values);
  int (*execute)(void *handle, void *plan, void *variables);

  /// Throws std::runtime_error if cuDNN is missing or older than `leastVersion`.
  GraphFunctions();
  /// Throws what a status other than 0 says, of a call that should have done `what`.
  void check(int status, const char *what) const;
  /// 9.16: before, gradients of attention were wrong where the keys are no multiple of 128.
  static constexpr size_t leastVersion = 91600;
};

/// What something is in a graph of cuDNN's, or in memory.
enum class Element { F32 = 0, F16 = 2, I32 = 4, BF16 = 9, Bool = 11 }; // cudnnDataType_t

/// One of cuDNN's objects, destroyed with this one. Methods throw std::runtime_error.
class Descriptor {
public:
  Descriptor(const GraphFunctions &dnn, int type);
  Descriptor(Descriptor &&from) noexcept : dnn(from.dnn), object(std::exchange(from.object, nullptr)) {}
  Descriptor &operator=(Descriptor &&) = delete;
  ~Descriptor();

  /// `count` values of cudnnBackendAttributeType_t `type`.
  void set(int attribute, int type, int64_t count, const void *values);
  void setInteger(int attribute, int64_t value);
  void setElement(int attribute, Element value);
  void setObject(int attribute, void *value);
  void setFlag(int attribute);
  /// No attributes are set afterwards. Throws that cuDNN cannot do `what`.
  void finish(const char *what);
  void *get() const { return object; }

  // cudnnBackendAttributeType_t.
  static constexpr int handleType = 0, elementType = 1, flagType = 2, integerType = 3, pointerType = 6,
                       heuristicType = 8, pointwiseType = 14, objectType = 15, reductionType = 18;

private:
  const GraphFunctions &dnn;
  void *object = nullptr;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DNNBACKEND_H
