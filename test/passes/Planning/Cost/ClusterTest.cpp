#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Cost/Prices.h"
#include "passes/Planning/Cost/Quantity.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace divisi::planning;
using divisi::test::unwrap;

namespace {

const Machine machine{64e9, 16};

std::optional<Cluster> parse(const std::string &text) {
  std::string error;
  auto cluster = unwrap(parseCluster(text, machine), error);
  EXPECT_EQ(cluster.has_value(), error.empty()) << text << ": " << error;
  return cluster;
}

std::string errorOf(const std::string &text) {
  std::string error;
  EXPECT_FALSE(unwrap(parseCluster(text, machine), error)) << text;
  return error;
}

TEST(Quantity, Text) {
  struct Case {
    const char *text;
    Unit unit;
    std::optional<double> value;
  };
  const Case cases[] = {
      {"80GB", Unit::bytes, 80e9},
      {" 80 GB ", Unit::bytes, 80e9},
      {"1.5TB", Unit::bytes, 1.5e12},
      {"64GiB", Unit::bytes, 68719476736.0},
      {"512MiB", Unit::bytes, 536870912.0},
      {"7kB", Unit::bytes, 7000.0},
      {"7KB", Unit::bytes, 7000.0},
      {"9B", Unit::bytes, 9.0},
      {"1e3B", Unit::bytes, 1000.0},
      {"900GB/s", Unit::bytesPerSecond, 900e9},
      {"25Gb/s", Unit::bytesPerSecond, 3.125e9},
      {"25 Gbit/s", Unit::bytesPerSecond, 3.125e9},
      {"1GiB/s", Unit::bytesPerSecond, 1073741824.0},
      {"989TFLOPS", Unit::flopsPerSecond, 989e12},
      {"50 GFLOP/s", Unit::flopsPerSecond, 50e9},
      {"1Pflops", Unit::flopsPerSecond, 1e15},
      {"5us", Unit::seconds, 5e-6},
      {"5µs", Unit::seconds, 5e-6},
      {"1.9us", Unit::seconds, 1.9e-6},
      {"250ns", Unit::seconds, 250e-9},
      {"3ms", Unit::seconds, 3e-3},
      {"2s", Unit::seconds, 2.0},
      {"-5us", Unit::seconds, -5e-6}, // the range is checked separately
      {"", Unit::bytes, std::nullopt},
      {"GB", Unit::bytes, std::nullopt},
      {"80", Unit::bytes, std::nullopt},
      {"80Gb", Unit::bytes, std::nullopt},
      {"80gb", Unit::bytes, std::nullopt},
      {"80GB/s", Unit::bytes, std::nullopt},
      {"80GB", Unit::bytesPerSecond, std::nullopt},
      {"1e999B", Unit::bytes, std::nullopt},
      {"0x10B", Unit::bytes, std::nullopt},
      {"80GBGB", Unit::bytes, std::nullopt},
      {"80G B", Unit::bytes, std::nullopt},
      {"5 minutes", Unit::seconds, std::nullopt},
      {"50%", Unit::share, std::nullopt},
  };
  for (const Case &test : cases) {
    auto value = parseQuantity(test.text, test.unit);
    EXPECT_EQ(value.has_value(), test.value.has_value()) << test.text;
    EXPECT_DOUBLE_EQ(value.value_or(0), test.value.value_or(0)) << test.text;
  }
}

TEST(Quantity, Range) {
  for (Unit unit : {Unit::bytes, Unit::bytesPerSecond, Unit::flopsPerSecond, Unit::seconds, Unit::share}) {
    EXPECT_TRUE(inRange(unit, 1));
    for (double value : {0.0, -1.0, (double)NAN, (double)INFINITY, -(double)INFINITY, 1e300})
      EXPECT_FALSE(inRange(unit, value)) << value;
  }
  EXPECT_FALSE(inRange(Unit::share, 1.01));
}

TEST(Presets, AllValid) {
  for (const char *text : {"cpu:1", "cpu:4", "cpu:65536", "v100", "a100", "a100-40gb", "h100", "h200", "8xv100",
                           "1xh100", "8xa100", "8xh100", "2x8xh100", "16x1xa100", "128x8xh100", "8192x8xh200",
                           "8xb200", "72xgb200", "2x72xgb200", "2x8xl40s", "rtx4090", "4xrtx4090", "2x8xmi300x"})
    EXPECT_EQ(parse(text).value_or(Cluster()).invalid(), "") << text;
}

TEST(Presets, Nodes) {
  auto one = parse("h100"), node = parse("8xh100"), many = parse("128x8xh100");
  ASSERT_TRUE(one && node && many);
  EXPECT_EQ(one->devices(), 1);
  EXPECT_TRUE(one->levels.empty());
  EXPECT_EQ(one->device, node->device);
  EXPECT_EQ(node->devices(), 8);
  ASSERT_EQ(node->levels.size(), 1u);
  EXPECT_LT(node->levels[0].bandwidth, 450e9); // half of the two-way 900 GB/s, without the protocol
  EXPECT_EQ(many->devices(), 1024);
  ASSERT_EQ(many->levels.size(), 2u);
  EXPECT_EQ(many->levels[0], node->levels[0]);
  EXPECT_EQ(many->levels[1].size, 128);
  EXPECT_EQ(many->levels[1].bandwidth, 8 * 400e9 / 8);
  EXPECT_EQ(parse("2x8xv100")->levels[1].bandwidth, 4 * 100e9 / 8);
  EXPECT_EQ(parse("2x8xa100")->levels[1].bandwidth, 8 * 200e9 / 8);
  EXPECT_EQ(parse("2x4xa100")->levels[1].bandwidth, 4 * 200e9 / 8);
}

TEST(Presets, NamesWithAnX) {
  auto many = parse("16x8xmi300x");
  ASSERT_TRUE(many);
  EXPECT_EQ(many->devices(), 128);
  EXPECT_EQ(many->levels[0].name, "infinity fabric");
  EXPECT_FALSE(many->device.programs);
  EXPECT_TRUE(parse("8xrtx4090")->device.programs);
  EXPECT_NE(errorOf("73xgb200").find("at most 72 GPUs in a node; 2x72xgb200"), std::string::npos);
  for (const char *text : {"xmi300x", "8mi300x", "8xmi300", "8xx", "x8xrtx4090", "8x4090"})
    EXPECT_NE(errorOf(text), "") << text;
}

TEST(Presets, RanksShareTheMachine) {
  auto cluster = parse("cpu:4");
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->devices(), 4);
  EXPECT_EQ(cluster->device.kind, "cpu");
  EXPECT_EQ(cluster->device.memory, 16e9);
  EXPECT_EQ(cluster->device.flops[Cluster::Device::fp32], 4 * 35e9);
  // Fewer devices share the machine among them, as if it had been divided by their number.
  for (int64_t count : {1, 2, 4}) {
    Cluster few = cluster->used(count);
    EXPECT_EQ(few.device, parse("cpu:" + std::to_string(count))->device);
    EXPECT_EQ(few.used(count), few);
  }
  auto gpus = parse("4xh100");
  EXPECT_EQ(gpus->used(2), *gpus);
  Machine here = thisMachine();
  EXPECT_GT(here.memory, 1e8);
  EXPECT_GE(here.cores, 1);
}

