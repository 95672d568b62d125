//===- NcclFunctions.h - the functions of NCCL ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_NCCLFUNCTIONS_H
#define DIVISI_RUNTIME_DEVICES_CUDA_NCCLFUNCTIONS_H

#include "runtime/devices/cuda/Driver.h"

#include <string>

namespace divisi::runtime::cuda {

using NcclComm = struct ncclComm *;

/// NCCL's functions: the name here, the symbol, and the arguments' types. All return a code.
#define DIVISI_NCCL(X)                                                                                                 \
  X(version, "ncclGetVersion", int *)                                                                                  \
  X(uniqueId, "ncclGetUniqueId", NcclId *)                                                                             \
  X(init, "ncclCommInitRank", NcclComm *, int, NcclId, int)                                                            \
  X(destroy, "ncclCommDestroy", NcclComm)                                                                              \
  X(abort, "ncclCommAbort", NcclComm)                                                                                  \
  X(asyncError, "ncclCommGetAsyncError", NcclComm, int *)                                                              \
  X(allReduce, "ncclAllReduce", const void *, void *, size_t, int, int, NcclComm, Stream)                              \
  X(allGather, "ncclAllGather", const void *, void *, size_t, int, NcclComm, Stream)                                   \
  X(reduceScatter, "ncclReduceScatter", const void *, void *, size_t, int, int, NcclComm, Stream)                      \
  X(send, "ncclSend", const void *, size_t, int, int, NcclComm, Stream)                                                \
  X(receive, "ncclRecv", void *, size_t, int, int, NcclComm, Stream)                                                   \
  X(groupStart, "ncclGroupStart")                                                                                      \
  X(groupEnd, "ncclGroupEnd")

/// ncclInt8: values of any type as bytes.
constexpr int ncclBytes = 0;
/// ncclInProgress: a code that is no error.
constexpr int ncclInProgress = 7;

/// ncclUniqueId.
struct NcclId {
  char bytes[128];
};

struct NcclFunctions {
#define DIVISI_NCCL_MEMBER(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  DIVISI_NCCL(DIVISI_NCCL_MEMBER)
#undef DIVISI_NCCL_MEMBER
  const char *(*errorText)(int) = nullptr;
  const char *(*lastError)(NcclComm) = nullptr;

  /// Throws std::runtime_error if NCCL is missing.
  NcclFunctions();
  void check(int code, const std::string &what) const;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_NCCLFUNCTIONS_H
