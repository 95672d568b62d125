#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace divisi::planning::test {

/// Numbers that are the same on every machine (splitmix64).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int limit) { return static_cast<int>(next() % static_cast<uint64_t>(limit)); }
  double upTo(double limit) { return static_cast<double>(next() >> 11) / 9007199254740992.0 * limit; }

private:
  uint64_t state;
};

/// Profiles of known networks: times from their operations at a rate, backward twice the forward, fp32.
class Network {
public:
  /// `flops` a device, images in a minibatch.
  Network(double flops, double batch) : flops(flops), batch(batch) {}

  /// Returns its index. Sizes of one image's output; `groups` of multiply-adds for each output.
  int add(const std::string &name, double outputs, double macsPerOutput, double parameters, std::vector<int> inputs) {
    double forward = std::max(1.0, macsPerOutput) * outputs * 2 * batch / flops * 1e3;
    std::sort(inputs.begin(), inputs.end());
    profile.layers.push_back({name, forward, 2 * forward, outputs * batch * 4, parameters * 4, std::move(inputs)});
    return static_cast<int>(profile.layers.size()) - 1;
  }
  /// A convolution kernel x kernel from `in` channels to `out`, with an output of size x size.
  int conv(const std::string &name, int in, int out, int kernel, int size, std::vector<int> inputs) {
    double macs = static_cast<double>(in) * kernel * kernel;
    return add(name, static_cast<double>(out) * size * size, macs, macs * out + out, std::move(inputs));
  }

  LayerProfile profile;

private:
  double flops, batch;
};

/// Simonyan and Zisserman, configuration D.
inline LayerProfile vgg16(double flops, double batch) {
  Network network(flops, batch);
  int in = 3, size = 224, last = -1;
  auto inputs = [&] { return last < 0 ? std::vector<int>() : std::vector<int>{last}; };
  const std::vector<std::vector<int>> stages = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  for (size_t s = 0; s < stages.size(); ++s) {
    for (size_t c = 0; c < stages[s].size(); ++c) {
      std::string name = std::to_string(s + 1) + "_" + std::to_string(c + 1);
      last = network.conv("conv" + name, in, stages[s][c], 3, size, inputs());
      in = stages[s][c];
    }
    size /= 2;
    last = network.add("pool" + std::to_string(s + 1), static_cast<double>(in) * size * size, 1, 0, {last});
  }
  int features = in * size * size;
  for (int width : {4096, 4096, 1000}) {
    std::string name = "fc" + std::to_string(network.profile.layers.size() - 12);
    last = network.add(name, width, features, static_cast<double>(features) * width + width, {last});
    features = width;
  }
  return network.profile;
}

/// A ResNet-50: 7 x 7, then 3, 4, 6, 3 bottlenecks with skips.
inline LayerProfile resnet50(double flops, double batch) {
  Network network(flops, batch);
  int last = network.conv("conv1", 3, 64, 7, 112, {}), in = 64, size = 56;
  last = network.add("pool1", 64.0 * 56 * 56, 9, 0, {last});
  const int blocks[] = {3, 4, 6, 3};
  for (int s = 0; s < 4; ++s, size /= 2)
    for (int b = 0; b < blocks[s]; ++b) {
      std::string name = "block" + std::to_string(s) + "_" + std::to_string(b) + "_";
      int width = 64 << s, from = last;
      int a = network.conv(name + "a", in, width, 1, size, {from});
      int c = network.conv(name + "b", width, width, 3, size, {a});
      int d = network.conv(name + "c", width, 4 * width, 1, size, {c});
      int skip = b == 0 ? network.conv(name + "skip", in, 4 * width, 1, size, {from}) : from;
      last = network.add(name + "add", 4.0 * width * size * size, 1, 0, {d, skip});
      in = 4 * width;
    }
  last = network.add("pool", 2048, 49, 0, {last});
  network.add("fc", 1000, 2048, 2049000, {last});
  return network.profile;
}

/// Modules of four parallel branches (1x1; 1x1 3x3; 1x1 3x3 3x3; pool 1x1), each convolution followed by its
/// normalisation and activation, until there are `layers` layers; then pooling and a classifier.
inline LayerProfile inception(double flops, double batch, int layers) {
  Network network(flops, batch);
  int last = network.conv("stem", 3, 192, 7, 35, {}), in = 192;
  auto unit = [&](const std::string &name, int from, int inChannels, int out, int kernel) {
    int at = network.conv(name + "conv", inChannels, out, kernel, 35, {from});
    at = network.add(name + "norm", out * 35.0 * 35, 2, 2 * out, {at});
    return network.add(name + "relu", out * 35.0 * 35, 1, 0, {at});
  };
  for (int m = 0; static_cast<int>(network.profile.layers.size()) + 23 + 2 <= layers; ++m) {
    std::string name = "module" + std::to_string(m) + "_";
    int one = unit(name + "a", last, in, 64, 1);
    int two = unit(name + "b2", unit(name + "b1", last, in, 48, 1), 48, 64, 3);
    int three = unit(name + "c3", unit(name + "c2", unit(name + "c1", last, in, 64, 1), 64, 96, 3), 96, 96, 3);
    int pool = unit(name + "d", network.add(name + "pool", in * 35.0 * 35, 9, 0, {last}), in, 32 + m, 1);
    in = 64 + 64 + 96 + 32 + m;
    last = network.add(name + "concat", in * 35.0 * 35, 1, 0, {one, two, three, pool});
  }
  while (static_cast<int>(network.profile.layers.size()) + 2 < layers)
    last = network.add("tail" + std::to_string(network.profile.layers.size()), in * 35.0 * 35, 1, 0, {last});
  last = network.add("pool", in, 35 * 35, 0, {last});
  network.add("fc", 1000, in, 1000.0 * in + 1000, {last});
  return network.profile;
}

} // namespace divisi::planning::test