TEST(Presets, OblongMatmulsAndLargeMessagesTakeLonger) {
  const Rates rates{1e11, 2e10, 0, {}, {}, {}, {}, {{1 << 20, 1e10}}};
  std::string error;
  auto with = [&](const Rates &of, double large) {
    return *unwrap(parseCluster("cpu:2", {64e9, 2, Calibration{8e9, of, of, large}}), error);
  };
  const Cluster plain = with({1e11, 2e10}, 0), measured = with(rates, 4e9);
  const auto fp32 = Cluster::Device::fp32, bf16 = Cluster::Device::bf16;
  auto longer = [&](double m, double n, double k, Cluster::Device::Precision precision, bool images = false) {
    divisi::step::Work work{divisi::graph::Form::product, 2 * m * n * k, 0};
    work.m = m, work.n = n, work.k = k, work.images = images;
    return Prices(measured.device).seconds(work, precision) - Prices(plain.device).seconds(work, precision);
  };
  // A square of as many multiplications would have the side 512: its operands and half of its result are what is not counted.
  const double a = 16 * 2048, b = 2048 * 4096, c = 16 * 4096, square = 2.5 * 512 * 512;
  EXPECT_NEAR(longer(16, 4096, 2048, fp32), 4 * (a + b + c / 2 - square) / 1e10, 1e-12);
  EXPECT_NEAR(longer(16, 4096, 2048, bf16), 2 * (a + b + c / 2 - square) / 1e10, 1e-12);
  EXPECT_NEAR(longer(512, 512, 512, fp32), 0, 1e-12);
  EXPECT_EQ(longer(16, 4096, 2048, fp32, /*images=*/true), 0);

  const divisi::dist::Mesh mesh{{{"data", 2}}};
  auto sent = [&](const Cluster &cluster, double bytes) {
    return stepSeconds(linkOf(cluster, mesh, {0}), divisi::dist::ReshardStep::Kind::allReduce, bytes);
  };
  EXPECT_EQ(sent(measured, 1 << 20), sent(plain, 1 << 20));
  const double large = Calibration::largeMessage;
  EXPECT_NEAR(sent(measured, large) - sent(plain, large), large / 4e9 - large / 8e9, 1e-12);
  const Transfer transfer[] = {{0, 1}};
  EXPECT_NEAR(transferSeconds(measured, transfer, large) - transferSeconds(plain, transfer, large), large / 4e9 - large / 8e9, 1e-12);
}

