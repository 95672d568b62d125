#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Cost/Prices.h"
#include "runtime/include/divisi/suggest.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>
#include <sched.h>
#include <unistd.h>

using namespace divisi;
using namespace divisi::planning;
using llvm::StringRef;

namespace {

struct Gpu {
  StringRef name, fullName;
  double memory;                                         // bytes
  std::array<double, Cluster::Device::precisions> flops; // flop/s, dense: fp32, tf32, bf16, fp16
  double bandwidth;                                      // bytes/s
  double links, adapter; // bytes/s one way: all of a GPU to others of its node, its part of the node's network
  int64_t processors;
  double tensorShare; // of the tensor cores' peak, that large matmuls reach with full tiles and waves
  StringRef fabric = "nvlink"; // the name of the links
  int64_t inNode = 8;          // GPUs, at most
  bool programs = true;        // whether Divisi writes programs for it
  Cluster::Device::Attention attention = Cluster::Device().attention;
  double copied = 0; // of a convolution's bytes in TF32
};

// cuDNN's attention on H100, forward and backward together (4 and 10 operations a point), from FlashAttention-3's figures
// 5 and 6 (arXiv 2407.08608), without a mask: at a depth of 64 283, 395 and 427 Tflop/s of 989 with 512, 2 k and 16 k
// keys; at 128 343, 500 and 537.
constexpr Cluster::Device::Attention hopperAttention = {0.44, 0.56, 245}, ampereAttention = Cluster::Device().attention;

// cuDNN's kernels for TF32 before Hopper's copy images into another order and back, in workspaces: 44.6 GB of the 66.9 that
// the images of ResNet-50's convolutions and gradients have (256 images, channels last, as programs have them) on A100, 32.3
// on L40S (that of RTX 4090 is assumed to be the same); 2.4 on H200 (suite `cudnn`, cuDNN 9.19).
constexpr double ampereCopies = 44.6 / 66.9, adaCopies = 32.3 / 66.9;

// Memory: the data sheet's gigabytes as decimal ones. The chips hold 2^30 each, 7% more: that is left to the CUDA
// context and to the workspaces of libraries. NVLink: links x what one carries one way after protocol (20.0, 20.0, 20.6
// of 25 GB/s: NCCL, src/graph/topo.h, SM70/SM80/SM90_NVLINK_BW). Bus bandwidths of nccl-tests' all_reduce on eight GPUs
// agree: A100 230-250 GB/s. Multiprocessors: the same sheets. Tensor cores hold less than their peak under a GPU's power
// limit, and more so with numbers like a network's than with zeros: 8192^3 on A100 SXM 258 of 312 Tflop/s with normally
// distributed operands, 295 with zeros (thonking.ai, "Strangely, Matrix Multiplications on GPUs Run Faster When Given
// Predictable Data"); on H100 and H200 SXM 720 of 989, on MI300X 620 of 1,307, for 8192^3 and four matmuls of Llama 70B
// with 16,384 tokens, normally distributed (SemiAnalysis, "MI300X vs H100 vs H200 Benchmark Part 1", 2024); 83 of 112.7
// for 8192^3 on V100 (Markidis et al., arXiv 1803.04014). The shares below make the prices of these matmuls (tiles and
// waves included, Prices.cpp) come to these rates on average. Network: InfiniBand adapters of the DGX, at line rate, in
// equal parts to its eight GPUs.
constexpr Gpu gpus[] = {
    // "NVIDIA V100 Tensor Core GPU" data sheet, SXM2 32 GB: 15.7 single, 125 tensor, 900 GB/s, 6 links. No tensor cores
    // for tf32 and bf16. "NVIDIA DGX-1 with Tesla V100 System Architecture" white paper: 4 x EDR (100 Gb/s).
    {"v100", "Tesla V100 SXM2 32GB", 32e9, {15.7e12, 15.7e12, 15.7e12, 125e12}, 900e9, 6 * 20e9, 4 * 12.5e9 / 8, 80, 0.754},
    // "NVIDIA A100 Tensor Core GPU" data sheet, SXM: 19.5 / 156 / 312 / 312, 2,039 and 1,555 GB/s, 12 links. "NVIDIA
    // DGX
    // A100" data sheet: 8 x ConnectX-6 (200 Gb/s).
    {"a100", "A100 SXM4 80GB", 80e9, {19.5e12, 156e12, 312e12, 312e12}, 2039e9, 12 * 20e9, 25e9, 108, 0.839, "nvlink", 8, true, ampereAttention, ampereCopies},
    {"a100-40gb", "A100 SXM4 40GB", 40e9, {19.5e12, 156e12, 312e12, 312e12}, 1555e9, 12 * 20e9, 25e9, 108, 0.839, "nvlink", 8, true, ampereAttention, ampereCopies},
    // "NVIDIA H100 Tensor Core GPU" data sheet, SXM: 67 / 989 / 1,979 / 1,979, the last three with sparsity, that is
    // twice
    // the dense peak; 3.35 TB/s, 18 links. "NVIDIA DGX H100" data sheet: 8 x ConnectX-7 (400 Gb/s).
    {"h100", "H100 SXM5 80GB", 80e9, {67e12, 494.5e12, 989e12, 989e12}, 3.35e12, 18 * 20.6e9, 50e9, 132, 0.789, "nvlink", 8, true, hopperAttention},
    // "NVIDIA H200 Tensor Core GPU" data sheet: an H100 with 141 GB at 4.8 TB/s. "NVIDIA DGX H200" data sheet.
    {"h200", "H200 SXM5 141GB", 141e9, {67e12, 494.5e12, 989e12, 989e12}, 4.8e12, 18 * 20.6e9, 50e9, 132, 0.789, "nvlink", 8, true, hopperAttention},
    // "NVIDIA HGX B200" data sheet, of eight: 600 / 9,000 / 18,000 dense; "NVIDIA DGX B200": 1,440 GB, 64 TB/s, 8 x
    // ConnectX-7. NCCL, src/graph/topo.h, SM100_NVLINK_BW: 40.1 of 50 GB/s. The best shape of a matmul: 1,745 of 2,250
    // ("Maximum Achievable Matmul FLOPS", stas00/ml-engineering, compute/accelerator); attention as on Hopper.
    {"b200", "B200 SXM 180GB", 180e9, {75e12, 1125e12, 2250e12, 2250e12}, 8e12, 18 * 40.1e9, 50e9, 148, 0.776, "nvlink", 8, true, hopperAttention},
    // "NVIDIA GB200 NVL72" data sheet, of 72: 13.4 TB, 576 TB/s, 5,760 single, 180,000 dense in bf16; a node is what
    // NVLink joins.
    {"gb200", "GB200 186GB", 186e9, {80e12, 1250e12, 2500e12, 2500e12}, 8e12, 18 * 40.1e9, 50e9, 148, 0.776, "nvlink", 72, true, hopperAttention},
    // "NVIDIA L40S" data sheet: 91.6 / 183 / 362 dense, 864 GB/s, 48 GB, PCIe 4.0 x16 (31.5 GB/s one way, of which
    // messages reach some 24). Servers of the OVX: a 400 Gb/s adapter for two GPUs. The share is assumed.
    {"l40s", "L40S 48GB", 48e9, {91.6e12, 183e12, 362e12, 362e12}, 864e9, 24e9, 25e9, 142, 0.8, "pcie", 8, true, ampereAttention, adaCopies},
    // "NVIDIA Ada GPU Architecture" white paper, RTX 4090: 82.6 single, 82.6 tf32 and 165.2 dense with fp32 sums, 1,008
    // GB/s. No GPU reaches another one's memory: messages cross PCIe 4.0 x16 twice. The share is assumed.
    {"rtx4090", "RTX 4090 24GB", 24e9, {82.6e12, 82.6e12, 165.2e12, 165.2e12}, 1008e9, 12e9, 12.5e9 / 8, 128, 0.9, "pcie", 8, true, ampereAttention, adaCopies},
    // "AMD Instinct MI300X" data sheet: 163.4 / 653.7 / 1,307.4 dense, 5.3 TB/s, 192 GB, seven links of 64 GB/s one way,
    // of which messages reach some 48; 304 compute units.
    {"mi300x", "Instinct MI300X 192GB", 192e9, {163.4e12, 653.7e12, 1307.4e12, 1307.4e12}, 5.3e12, 7 * 48e9, 50e9, 304, 0.503, "infinity fabric", 8, false},
};
// Of one step of a ring with NCCL's LL128 protocol: 1.9 and 4.0 us (NCCL, src/graph/tuning.cc, hwLat).
constexpr double nvlinkLatency = 1.9e-6, networkLatency = 4e-6;
// The same over PCIe and others: 4.0 us of the same table's networks, since messages take the same way through a host.
constexpr double pcieLatency = 4e-6;
// Of a short kernel in a replayed graph: 3.4 us on V100 (NVIDIA, "Getting Started with CUDA Graphs", 2019).
constexpr double gpuLaunch = 3.4e-6;
// Matmuls in fp32, without tensor cores: cuBLAS's sgemm comes to 90 % of the peak and more (the same arXiv 1803.04014).
constexpr double vectorShare = 0.9;
// Of the bandwidth, that kernels over large tensors reach: BabelStream's triad has 85 to 92 % on these GPUs; kernels that
// reduce rows beside come short of it.
constexpr double gpuMemoryShare = 0.85;

const Gpu *findGpu(StringRef name) {
  const Gpu *found = std::find_if(std::begin(gpus), std::end(gpus), [&](const Gpu &gpu) { return gpu.name == name; });
  return found == std::end(gpus) ? nullptr : found;
}

/// Rough figures of a machine that was not measured: 50 GFLOP/s a core in fp32 (16 lanes of fused multiply-add at 1.6
/// GHz, of which matmuls reach 0.7); 10 GB/s of memory for each core, four times as much out of the second-level caches
/// (1 MiB and more for a core of today's servers); messages through shared memory at 2 GB/s (two copies).
Calibration usualMachine(int cores) {
  auto of = [](double share) { return Rates{35e9 * share, 7e9 * share, 0, {}, {}, {{(1 << 20) * share, 4 * 7e9 * share}}}; };
  return {2e9, of(1), of(cores)};
}

/// Of what a copy reaches in the caches, that kernels of programs reach (docs/numbers.md, "Kernels of CPU programs"): they read more
/// operands, in other orders, that another kernel has just written, of a team also another thread.
constexpr double shareOfCopies = 0.6, ofTeam = 0.5;

Calibration figuresOf(const Machine &machine) {
  if (!machine.calibration)
    return usualMachine(machine.cores);
  Calibration figures = *machine.calibration;
  for (auto [rates, share] : {std::pair(&figures.core, shareOfCopies), std::pair(&figures.all, ofTeam)})
    for (Rate &point : rates->kernels)
      point.rate = std::max(std::min(point.rate, rates->bandwidth), point.rate * share);
  return figures;
}

/// Seconds that each byte of a message takes longer for which there is no cache.
double uncachedOf(const Calibration &figures) {
  constexpr double cached = Calibration::cachedMessage, large = Calibration::largeMessage;
  return figures.large > 0 ? std::max(0.0, large / figures.large - large / figures.message) / (large - cached) : 0;
}

/// "cpu:N": the ranks divide what the machine has.
Cluster cpuCluster(int64_t ranks, const Machine &machine) {
  Cluster cluster;
  cluster.name = "cpu:" + std::to_string(ranks);
  if (machine.calibration)
    cluster.calibration = machine.calibration->name();
  cluster.device = shareOf(machine, ranks);
  cluster.machine = machine;
  cluster.copies = true;
  constexpr double wakingUp = 10e-6; // of a thread, seconds
  const Calibration figures = figuresOf(machine);
  if (ranks > 1)
    cluster.levels.push_back({"shared memory", ranks, figures.message, wakingUp, uncachedOf(figures)});
  return cluster;
}

/// A number from 1 to the most devices, and nothing else.
std::optional<int64_t> parseCount(StringRef text) {
  int64_t count;
  if (text.empty() || !llvm::all_of(text, [](char c) { return c >= '0' && c <= '9'; }) ||
      text.getAsInteger(10, count) || count < 1 || count > Cluster::mostDevices)
    return std::nullopt;
  return count;
}

} // namespace

