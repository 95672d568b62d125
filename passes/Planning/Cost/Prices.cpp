#include "passes/Planning/Cost/Prices.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace divisi;
using namespace divisi::planning;
using graph::Form;

namespace {

/// Output tiles of GPUs' libraries, and the share of a multiprocessor's best rate that each reaches with tensor cores
/// and without: smaller ones load more of their operands for each product. By NVIDIA's "Matrix Multiplication
/// Background" guide (tile efficiency: 256x128 and 128x256 are the best, 64x64 comes to little more than half of their
/// rate).
struct Tile {
  double m, n, share, vectorShare;
};
constexpr Tile tiles[] = {{256, 128, 1, 1},     {128, 256, 1, 1},     {128, 128, 0.93, 1},
                          {128, 64, 0.8, 0.95}, {64, 128, 0.8, 0.95}, {64, 64, 0.6, 0.85}};
/// What a tile takes beside its products: the first loads come from memory one after the other (0.5 us each on these
/// GPUs, Jia et al., arXiv 1804.06826: indices, then operands), and the result is written at the end, over the
/// processor's part of the bandwidth; with two tiles on a processor, half of that overlaps with the other's products.
constexpr double tileFill = 1e-6, shownWrites = 0.5;
/// Parts of k that different multiprocessors may sum (split-k, stream-k).
constexpr double mostSplits = 64;

/// Depths of heads for which figures of fused attention were published. On A100: FlashAttention-2 (arXiv 2307.08691,
/// figure 5: 176 of 312 Tflop/s at a depth of 64 and 203 at 128, of 16 k keys; 132 and 153 at 512 and 1 k). On H100:
/// cuDNN in FlashAttention-3's figures 5 and 6 (arXiv 2407.08608; Presets.cpp).
constexpr double shallow = 64, deep = 128;
/// Under a causal mask a query sees half of the keys, and of the rate that this leaves 0.88 is reached: blocks on the
/// diagonal are computed whole, and rows take unequal times. By the same figure 5, cuDNN's forward pass at a depth of 128:
/// 315, 484 and 539 Tflop/s at 512, 2 k and 16 k keys, and 497, 617 and 595 without the mask.
constexpr double causalShare = 0.88;
/// Bytes of each score that cuDNN's gradient of attention writes and reads, to add in a fixed order. With them, 124 us of
/// arithmetic by the figures above become 194 for 8 x 12 heads x 1,024 keys under a causal mask; 192 were measured (H100, cuDNN 9.19).
constexpr double bytesOfScore = 2 * 2;
/// Of the rate of other convolutions in TF32, that gradients of filters reach which are added in a fixed order: those of
/// ResNet-50 whose arithmetic limits them took 1.5 to 1.9 times as long as without this (H100, cuDNN 9.19; in bf16 1.0 to 1.4).
constexpr double shareOfFilters = 0.6;
/// Of the peak in fp32, that convolutions of one channel a group reach, with or without tensor cores: 0.06 to 0.11 for 3 x 3, 5 x 5
/// and 7 x 7 points (EfficientNet-B0, MobileNetV3, ConvNeXt-T in bf16; H100, cuDNN 9.19). Gradients of filters reach twice as much,
/// gradients of images with strides of 2 a quarter.
constexpr double shareOfDepthwise = 0.09;
/// Kernels beside a convolution's on tensor cores: one transposes the filter; a gradient of a filter is added up from parts and
/// transposed. (The same networks and ResNet-50: 3 to 6 us more than without, and 10 to 20.)
constexpr int kernelsOfConvolution = 1, kernelsOfFilters = 3;
/// Of a GPU's peak, which counts a fused multiply-add as two operations: kernels have an instruction for each, since
/// additions are not contracted (docs/decisions.md, "a value has the same bits in every kernel").
constexpr double shareOfKernels = 0.5;
/// The same of a processor's, by the peak of matmuls: kernels have no fused multiply-add either, use half of the widest vectors,
/// and load what they compute with (docs/numbers.md, "Kernels of CPU programs").
constexpr double shareOfCpuKernels = 0.35;
/// Of attention on a processor: what its GEMMs reach of the peak, by blocks of queries of one head; and the operations of kernels for each
/// score (softmax, its gradient, rounding), by those of GEMMs of heads with a depth of 1: 40 forward, 100 in the gradient. (GPT-2 small,
/// 1,024 tokens: forward 6.2 ms a layer, gradient 12.3, on two cores with AMX; without units for bf16 13 and 30. The prices are 0.78,
/// 0.99, 1.1 and 1.2 times as high.)
constexpr double shareOfCpuAttention = 0.45, operationsOfScore = 10;
/// Seconds in which a core ends the sum of a row: the parts of a vector are added, and what follows waits for them. (8 to 17 ns for each
/// sum of softmax and layer norms over rows of 10 and 16 elements; EPYC with AVX-512.)
constexpr double endOfRow = 12e-9;
/// Bytes of a kernel that are worth a thread: 8,192 elements that are read and written.
constexpr double bytesOfThread = 2 * 8192 * 4;
/// Of a batch of matmuls, that are worth a thread (parallelWork in runtime/devices/cpu/Gemm.cpp).
constexpr double flopsOfThread = 2 << 17;
} // namespace