TEST(Presets, RanksShareWhatWasMeasured) {
  // Of 16 cores: one thread, and all of them together, 4 times as fast with large matmuls, no faster with small ones.
  const Rates core{1e11, 2e9, 0, {{1e6, 1e11}, {1e8, 1e11}}, {}, {{1 << 16, 2e10}}};
  const Rates all{4e11, 2e10, 0, {{1e6, 1e11}, {1e8, 4e11}}, {{1e7, 3e11}}, {{1 << 20, 1e11}}};
  Calibration measured{5e9, core, all};
  measured.core.convolutions = {{1e7, 0.75e11}};
  measured.core.filters = {{1e7, 0.75e11}}, measured.all.filters = {{1e7, 1e11}};
  Machine calibrated{64e9, 16, measured};
  std::string error;
  auto of = [&](int64_t ranks) { return unwrap(parseCluster("cpu:" + std::to_string(ranks), calibrated), error); };
  auto cluster = of(4);
  ASSERT_TRUE(cluster) << error;
  EXPECT_EQ(cluster->calibration, measured.name());
  EXPECT_EQ(cluster->levels[0].bandwidth, 5e9); // between two processes, however many there are
  for (int64_t count : {1, 2, 4})
    EXPECT_EQ(cluster->used(count).device, of(count)->device);

  // One rank has the figures of all cores, 16 those of a core, and 4 those half way between on a logarithmic scale.
  const auto fp32 = Cluster::Device::fp32;
  EXPECT_NEAR(of(1)->device.flops[fp32], 4e11, 1);
  EXPECT_NEAR(of(16)->device.flops[fp32], 1e11, 1);
  EXPECT_NEAR(cluster->device.flops[fp32], 2e11, 1);
  EXPECT_NEAR(cluster->device.bandwidth, std::sqrt(2e9 * 2e10), 1);
  EXPECT_NEAR(cluster->device.convolutions[0].rate, 1.5e11, 1);
  // Two ranks on a core have half of its time and of its caches.
  EXPECT_NEAR(of(32)->device.flops[fp32], 0.5e11, 1);
  EXPECT_NEAR(of(32)->device.kernels[0].size, 1 << 15, 1e-6);

  // A matmul at a measured size, half way between two on a logarithmic scale, and beyond the last; a convolution; traffic
  // inside of a cache, of which kernels of teams reach half, and beyond.
  const Prices one(of(1)->device);
  auto productOf = [&](double flops, double bytes) {
    divisi::step::Work work{divisi::graph::Form::product, flops, bytes};
    work.n = 64;
    return work;
  };
  auto seconds = [&](double flops, double bytes) { return one.seconds(productOf(flops, bytes), fp32); };
  EXPECT_NEAR(seconds(1e6, 0), 1e6 / 1e11, 1e-12);
  EXPECT_NEAR(seconds(1e7, 0), 1e7 / 2e11, 1e-12);
  EXPECT_NEAR(seconds(1e9, 0), 1e9 / 4e11, 1e-12);
  divisi::step::Work images = productOf(1e7, 0);
  images.images = true;
  EXPECT_NEAR(one.seconds(images, fp32), 1e7 / 3e11, 1e-12);
  images.n = 24; // channels: two blocks of 16
  EXPECT_NEAR(one.seconds(images, fp32), 1e7 / 3e11 * 32 / 24, 1e-12);
  images.n = 64, images.filters = true;
  EXPECT_NEAR(one.seconds(images, fp32), 1e7 / 1e11, 1e-12);
  EXPECT_NEAR(seconds(0, 1 << 19), (1 << 19) / 0.5e11, 1e-12);
  EXPECT_NEAR(of(16)->device.kernels[0].rate, 0.6 * 2e10, 1); // of a core, which finds what it has written itself
  // The ends of rows are divided among the threads for which the kernel is large enough: 64 KiB each.
  auto rowSeconds = [&](double bytes, double sums) {
    divisi::step::Work work{divisi::graph::Form::elementwise, 0, bytes};
    work.rowSums = sums;
    return one.seconds(work, fp32);
  };
  EXPECT_NEAR(rowSeconds(1 << 15, 1000) - rowSeconds(1 << 15, 0), 12e-6, 1e-12);
  EXPECT_NEAR(rowSeconds(1 << 18, 1000) - rowSeconds(1 << 18, 0), 12e-6 / 4, 1e-12);
  EXPECT_NEAR(rowSeconds(1 << 24, 1000) - rowSeconds(1 << 24, 0), 12e-6 / 16, 1e-12);
  EXPECT_NEAR(seconds(0, 1 << 21), (1 << 21) / 2e10, 1e-12);
  // Of a batch each of the 16 cores computes a matmul at a time, which decides the rate, with a core for each 2^18 FLOPs; of fewer
  // matmuls than cores all of them compute each. The columns of squares of 1e3 / 2 = 7.94^3 fill half of a vector, as 8 of other
  // matmuls do; smaller ones take as long.
  auto batchSeconds = [&](double batch, double each) {
    divisi::step::Work work = productOf(batch * each, 0);
    work.batch = batch;
    return one.seconds(work, fp32);
  };
  Calibration slowest = measured;
  slowest.core.matmuls = {{1e3, 1e9}, {1e5, 1e10}, {1e8, 1e11}};
  slowest.all.matmuls = {{1e3, 1e9}, {1e5, 1e10}, {1e8, 4e11}};
  EXPECT_NEAR(batchSeconds(32, 1e7), 32 * 1e7 / (16 * 1e11), 1e-12);
  EXPECT_NEAR(batchSeconds(8, 1e8), 8 * 1e8 / 4e11, 1e-12);
  const Prices small(unwrap(parseCluster("cpu:1", {64e9, 16, slowest}), error)->device);
  slowest.all.matmuls[0].rate = 3e9; // what one thread reaches, and two in one process do not
  EXPECT_NEAR(unwrap(parseCluster("cpu:16", {64e9, 16, slowest}), error)->device.batches[0].rate, 3e9 * 16 / std::cbrt(500), 1);
  for (int batch : {32, 1024, 16384})
    for (double each : {1e3, 500.0, 300.0}) {
      const double threads = std::min(16.0, std::ceil(batch * each / (1 << 18)));
      divisi::step::Work work = productOf(batch * each, 0);
      work.batch = batch, work.n = std::cbrt(500);
      EXPECT_NEAR(small.seconds(work, fp32), batch * 1e3 / (threads * 1e9), 1e-12) << each;
    }
  std::mt19937 random(5); // no matmul is faster than the bound of all
  for (int64_t ranks : {1, 4, 16, 32}) {
    const Cluster::Device device = unwrap(parseCluster("cpu:" + std::to_string(ranks), {64e9, 16, slowest}), error)->device;
    for (int round = 0; round < 200; ++round) {
      divisi::step::Work work{divisi::graph::Form::product};
      for (double *size : {&work.batch, &work.m, &work.n, &work.k})
        *size = 1 + (double)(random() % (1 << random() % 11));
      work.flops = 2 * work.batch * work.m * work.n * work.k;
      EXPECT_GE(Prices(device).seconds(work, fp32), work.flops / fastestMatmuls(device) * (1 - 1e-9));
    }
  }
  // Matmuls of bf16 are faster in the proportion of large ones, if that was measured; nothing else is.
  Calibration units = measured;
  units.core.bf16 = 3e11, units.all.bf16 = 12e11;
  const Prices both(unwrap(parseCluster("cpu:1", {64e9, 16, units}), error)->device);
  for (double flops : {1e6, 0.5e7, 1e9}) {
    divisi::step::Work product = productOf(flops, 0), kernel{divisi::graph::Form::elementwise, flops, 0};
    EXPECT_NEAR(both.seconds(product, Cluster::Device::bf16) * 3, both.seconds(product, fp32), 1e-12);
    EXPECT_EQ(both.seconds(product, Cluster::Device::fp16), both.seconds(product, fp32));
    EXPECT_EQ(one.seconds(product, Cluster::Device::bf16), one.seconds(product, fp32));
    EXPECT_EQ(both.seconds(kernel, fp32), one.seconds(kernel, fp32));
  }
}