std::string Calibration::name() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::format("%.6g %.6g", message, large);
  for (const Rates *rates : {&core, &all}) {
    out << llvm::format(" %.6g %.6g %.6g", rates->flops, rates->bandwidth, rates->bf16);
    for (const auto *points : {&rates->matmuls, &rates->convolutions, &rates->filters, &rates->kernels, &rates->packings})
      for (const Rate &point : *points)
        out << llvm::format(" %.6g %.6g", point.size, point.rate);
  }
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true).substr(0, 8);
}

Machine planning::thisMachine() {
  cpu_set_t allowed; // what programs that start here may use, too
  int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  return {(double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), std::max(1, cores)};
}

Cluster::Device planning::shareOf(const Machine &machine, int64_t ranks) {
  const Calibration figures = figuresOf(machine);
  // Between one thread and all of them, rates grow with a power of the number of threads.
  const double threads = (double)machine.cores / (double)ranks, part = std::min(1.0, threads);
  const double at = threads > 1 ? std::log(threads) / std::log(machine.cores) : 0;
  auto between = [&](double core, double all) { return core * std::pow(all / core, at); };
  auto shareOf = [&](const std::vector<Rate> &core, const std::vector<Rate> &all) {
    std::vector<Rate> points;
    for (auto [one, whole] : llvm::zip(core, all))
      points.push_back({between(one.size, whole.size), between(one.rate, whole.rate) * part});
    return points;
  };
  const Rates &core = figures.core, &all = figures.all;
  Cluster::Device device;
  device.kind = "cpu";
  device.name = "cpu";
  device.memory = machine.memory / (double)ranks;
  device.flops.fill(between(core.flops, all.flops) * part);
  if (core.bf16 > 0 && all.bf16 > 0) // of what is smaller than fp32, nothing else speeds matmuls up
    device.flops[Cluster::Device::bf16] = between(core.bf16, all.bf16) * part;
  device.computeEfficiency.fill(1); // the figures are what work reaches
  device.bandwidth = between(core.bandwidth, all.bandwidth) * part;
  device.memoryEfficiency = 1;
  device.matmuls = shareOf(core.matmuls, all.matmuls);
  device.convolutions = shareOf(core.convolutions, all.convolutions);
  device.filters = shareOf(core.filters, all.filters);
  device.kernels = shareOf(core.kernels, all.kernels);
  device.packings = shareOf(core.packings, all.packings);
  device.threads = std::max(1.0, threads);
  for (auto [one, whole] : llvm::zip(core.matmuls, all.matmuls)) { // squares, in which what fills the last vector of columns is computed, too
    const double side = std::cbrt(one.size / 2), filled = std::max(1.0, vectorOfCpu / side);
    // Threads of one process, by which a core's rate is measured, disturb each other in OpenBLAS where ranks do not, or a batch that is
    // worth one thread.
    const double rate = one.size <= Calibration::mostOnOneThread ? std::max(one.rate, whole.rate) : one.rate;
    device.batches.push_back({one.size * filled, rate * filled * threads});
  }
  for (Rate &point : device.kernels)
    point.size *= part; // ranks on a core share its caches
  device.launch = 0.1e-6; // of a call or a kernel with little work, which stays on one thread
  return device;
}

