//===- DnnBackend.h - cuDNN's functions for graphs --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DNNBACKEND_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DNNBACKEND_H

#include "runtime/devices/cuda/Driver.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace divisi::runtime::cuda {

/// cuDNN's functions for planning and running graphs. All but the first two return a status.
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

  /// What cuDNN is opened for, and the first version that can do it.
  struct Use {
    const char *what;
    size_t leastVersion;
  };
  static constexpr Use convolutions = {"convolutions", 90000};
  /// In versions before 9.16, gradients of attention were wrong if the number of keys is no multiple of 128.
  static constexpr Use attention = {"attention", 91600};

  /// Creates a handle, unless `handle` is null. Throws std::runtime_error if cuDNN is missing, too old for its use, or
  /// does not start.
  explicit GraphFunctions(const Use &use, void **handle = nullptr);
  /// Throws the message of a status other than 0 from a call whose purpose was `what`.
  void check(int status, const char *what) const;

private:
  void bindAll(void *library, const Use &use);
};

/// The element type of a tensor in a graph or in memory.
enum class Element { F32 = 0, F64 = 1, F16 = 2, I32 = 4, BF16 = 9, Bool = 11 }; // cudnnDataType_t

/// A cuDNN object, which is destroyed with this one. Methods throw std::runtime_error.
class Descriptor {
public:
  Descriptor(const GraphFunctions &dnn, int type);
  Descriptor(Descriptor &&from) noexcept : dnn(from.dnn), object(std::exchange(from.object, nullptr)) {}
  Descriptor &operator=(Descriptor &&) = delete;
  ~Descriptor();

  /// Sets an attribute to `count` values of cudnnBackendAttributeType_t `type`.
  void set(int attribute, int type, int64_t count, const void *values);
  void setInteger(int attribute, int64_t value);
  void setElement(int attribute, Element value);
  void setObject(int attribute, void *value);
  void setFlag(int attribute);
  /// Finalizes the object; attributes can no longer be set. Throws that cuDNN cannot do `what`.
  void finish(const char *what);
  void *get() const { return object; }

  // cudnnBackendAttributeType_t.
  static constexpr int handleType = 0, elementType = 1, flagType = 2, integerType = 3, floatType = 4, doubleType = 5,
                       pointerType = 6, convolutionType = 7, heuristicType = 8, noteType = 11, pointwiseType = 14,
                       objectType = 15, reductionType = 18;

private:
  const GraphFunctions &dnn;
  void *object = nullptr;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DNNBACKEND_H