/// FLOP/s of matmuls [m, k] by [k, n] with operands of 16 bits, on average.
double rateOf(const char *gpu, const std::vector<std::array<double, 3>> &shapes) {
  const Prices prices(*gpuPreset(gpu));
  double sum = 0;
  for (auto [m, n, k] : shapes) {
    divisi::step::Work work{divisi::graph::Form::product, 2 * m * n * k, 2 * (m * k + k * n + m * n)};
    work.m = m, work.n = n, work.k = k;
    sum += work.flops / prices.seconds(work, Cluster::Device::fp16);
  }
  return sum / (double)shapes.size();
}

TEST(Prices, MatmulsAsMeasured) {
  const std::vector<std::array<double, 3>> square = {{8192, 8192, 8192}};
  const std::vector<std::array<double, 3>> llama = {
      {16384, 8192, 1280}, {16384, 1024, 8192}, {16384, 8192, 7168}, {16384, 3584, 8192}, {8192, 8192, 8192}};
  EXPECT_NEAR(rateOf("a100", square), 258e12, 3e12);
  EXPECT_NEAR(rateOf("v100", square), 83 / 112.7 * 125e12, 1e12);
  EXPECT_NEAR(rateOf("h100", llama), 720e12, 8e12);
  EXPECT_NEAR(rateOf("h200", llama), 720e12, 8e12);
  EXPECT_NEAR(rateOf("mi300x", llama), 620e12, 7e12);
}

