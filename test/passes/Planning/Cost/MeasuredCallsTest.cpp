// Prices beside the times of library calls in Divisi's programs on an H100 (driver 580, cuBLASLt 13.1, cuDNN 9.19): medians of 9
// steps, call by call (`--profile`), of the programs that test/gpu/pack.py makes, and of EfficientNet-B0, MobileNetV3 and ConvNeXt-T.
#include "passes/Planning/Cost/Prices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace divisi;
using namespace divisi::planning;
using Device = Cluster::Device;

namespace {

double microseconds(const step::Work &work, Device::Precision precision) {
  return 1e6 * Prices(*gpuPreset("h100")).seconds(work, precision);
}

/// [m, k] by [k, n] in bf16.
step::Work matmul(double m, double n, double k) {
  step::Work work{graph::Form::product, 2 * m * n * k, 2 * (m * k + k * n + m * n)};
  work.m = m, work.n = n, work.k = k;
  return work;
}

enum class Of { images, imagesGradient, filtersGradient };
/// Of 2D images with one stride and square windows.
struct Convolution {
  Of of;
  double batch, groups, inChannels, outChannels, size, window, stride;
  double measured; // us
};
step::Work workOf(const Convolution &c, double width) {
  double out = c.size / c.stride, points = c.batch * out * out, in = c.batch * c.size * c.size;
  double filter = c.inChannels / c.groups * c.outChannels * c.window * c.window;
  step::Work work{graph::Form::product, 2 * points * filter, width * (in * c.inChannels + points * c.outChannels + filter)};
  work.images = true, work.filters = c.of == Of::filtersGradient;
  work.batch = c.groups;
  switch (c.of) {
  case Of::images:
    work.m = points, work.n = c.outChannels / c.groups;
    break;
  case Of::imagesGradient:
    work.m = in, work.n = c.inChannels / c.groups;
    break;
  case Of::filtersGradient:
    work.m = c.inChannels / c.groups * c.window * c.window, work.n = c.outChannels / c.groups;
  }
  work.k = work.flops / (2 * work.batch * work.m * work.n);
  return work;
}

/// The median and the largest of factors by which prices differ from what was measured, either way.
struct Errors {
  std::vector<double> factors;
  void add(double price, double measured) { factors.push_back(std::max(price / measured, measured / price)); }
  double median() {
    std::sort(factors.begin(), factors.end());
    return factors[factors.size() / 2];
  }
  double largest() const { return *std::max_element(factors.begin(), factors.end()); }
};

Errors errorsOf(const std::vector<Convolution> &rows, Device::Precision precision) {
  Errors errors;
  for (const Convolution &row : rows)
    errors.add(microseconds(workOf(row, precision == Device::tf32 ? 4 : 2), precision), row.measured);
  return errors;
}
} // namespace

TEST(MeasuredCalls, Matmuls) {
  struct Row {
    double m, n, k, measured; // us
  };
  // GPT-2 small, batch 8 x 1,024; BERT base, 32 x 128; an MLP with 4,096 rows.
  const Row rows[] = {{8192, 2304, 768, 48.2}, {8192, 768, 768, 19.9},    {8192, 3072, 768, 60.8},  {8192, 768, 3072, 53.4},
                      {8192, 50304, 768, 880}, {8192, 768, 50304, 765},   {50304, 768, 8192, 782},  {8192, 768, 2304, 42.7},
                      {2304, 768, 8192, 48.3}, {4096, 4096, 4096, 172.7}, {4096, 2304, 768, 26.8},  {768, 768, 4096, 15.2},
                      {4096, 768, 3072, 30.2}, {4096, 1024, 4096, 46.3},  {3072, 768, 8192, 57.5}};
  Errors errors;
  for (const Row &row : rows)
    errors.add(microseconds(matmul(row.m, row.n, row.k), Device::bf16), row.measured);
  EXPECT_LT(errors.median(), 1.1);
  EXPECT_LT(errors.largest(), 1.3);
}