std::optional<Cluster::Device> planning::gpuPreset(StringRef name) {
  const Gpu *gpu = findGpu(name);
  if (!gpu)
    return std::nullopt;
  Cluster::Device device;
  device.kind = "cuda";
  device.name = gpu->fullName.str();
  device.memory = gpu->memory;
  device.flops = gpu->flops;
  device.bandwidth = gpu->bandwidth;
  device.launch = gpuLaunch;
  device.memoryEfficiency = gpuMemoryShare;
  device.processors = gpu->processors;
  device.programs = gpu->programs;
  device.attention = gpu->attention;
  device.copied = gpu->copied;
  for (auto [precision, share] : llvm::enumerate(device.computeEfficiency))
    share = device.flops[precision] > device.flops[Cluster::Device::fp32] ? gpu->tensorShare : vectorShare;
  return device;
}

std::string planning::gpuPresetNames() {
  std::string names;
  for (const Gpu &gpu : gpus)
    names += (names.empty() ? "" : ", ") + gpu.name.str();
  return names;
}

Cluster planning::nominalCluster(StringRef kind, int64_t devices) {
  constexpr int64_t memory = 16ll << 30;
  constexpr int cores = 4; // of each device
  if (kind == "cpu")
    return cpuCluster(devices, {(double)(memory * devices), (int)(cores * devices)});
  Cluster cluster = llvm::cantFail(parseCluster("8xh100", thisMachine()));
  cluster.levels[0].size = devices;
  return cluster;
}