TEST(Prices, KernelsHaveNoFusedMultiplyAdd) {
  const Prices prices(*gpuPreset("a100"));
  // 64 lanes of 108 multiprocessors at 1.41 GHz, of which 0.9 are reached.
  const double instructions = 64 * 108 * 1.41e9 * 0.9;
  divisi::step::Work kernel{divisi::graph::Form::elementwise, 1e12, 1};
  EXPECT_NEAR(prices.seconds(kernel, Cluster::Device::fp32) * instructions, 1e12, 0.01e12);
}

TEST(Prices, ConvolutionsInTf32CopyImagesBeforeHopper) {
  divisi::step::Work work{divisi::graph::Form::product, 0, 1.555e12 * 0.85 * 1e-3}; // what an A100 moves in a millisecond
  auto seconds = [&](const char *gpu, bool images, auto precision) {
    work.images = images;
    return Prices(*gpuPreset(gpu)).seconds(work, precision, 0);
  };
  EXPECT_NEAR(seconds("a100-40gb", false, Cluster::Device::tf32), 1e-3, 1e-9);
  // The share is written and read once more; ResNet-50's 66.9 GB come to 2 x 44.6 GB more.
  EXPECT_NEAR(seconds("a100-40gb", true, Cluster::Device::tf32), 1e-3 * (1 + 2 * 44.6 / 66.9), 1e-9);
  EXPECT_NEAR(seconds("a100-40gb", true, Cluster::Device::bf16), 1e-3, 1e-9);
  EXPECT_EQ(seconds("h200", true, Cluster::Device::tf32), seconds("h200", false, Cluster::Device::tf32));
}

