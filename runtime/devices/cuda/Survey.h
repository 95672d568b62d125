//===- Survey.h - what a machine has for GPUs -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_SURVEY_H
#define DIVISI_RUNTIME_DEVICES_CUDA_SURVEY_H

#include <cstddef>
#include <string>
#include <vector>

namespace divisi::runtime::cuda {

/// A library of NVIDIA's, or what is wrong with it.
struct LibraryInfo {
  std::string name, file, version;
  std::string problem; ///< empty: it can be used
  /// "cuDNN 9.19.0 (libcudnn.so.9)", or the problem.
  std::string text() const { return problem.empty() ? name + " " + version + " (" + file + ")" : problem; }
};

struct GpuInfo {
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int processors = 0;
  int clock = 0, memoryClock = 0; ///< MHz at most; 0: not known
  size_t bytes = 0, free = 0;
};

/// How two GPUs reach each other's memory.
enum class Link { ThroughHost, Peer, PeerWithAtomics };

/// What this machine has for GPUs.
struct Survey {
  std::string problem; ///< why no GPU can be used; empty: one can
  std::string driver;  ///< the version of CUDA that the driver supports; empty: there is no driver
  std::vector<GpuInfo> gpus;
  std::vector<std::vector<Link>> links; ///< by the numbers of two GPUs
  std::vector<LibraryInfo> libraries;   ///< cuBLASLt, cuDNN, NCCL
};

/// Asks the driver and starts the libraries, on the first GPU if there is one.
Survey survey();

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_SURVEY_H