/// The share of the tensor cores' peak that fused attention reaches.
static double shareOfAttention(const step::Work &work, const Cluster::Device::Attention &known) {
  double at = std::clamp((work.depth - shallow) / (deep - shallow), 0.0, 1.0);
  double share = known.share + at * (known.deepShare - known.share);
  double keys = work.causal ? work.keys / 2 : work.keys;
  return (work.causal ? causalShare : 1) * share * keys / (keys + known.half);
}

double planning::rateOf(double size, llvm::ArrayRef<Rate> points, double ofLarger) {
  const Rate *above = llvm::find_if(points, [&](const Rate &point) { return size <= point.size; });
  if (above == points.end())
    return ofLarger;
  if (above == points.begin())
    return above->rate;
  double at = std::log(size / above[-1].size) / std::log(above->size / above[-1].size);
  return above[-1].rate * std::pow(above->rate / above[-1].rate, at);
}

double planning::fastestMatmuls(const Cluster::Device &device) {
  double fastest = *llvm::max_element(device.flops);
  const double narrower = fastest / device.flops[Cluster::Device::fp32];
  for (const auto *points : {&device.matmuls, &device.batches})
    for (const Rate &point : *points)
      fastest = std::max(fastest, point.rate * narrower);
  return fastest;
}

double planning::mostTimesFaster(const Cluster::Device &one, const Cluster::Device &many, int64_t count) {
  const double n = (double)count;
  double most = n;
  auto compare = [&](llvm::ArrayRef<Rate> alone, llvm::ArrayRef<Rate> together, double largeAlone, double largeTogether) {
    auto at = [&](double size) {
      for (double near : {size, size * (1 + 1e-9)}) // rates change between the points' sizes alone, and behind the last
        most = std::max(most, n * rateOf(near / n, together, largeTogether) / rateOf(near, alone, largeAlone));
    };
    for (const Rate &point : alone)
      at(point.size);
    for (const Rate &point : together)
      at(point.size * n);
    most = std::max(most, n * largeTogether / largeAlone);
  };
  compare(one.matmuls, many.matmuls, one.flops[Cluster::Device::fp32], many.flops[Cluster::Device::fp32]);
  for (auto rates : {&Cluster::Device::convolutions, &Cluster::Device::filters})
    if (!(one.*rates).empty())
      compare(one.*rates, many.*rates, (one.*rates).back().rate, (many.*rates).back().rate);
  double narrower = 1; // what fewer bits gain, which may differ
  for (int precision = 0; precision < Cluster::Device::precisions; ++precision)
    narrower = std::max(narrower, many.flops[precision] / many.flops[Cluster::Device::fp32] /
                                      (one.flops[precision] / one.flops[Cluster::Device::fp32]));
  most *= narrower;
  compare(one.kernels, many.kernels, one.bandwidth, many.bandwidth);
  return most;
}

/// The share of a processor's vectors that the columns of a product fill.
static double columnsUsed(const step::Work &work) { return work.n / (vectorOfCpu * std::ceil(work.n / vectorOfCpu)); }

/// FLOP/s of a matmul or convolution, on processors whose small ones are slower. The points are those of fp32; other
/// precisions are faster than it in the proportion of large matmuls.
static double rateOfProduct(const step::Work &work, const Cluster::Device &device, Prices::Precision precision) {
  const double large = device.flops[Cluster::Device::fp32];
  const double each = work.flops / work.batch; // of a batch
  double rate;
  if (work.images) {
    const auto &points = work.filters && !device.filters.empty() ? device.filters : device.convolutions;
    rate = points.empty() ? rateOf(work.flops, device.matmuls, large) : rateOf(work.flops, points, points.back().rate);
  } else if (work.batch >= std::max(2.0, device.threads) && !device.batches.empty()) { // a matmul on each thread
    const double filled = each / columnsUsed(work), least = device.batches.front().size; // below it, all take the same time
    rate = rateOf(filled, device.batches, device.batches.back().rate) * std::min(1.0, filled / least);
    rate *= std::min(1.0, std::ceil(work.flops / flopsOfThread) / device.threads);
  } else {
    rate = rateOf(each, device.matmuls, large);
  }
  return rate * (device.flops[precision] / large);
}

/// The bytes of an operand's element.
static double widthOf(Cluster::Device::Precision precision) {
  return precision == Cluster::Device::bf16 || precision == Cluster::Device::fp16 ? 2 : 4;
}