/// FLOP/s of attention's forward pass and gradient together, for one head and as many queries as keys.
double rateOfAttention(const char *gpu, double keys, double depth, bool causal) {
  divisi::step::Work work{divisi::graph::Form::attention, 14 * keys * keys * depth * (causal ? 0.5 : 1)};
  work.keys = keys, work.depth = depth, work.causal = causal;
  return work.flops / Prices(*gpuPreset(gpu)).seconds(work, Cluster::Device::fp16, 0);
}

/// GPT-2's attention as Divisi's program ran it on an H100 (cuDNN 9.19): 8 x 12 heads, 1,024 keys, causal. The gradient keeps
/// scores to add in a fixed order.
TEST(Prices, AttentionOfPrograms) {
  const double forward = 4.0 * 96 * 1024 * 1024 * 64 / 2;
  divisi::step::Work work{divisi::graph::Form::attention, forward};
  work.keys = 1024, work.depth = 64, work.causal = true;
  Prices prices(*gpuPreset("h100"));
  EXPECT_NEAR(prices.seconds(work, Cluster::Device::bf16), 50.5e-6, 5e-6);
  work.flops = forward / 4 * 10;
  work.scores = 96 * 1024 * 1024 / 2;
  EXPECT_NEAR(prices.seconds(work, Cluster::Device::bf16), 192e-6, 19e-6);
}

/// GPT-2's attention as programs ran it on two cores with AMX, and by widened operands: 12 heads, 1,024 tokens, causal.
TEST(Prices, AttentionOnProcessors) {
  const double forward = 2.0 * 12 * 1024 * 1024 * 64;
  for (auto [bf16, seconds, ofGradient] : {std::tuple(1.45e12, 6.2e-3, 12.3e-3), {0.0, 13e-3, 30e-3}}) {
    Calibration measured{8e9, {1.5e11, 1e10, bf16 / 2, {}, {}, {}}, {3e11, 2e10, bf16, {}, {}, {}}};
    std::string error;
    const Prices prices(unwrap(parseCluster("cpu:1", {64e9, 2, measured}), error)->device);
    divisi::step::Work work{divisi::graph::Form::attention, forward};
    work.keys = 1024, work.depth = 64, work.causal = true;
    EXPECT_NEAR(prices.seconds(work, Cluster::Device::bf16), seconds, 0.22 * seconds);
    work.flops = 2.5 * forward;
    EXPECT_NEAR(prices.seconds(work, Cluster::Device::bf16), ofGradient, 0.22 * ofGradient);
  }
}