TEST(MeasuredCalls, Convolutions) {
  const std::vector<Convolution> rows = {{Of::images, 256, 1, 64, 64, 56, 1, 1, 72.3},
                              {Of::images, 256, 1, 64, 64, 56, 3, 1, 149.1},
                              {Of::imagesGradient, 256, 1, 64, 64, 56, 3, 1, 152},
                              {Of::filtersGradient, 256, 1, 64, 64, 56, 3, 1, 138.8},
                              {Of::images, 256, 1, 256, 1024, 14, 1, 1, 55.7},
                              {Of::imagesGradient, 256, 1, 256, 1024, 14, 1, 1, 53.9},
                              {Of::filtersGradient, 256, 1, 256, 1024, 14, 1, 1, 57.2},
                              {Of::images, 256, 1, 512, 512, 7, 3, 1, 91.4},
                              {Of::imagesGradient, 256, 1, 512, 512, 7, 3, 1, 94},
                              {Of::filtersGradient, 256, 1, 512, 512, 7, 3, 1, 105.1},
                              {Of::imagesGradient, 256, 1, 512, 256, 28, 1, 1, 118.6},
                              {Of::filtersGradient, 256, 1, 1024, 256, 14, 1, 1, 66.8},
                              {Of::images, 256, 1, 160, 960, 7, 1, 1, 17},
                              {Of::filtersGradient, 256, 1, 160, 960, 7, 1, 1, 25.4}};
  Errors errors = errorsOf(rows, Device::bf16);
  EXPECT_LT(errors.median(), 1.1);
  EXPECT_LT(errors.largest(), 1.4);
}

TEST(MeasuredCalls, FiltersInTf32) {
  const std::vector<Convolution> rows = {{Of::filtersGradient, 256, 1, 512, 512, 7, 3, 1, 305.6},
                              {Of::filtersGradient, 256, 1, 256, 256, 14, 3, 1, 350.2},
                              {Of::filtersGradient, 256, 1, 128, 128, 28, 3, 1, 309.4},
                              {Of::filtersGradient, 256, 1, 256, 1024, 14, 1, 1, 135.4},
                              {Of::filtersGradient, 256, 1, 64, 256, 56, 1, 1, 354.3}};
  Errors errors = errorsOf(rows, Device::tf32);
  EXPECT_LT(errors.median(), 1.1);
  EXPECT_LT(errors.largest(), 1.3);
}

TEST(MeasuredCalls, DepthwiseConvolutions) {
  const std::vector<Convolution> rows = {{Of::images, 128, 240, 240, 240, 28, 5, 1, 103.6},
                              {Of::imagesGradient, 128, 240, 240, 240, 28, 5, 1, 167.1},
                              {Of::filtersGradient, 128, 240, 240, 240, 28, 5, 1, 95.4},
                              {Of::images, 64, 192, 192, 192, 28, 7, 1, 91.9},
                              {Of::imagesGradient, 64, 192, 192, 192, 28, 7, 1, 166.1},
                              {Of::filtersGradient, 64, 192, 192, 192, 28, 7, 1, 59.1},
                              {Of::images, 256, 72, 72, 72, 56, 3, 1, 114.8},
                              {Of::imagesGradient, 256, 72, 72, 72, 56, 3, 1, 184},
                              {Of::filtersGradient, 256, 72, 72, 72, 56, 3, 1, 159.9},
                              {Of::images, 128, 240, 240, 240, 28, 3, 2, 35.3},
                              {Of::imagesGradient, 128, 240, 240, 240, 28, 3, 2, 87.6},
                              {Of::filtersGradient, 128, 240, 240, 240, 28, 3, 2, 54.3}};
  Errors errors = errorsOf(rows, Device::bf16);
  EXPECT_LT(errors.median(), 1.6);
  EXPECT_LT(errors.largest(), 3.6); // the gradient of images with strides of 2
}