llvm::Expected<Cluster> planning::parseCluster(StringRef text, const Machine &machine) {
  if (text.ends_with(".toml"))
    return readClusterFile(text.str());
  auto fail = [&](const std::string &what) {
    return llvm::createStringError("cluster '" + text.take_front(80).str() + "': " + what);
  };
  StringRef ranks = text;
  if (ranks.consume_front("cpu:")) {
    auto count = parseCount(ranks);
    if (!count)
      return fail("expected a number of ranks after cpu:, from 1 to " + std::to_string(Cluster::mostDevices));
    return cpuCluster(*count, machine);
  }

  // The numbers before the GPU's name, which may have an x, too.
  StringRef kind = text.ltrim("0123456789x"), numbers = text.drop_back(kind.size());
  llvm::SmallVector<StringRef> parts;
  if (numbers.consume_back("x"))
    numbers.split(parts, 'x');
  else if (!numbers.empty())
    kind = text;
  const Gpu *gpu = findGpu(kind);
  llvm::SmallVector<int64_t> counts;
  for (StringRef part : parts)
    if (auto count = parseCount(part))
      counts.push_back(*count);
  if (!gpu || counts.size() != parts.size() || counts.size() > 2)
    return fail("expected cpu:N for ranks on this machine, a GPU (" + gpuPresetNames() +
                "), 8xh100 for a node, 2x8xh100 for nodes, or the path of a .toml file" +
                (gpu ? "" : didYouMean(kind, llvm::map_range(gpus, [](const Gpu &known) { return known.name; }))));

  Cluster cluster;
  cluster.name = text.str();
  cluster.device = *gpuPreset(gpu->name);
  if (counts.empty())
    return cluster;
  int64_t inNode = counts.back();
  if (inNode > gpu->inNode)
    return fail("expected at most " + std::to_string(gpu->inNode) + " GPUs in a node; 2x" + std::to_string(gpu->inNode) +
                "x" + kind.str() + " are two nodes");
  cluster.levels.push_back({gpu->fabric.str(), inNode, gpu->links, gpu->fabric == "nvlink" ? nvlinkLatency : pcieLatency});
  if (counts.size() == 2)
    cluster.levels.push_back({"infiniband", counts.front(), gpu->adapter * inNode, networkLatency});
  if (cluster.devices() > Cluster::mostDevices)
    return fail("expected at most " + std::to_string(Cluster::mostDevices) + " devices");
  return cluster;
}
