#include "test/runtime/FakeProgram.h"

#include <cmath>
#include <cstring>

namespace divisi::test {

const char *const fakeManifest = R"({"abi": 7, "model": "line", "batch": 4,
 "weights": {"file": "line.safetensors", "hashes": ""},
 "inputs": [
  {"name": "x", "dtype": "F32", "shape": [4, 3], "offset": 0, "bytes": 48},
  {"name": "label", "dtype": "I64", "shape": [4], "offset": 64, "bytes": 32, "label": true, "padding": -100, "range": [-50, 50]}],
 "state": [
  {"name": "w", "role": "parameter", "dtype": "F32", "shape": [3], "offset": 128, "bytes": 12, "init": {"kind": "uniform", "scale": 0.5}},
  {"name": "bias", "role": "parameter", "dtype": "F32", "shape": [], "offset": 192, "bytes": 4, "init": {"kind": "constant", "scale": 0.25}},
  {"name": "w.momentum", "role": "moment", "of": "w", "dtype": "F32", "shape": [3], "offset": 256, "bytes": 12},
  {"name": "bias.momentum", "role": "moment", "of": "bias", "dtype": "F32", "shape": [], "offset": 320, "bytes": 4},
  {"name": "mean", "role": "buffer", "dtype": "F32", "shape": [1], "offset": 384, "bytes": 4, "init": {"kind": "constant", "scale": 1}},
  {"name": "divisi.step", "role": "step", "dtype": "I64", "shape": [], "offset": 448, "bytes": 8},
  {"name": "divisi.seed", "role": "seed", "dtype": "I64", "shape": [], "offset": 512, "bytes": 8}],
 "scalars": [{"name": "learning_rate", "dtype": "F32", "offset": 576}, {"name": "rows", "dtype": "I64", "offset": 640}],
 "results": [
  {"function": "train", "kind": "loss", "dtype": "F32", "shape": [], "offset": 704},
  {"function": "train", "kind": "grad_norm", "name": "w", "dtype": "F32", "shape": [], "offset": 768, "when": 1},
  {"function": "train", "kind": "grad_norm", "name": "bias", "dtype": "F32", "shape": [], "offset": 832, "when": 1},
  {"function": "train", "kind": "correct", "dtype": "I64", "shape": [], "offset": 896, "when": 2},
  {"function": "train", "kind": "count", "dtype": "I64", "shape": [], "offset": 960, "when": 2},
  {"function": "evaluate", "kind": "loss", "dtype": "F32", "shape": [], "offset": 1024},
  {"function": "evaluate", "kind": "correct", "dtype": "I64", "shape": [], "offset": 1088},
  {"function": "evaluate", "kind": "count", "dtype": "I64", "shape": [], "offset": 1152}],
 "tasks": ["train", "evaluate"], "tables": {"train": [[[0, 0, 0]]], "evaluate": [[[1, 0, 0]]]},
 "defaults": {"lr": 0.05, "lr_schedule": "constant", "warmup_steps": 0}})";

// A ModelProto with ir_version 8 and a graph named "line".
const char fakeSkeleton[] = "\x08\x08\x3a\x06\x12\x04line";
const uint64_t fakeSkeletonBytes = sizeof(fakeSkeleton) - 1;

void (*fakeHook)(int64_t step) = nullptr;

namespace {
struct Sums {
  float loss = 0, gradW[3] = {}, gradBias = 0;
  int64_t correct = 0, count = 0;
};

template <typename T> T *at(char *arena, int64_t offset) { return reinterpret_cast<T *>(arena + offset); }

Sums forward(char *arena) {
  Sums s;
  const float *x = at<float>(arena, 0), *w = at<float>(arena, 128);
  const auto *label = at<int64_t>(arena, 64);
  for (int64_t r = 0; r < fakeBatch; ++r) {
    if (label[r] == -100)
      continue;
    float error = *at<float>(arena, 192) - static_cast<float>(label[r]);
    for (int64_t f = 0; f < 3; ++f)
      error += x[r * 3 + f] * w[f];
    s.loss += error * error;
    for (int64_t f = 0; f < 3; ++f)
      s.gradW[f] += 2 * error * x[r * 3 + f];
    s.gradBias += 2 * error;
    s.correct += std::fabs(error) < 0.5f;
    s.count += 1;
  }
  auto n = static_cast<float>(s.count);
  s.loss /= n;
  for (float &g : s.gradW)
    g /= n;
  s.gradBias /= n;
  return s;
}
} // namespace

void fakeTrain(DivisiContext *context, char *arena, char *, const char *) {
  if (fakeHook)
    fakeHook(*at<int64_t>(arena, 448));
  Sums s = forward(arena);
  if (divisi_wants(context, DIVISI_WHEN_GRAD_NORMS)) {
    *at<float>(arena, 768) = std::hypot(s.gradW[0], s.gradW[1], s.gradW[2]);
    *at<float>(arena, 832) = std::fabs(s.gradBias);
  }
  if (divisi_wants(context, DIVISI_WHEN_METRICS)) {
    *at<int64_t>(arena, 896) = s.correct;
    *at<int64_t>(arena, 960) = s.count;
  }
  fakeTrainDirect(arena);
}

void fakeTrainDirect(char *arena) {
  int64_t &step = *at<int64_t>(arena, 448);
  Sums s = forward(arena);
  *at<float>(arena, 704) = s.loss;
  uint64_t noise = (*at<uint64_t>(arena, 512) * 31 + static_cast<uint64_t>(step)) * 0x9e3779b97f4a7c15u;
  s.gradBias += static_cast<float>(noise >> 40) * 0x1p-34f;
  float rate = *at<float>(arena, 576);
  for (int64_t f = 0; f < 3; ++f) {
    float &m = at<float>(arena, 256)[f];
    m = 0.9f * m + s.gradW[f];
    at<float>(arena, 128)[f] -= rate * m;
  }
  float &m = *at<float>(arena, 320);
  m = 0.9f * m + s.gradBias;
  *at<float>(arena, 192) -= rate * m;
  *at<float>(arena, 384) = 0.9f * *at<float>(arena, 384) + 0.1f * s.loss;
  step += 1;
}

void fakeEvaluate(DivisiContext *, char *arena, char *, const char *) {
  Sums s = forward(arena);
  *at<float>(arena, 1024) = s.loss;
  *at<int64_t>(arena, 1088) = s.correct;
  *at<int64_t>(arena, 1152) = s.count;
}

DivisiProgram fakeProgram() {
  static constexpr DivisiTask tasks[] = {fakeTrain, fakeEvaluate};
  return {DIVISI_ABI_VERSION,
          fakeArenaBytes,
          fakeManifest,
          std::strlen(fakeManifest),
          fakeSkeleton,
          fakeSkeletonBytes,
          2,
          tasks,
          nullptr,
          0,
          1,
          0,
          nullptr,
          nullptr};
}

} // namespace divisi::test