TEST(Prices, AttentionAsMeasured) {
  struct Case {
    const char *gpu;
    double keys, depth, measured; // Tflop/s
  };
  const Case cases[] = {{"a100", 512, 64, 132},   {"a100", 1024, 64, 153},   {"a100", 16384, 64, 176},
                        {"a100", 16384, 128, 203}, {"h100", 512, 64, 283},    {"h100", 2048, 64, 395},
                        {"h100", 16384, 64, 427},  {"h100", 512, 128, 343},   {"h100", 2048, 128, 500},
                        {"h100", 16384, 128, 537}};
  for (const Case &test : cases)
    EXPECT_NEAR(rateOfAttention(test.gpu, test.keys, test.depth, false), test.measured * 1e12, 0.1 * test.measured * 1e12)
        << test.gpu << " " << test.keys << " " << test.depth;
  // With a mask, beside without: cuDNN's forward pass on H100.
  const double keys[] = {512, 2048, 16384}, masked[] = {315, 484, 539}, unmasked[] = {497, 617, 595};
  for (int i : {0, 1, 2})
    EXPECT_NEAR(rateOfAttention("h100", keys[i], 128, true) / rateOfAttention("h100", keys[i], 128, false),
                masked[i] / unmasked[i], 0.07);
}

TEST(Presets, Unknown) {
  for (const char *text : {"", "x", "h1000", "H100", "8x", "xh100", "8xxh100", "2x2x8xh100", "-8xh100", "+8xh100",
                           "0xh100", "8.5xh100", "99999999999999999999xh100", "cpu", "h100 "})
    EXPECT_NE(errorOf(text).find("a100-40gb, h100"), std::string::npos) << text;
  for (const char *text : {"cpu:", "cpu:0", "cpu:-1", "cpu:65537", "cpu:4x"})
    EXPECT_NE(errorOf(text).find("from 1 to 65536"), std::string::npos) << text;
  EXPECT_NE(errorOf("16xh100").find("at most 8 GPUs"), std::string::npos);
  EXPECT_NE(errorOf("65536x8xh100").find("at most 65536 devices"), std::string::npos);
  EXPECT_EQ(errorOf("nowhere.toml"), "nowhere.toml: cannot be read");
}

TEST(Cluster, Invalid) {
  auto expect = [](const char *what, auto change) {
    Cluster cluster = *parse("2x8xh100");
    change(cluster);
    EXPECT_EQ(cluster.invalid().find(what), 0u) << cluster.invalid();
  };
  expect("device.memory", [](Cluster &c) { c.device.memory = NAN; });
  expect("device.bandwidth", [](Cluster &c) { c.device.bandwidth = 0; });
  expect("device.flops", [](Cluster &c) { c.device.flops[2] = -1; });
  expect("device.compute-efficiency", [](Cluster &c) { c.device.computeEfficiency[2] = 1.5; });
  expect("device.launch", [](Cluster &c) { c.device.launch = INFINITY; });
  expect("device.kind", [](Cluster &c) { c.device.kind = "tpu"; });
  expect("level.bandwidth", [](Cluster &c) { c.levels[1].bandwidth = -1; });
  expect("level.latency", [](Cluster &c) { c.levels[0].latency = 0; });
  expect("level.size", [](Cluster &c) { c.levels[0].size = 0; });
  expect("level.size", [](Cluster &c) { c.levels[0].size = INT64_MAX; });
  expect("level.size", [](Cluster &c) { c.levels.assign(6, {"l", 1 << 11, 1, 1}); });
  expect("level: ", [](Cluster &c) { c.levels.assign(7, {"l", 1, 1, 1}); });
}

} // namespace
