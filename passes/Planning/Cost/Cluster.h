#pragma once
#include "dialects/Graph/Precision.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::planning {

/// The rate of work of a size, in units of the size a second.
struct Rate {
  double size, rate;
  bool operator==(const Rate &) const = default;
};

/// What processors reach, measured.
struct Rates {
  double flops = 0;     // large fp32 matmuls, FLOP/s
  double bandwidth = 0; // of the memory, bytes/s
  double bf16 = 0;      // large bf16 matmuls, FLOP/s; 0: as fast as those of fp32
  /// Of small work, smallest first: matmuls and convolutions by FLOPs, kernels by the bytes that they read and write.
  std::vector<Rate> matmuls, convolutions, kernels;
  std::vector<Rate> filters = {}; // gradients of filters, whose threads add up what each computes of its images; by FLOPs
  /// At which matmuls that are no squares arrange their longer operands, by the bytes of these (packedBytes); none: at once.
  std::vector<Rate> packings = {};
  bool operator==(const Rates &) const = default;
};

struct Calibration {
  static constexpr double cachedMessage = 1 << 20, largeMessage = 8 << 20; // bytes, that are measured
  /// FLOPs of the largest matmuls that are measured in batches on one thread, also by the team.
  static constexpr double mostOnOneThread = 2 * 16 * 16 * 16;
  double message = 0; // between two processes, bytes/s, of messages of cachedMessage bytes
  Rates core;         // of one thread, while one on each other core does the same
  Rates all;          // of the threads of all cores together
  double large = 0;   // between two processes, bytes/s, of messages of largeMessage bytes, which no cache holds; 0: as fast
  bool operator==(const Calibration &) const = default;
  /// A short hash of the figures, which names them in reports and plans.
  std::string name() const;
};

/// The machine that "cpu:N" divides among its ranks.
struct Machine {
  double memory; // bytes
  int cores;
  std::optional<Calibration> calibration = std::nullopt; // none: figures of the kind
  bool operator==(const Machine &) const = default;
};
/// The machine that this process runs on, not calibrated.
Machine thisMachine();

/// Equal devices in a hierarchy of equal units: devices in a machine, machines in a rack, and so on. Device d is number
/// d % levels[0].size of its machine; d / levels[0].size is numbered likewise by levels[1].
struct Cluster {
  struct Device {
    using Precision = graph::Precision;
    using enum graph::Precision;
    static constexpr int precisions = 4;

    std::string kind; // "cpu" or "cuda"
    std::string name;
    double memory = 0;                         // bytes that a program may use
    std::array<double, precisions> flops = {}; // peak FLOP/s of dense matmuls, by Precision
    double bandwidth = 0;                      // of the memory, bytes/s
    std::array<double, precisions> computeEfficiency = {0.7, 0.7, 0.7, 0.7}; // share of the peak that large matmuls reach
    int64_t processors = 0;                    // multiprocessors of a GPU; 0: the shape of a matmul does not count
    double memoryEfficiency = 0.7;             // share of the bandwidth that other kernels reach
    double launch = 0;                         // the least time of a kernel or library call, seconds
    /// What a GPU's fused attention reaches, forward and backward together.
    struct Attention {
      double share, deepShare; // of the tensor cores' peak, with many keys, of heads of depth 64 and 128
      double half;             // keys with which it is half of that
      bool operator==(const Attention &) const = default;
    } attention = {0.56, 0.65, 160}; // of an A100 (Prices.cpp)
    double copied = 0;                         // share of a convolution's bytes in TF32 that it copies in another order
    bool programs = true;                      // whether Divisi writes programs for it; otherwise it only plans
    /// Rates of small work in place of `flops` and `bandwidth`, as in Rates. Between two points the logarithm of the rate
    /// is interpolated over that of the size. No convolutions: they are as fast as matmuls; no filters: as convolutions.
    std::vector<Rate> matmuls, convolutions, filters, kernels, packings;
    /// Of batches of at least `threads` matmuls, of which each thread computes one at a time: by the FLOPs of one matmul, with
    /// those in vain of columns that fill no vector (vectorOfCpu).
    std::vector<Rate> batches;
    double threads = 0; // of a processor; 0: not known

    bool operator==(const Device &) const = default;
  };
  struct Level {
    std::string name;
    int64_t size = 1;     // children of a unit; for the innermost level, devices of a machine (1 if there is one)
    double bandwidth = 0; // what a child sends, and receives at the same time, over all its links, bytes/s
    double latency = 0;   // of a message, seconds
    double uncached = 0;  // that each byte behind Calibration::cachedMessage of a message, or of what is sent in a collective, takes longer, seconds

    bool operator==(const Level &) const = default;
  };

  std::string name;
  Device device;
  std::vector<Level> levels; // innermost first; none for one device
  std::optional<Machine> machine; // that the devices divide: the fewer are used, the larger their shares
  bool copies = false;       // collectives are copied by the cores that compute: nothing overlaps with them
  std::string calibration;   // the name of the calibration whose figures these are; empty: a preset or a file

  static constexpr int64_t mostDevices = 65536;
  static constexpr size_t mostLevels = 6;

  int64_t devices() const;
  /// The cluster as a program on the first `count` devices (at most all) sees it: the same levels; of a divided machine
  /// each device has its final share of memory and cores.
  Cluster used(int64_t count) const;
  /// The devices in one child of each level: 1, the size of the innermost level, and so on.
  std::vector<int64_t> childSizes() const;
  /// An error text that names the wrong figure; empty if the cluster is valid. All functions that take a cluster expect
  /// a valid one.
  std::string invalid() const;
  bool operator==(const Cluster &) const = default;
};

/// The share of a machine that each of `ranks` has: one thread for each of its cores, or a part of a core's time.
Cluster::Device shareOf(const Machine &machine, int64_t ranks);

/// The figures of a GPU by its name in lower case ("h100"), from the vendor's data sheets.
std::optional<Cluster::Device> gpuPreset(llvm::StringRef name);
/// The names that gpuPreset knows, for errors.
std::string gpuPresetNames();

/// A cluster by text: "cpu:4" (ranks on the machine), "h100", "8xh100" (one node), "2x8xh100" (nodes on their usual
/// network), or the path of a .toml file. On failure an error of one line.
llvm::Expected<Cluster> parseCluster(llvm::StringRef text, const Machine &machine);

/// Devices of a kind ("cpu" or "cuda") in one machine, for decisions that are the same on every machine.
Cluster nominalCluster(llvm::StringRef kind, int64_t devices);

/// A cluster from the text of a TOML file (its format: examples/clusters). The text may be anything; on failure an
/// error `FILE:LINE: KEY: what is expected`.
llvm::Expected<Cluster> parseClusterFile(llvm::StringRef text, llvm::StringRef file);
/// The same from disk.
llvm::Expected<Cluster> readClusterFile(const std::string &file);

} // namespace divisi::planning