double planning::packedBytes(const step::Work &work, Cluster::Device::Precision precision) {
  if (work.form != Form::product || work.images)
    return 0;
  constexpr double writtenShare = 0.5, ofSquare = 2 + writtenShare;
  const double elements = work.m * work.k + work.k * work.n + writtenShare * work.m * work.n;
  const double square = ofSquare * std::pow(work.m * work.n * work.k, 2.0 / 3);
  return widthOf(precision) * work.batch * std::max(0.0, elements - square);
}

double Prices::shareOfShape(const step::Work &work, Precision precision) const {
  const bool tensorCores = device.flops[precision] > device.flops[Cluster::Device::fp32];
  const double rate = device.flops[precision] * device.computeEfficiency[precision] / (double)device.processors;
  double best = 0;
  for (const Tile &tile : tiles)
    for (double splits = 1; splits <= mostSplits; splits *= 2) {
      double count = work.batch * std::ceil(work.m / tile.m) * std::ceil(work.n / tile.n);
      double used = work.batch * work.m * work.n / (count * tile.m * tile.n); // of the tiles' area
      double waves = std::ceil(count * splits / (double)device.processors);
      double busy = count * splits / (waves * (double)device.processors);
      double share = tensorCores ? tile.share : tile.vectorShare;
      double products = 2 * tile.m * tile.n * work.k / splits / (rate * share); // seconds
      double written = tile.m * tile.n * widthOf(precision) * (double)device.processors / device.bandwidth;
      best = std::max(best, share * used * busy * products / (products + tileFill + shownWrites * written));
    }
  return best;
}

double Prices::efficiency(const step::Work &work, Precision precision) const {
  double share = device.computeEfficiency[precision];
  if (device.kind == "cpu") {
    if (work.form == Form::product)
      return share * columnsUsed(work);
    if (work.form == Form::attention) {
      const double kernels = shareOfCpuKernels * device.flops[Cluster::Device::fp32] / device.flops[precision];
      return share / (1 / shareOfCpuAttention + operationsOfScore / (work.depth * kernels));
    }
    return graph::isCall(work.form) ? share : shareOfCpuKernels * share;
  }
  if (device.processors <= 0)
    return share;
  if (work.form == Form::product) {
    if (work.images && work.batch > 1 && work.n == 1)
      return (work.filters ? 2 : 1) * shareOfDepthwise * device.flops[Cluster::Device::fp32] / device.flops[precision];
    return share * shareOfShape(work, precision) * (work.filters && precision == Cluster::Device::tf32 ? shareOfFilters : 1);
  }
  if (work.form == Form::attention && precision != Cluster::Device::fp32)
    return shareOfAttention(work, device.attention);
  return graph::isCall(work.form) ? share : shareOfKernels * share;
}

/// Seconds in which a processor arranges what a matmul that is no square reads more than a square one.
static double packing(const step::Work &work, const Cluster::Device &device, Prices::Precision precision) {
  const double bytes = device.packings.empty() ? 0 : packedBytes(work, precision);
  return bytes > 0 ? bytes / rateOf(bytes, device.packings, device.packings.back().rate) : 0;
}

/// Seconds in which a processor ends the sums of rows, if its threads are known.
static double rowEnds(const step::Work &work, const Cluster::Device &device) {
  return device.threads > 0 ? endOfRow * work.rowSums / std::clamp(work.bytes / bytesOfThread, 1.0, device.threads) : 0;
}

/// Seconds of the kernels that a GPU's library runs beside those of a call, `rate` being that of the memory.
static double besideCall(const step::Work &work, const Cluster::Device &device, Prices::Precision precision, int launches,
                         double rate) {
  if (device.processors <= 0)
    return 0;
  double seconds = bytesOfScore * work.scores / rate;
  if (!work.images || work.form != Form::product || precision == Cluster::Device::fp32)
    return seconds;
  seconds += launches * (work.filters ? kernelsOfFilters : kernelsOfConvolution) * device.launch;
  if (precision == Cluster::Device::tf32)
    seconds += 2 * device.copied * work.bytes / rate; // written and read
  return seconds;
}

double Prices::seconds(const step::Work &work, Precision precision, int launches) const {
  double peak = device.flops[precision], bandwidth = rateOf(work.bytes, device.kernels, device.bandwidth);
  if (work.form == Form::product)
    peak = rateOfProduct(work, device, precision);
  double arithmetic = work.flops > 0 ? work.flops / (peak * efficiency(work, precision)) : 0;
  double rate = bandwidth * device.memoryEfficiency;
  arithmetic += packing(work, device, precision);
  return std::max({arithmetic, work.bytes / rate, launches * device.launch}) + rowEnds(work, device) +
         besideCall(work, device, precision, launches, rate);
}
