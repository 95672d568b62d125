//===- FakeStages.h - a "compiled" pipeline by hand -------------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_FAKESTAGES_H
#define DIVISI_TEST_RUNTIME_COMM_FAKESTAGES_H

#include "test/runtime/comm/Conformance.h"

#include <cmath>
#include <cstring>

namespace divisi::test {

/// The offsets of a stage's tensors; -1: the stage does not have it. A buffer slot has the value that is sent forward,
/// and at byte 64 the gradient that is received.
struct FakeLayout {
  int64_t x, label, w, momentum, scale, bias, table, step, seed, rate, rows, microbatch, axis, loss, evalLoss, norm;
  int64_t gradW, gradRest, lossSum, reduced, slots, arena;
};
/// All tensors in one arena; and those of the second of two stages, whose first has the arena of `fakeWhole`.
constexpr FakeLayout fakeWhole = {0,   128, 192, 256, 320, 384,  448,  512,  576,  640,  704,
                                  768, 832, 896, 960, 992, 1024, 1088, 1152, 1216, 1280, 1536};
constexpr FakeLayout fakeSecond = {-1,  0,   -1,  -1,  64, 128, 192, 256, 320, 384, 448,
                                   512, 576, 640, 704, -1, -1,  768, 832, 896, 960, 1216};
std::string fakeStagesManifest(int stages, int data);

/// Linear regression of three features: the first stage has the weights, the second a scale, the bias and the loss;
/// both have a frozen table, step and seed, on which the gradients' noise depends. Batches of 8 rows are split into 4
/// microbatches, at most two of which are in flight; their rows are sharded over `Data` ranks. With one stage, it sends
/// to itself.
template <int Stages, int Data> class FakeStages {
public:
  static DivisiProgram program() {
    static const std::string manifest = fakeStagesManifest(Stages, Data);
    static constexpr DivisiTask tasks[] = {forward, middle, backward, updateFirst, updateSecond, evaluate, evaluated};
    return {DIVISI_ABI_VERSION,
            static_cast<uint64_t>(fakeWhole.arena),
            manifest.data(),
            manifest.size(),
            "\x08\x08\x3a\x06\x12\x04line",
            10,
            std::size(tasks),
            tasks,
            nullptr,
            0,
            1,
            0,
            nullptr,
            nullptr};
  }

private:
  static constexpr int64_t rows = 2 / Data, features = 3;
  static constexpr FakeLayout first = fakeWhole, second = Stages == 1 ? fakeWhole : fakeSecond;
  template <typename T> static T *at(char *arena, int64_t offset) { return reinterpret_cast<T *>(arena + offset); }

  static void send(DivisiContext *context, int64_t id, int64_t stage, void *data) {
    DivisiTransfer params{id, stage, rows * 4};
    divisi_send(context, &params, &data);
    std::memset(data, 0xff, rows * 4); // it is copied
  }
  static void receive(DivisiContext *context, int64_t id, int64_t stage, void *data) {
    DivisiTransfer params{id, stage, rows * 4};
    divisi_receive(context, &params, &data);
    DivisiAwait await{id};
    divisi_await(context, &await, nullptr);
  }
  static CollectiveBlock block(int64_t id, int64_t count) {
    CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {1}, {{1, count, 1, 1, 1}});
    block->id = id;
    return block;
  }
  /// Sums over the ranks with other rows.
  static float *sum(DivisiContext *context, const CollectiveBlock &block, float *from, float *to) {
    void *buffers[] = {from, to};
    divisi_collective(context, block.get(), buffers);
    DivisiAwait await{block->id};
    divisi_await(context, &await, nullptr);
    return to;
  }
  static float noise(char *arena, const FakeLayout &l) {
    uint64_t mixed = (*at<uint64_t>(arena, l.seed) * 31 + *at<uint64_t>(arena, l.step)) * 0x9e3779b97f4a7c15u;
    return static_cast<float>(mixed >> 40) * 0x1p-34f;
  }

  static void forward(DivisiContext *context, char *arena, char *slot, const char *) {
    auto *out = at<float>(slot, 0);
    const float *x = at<float>(arena, first.x) + *at<int64_t>(arena, first.microbatch) * rows * features;
    for (int64_t r = 0; r < rows; ++r) {
      out[r] = *at<float>(arena, first.table);
      for (int64_t f = 0; f < features; ++f)
        out[r] += x[r * features + f] * at<float>(arena, first.w)[f];
    }
    send(context, 0, Stages - 1, out);
  }
  /// The errors of the rows; adds to the loss.
  static void compare(DivisiContext *context, char *arena, char *slot, float *error) {
    auto *in = at<float>(slot, 0);
    receive(context, 0, 0, in);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t label = at<int64_t>(arena, second.label)[*at<int64_t>(arena, second.microbatch) * rows + r];
      float got = *at<float>(arena, second.scale) * in[r] + *at<float>(arena, second.bias) +
                  at<float>(arena, second.table)[1] - static_cast<float>(label);
      error[r] = label == -100 ? 0 : got;
      *at<float>(arena, second.lossSum) += error[r] * error[r] / static_cast<float>(*at<int64_t>(arena, second.rows));
    }
  }
  static void middle(DivisiContext *context, char *arena, char *slot, const char *) {
    float error[rows];
    compare(context, arena, slot, error);
    auto *gradient = at<float>(arena, second.gradRest), *back = at<float>(slot, 64);
    for (int64_t r = 0; r < rows; ++r) {
      gradient[0] += error[r] * at<float>(slot, 0)[r] / 4;
      gradient[1] += error[r] / 4;
      back[r] = error[r] * *at<float>(arena, second.scale);
    }
    send(context, 1, 0, back);
  }
  static void backward(DivisiContext *context, char *arena, char *slot, const char *) {
    auto *in = at<float>(slot, 64);
    receive(context, 1, Stages - 1, in);
    const float *x = at<float>(arena, first.x) + *at<int64_t>(arena, first.microbatch) * rows * features;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t f = 0; f < features; ++f)
        at<float>(arena, first.gradW)[f] += in[r] * x[r * features + f] / 4;
  }
  static void updateFirst(DivisiContext *context, char *arena, char *, const char *) {
    static const CollectiveBlock gradients = block(2, features);
    float *own = at<float>(arena, first.gradW), *sums = sum(context, gradients, own, at<float>(arena, first.reduced));
    if (divisi_wants(context, DIVISI_WHEN_GRAD_NORMS))
      *at<float>(arena, first.norm) = std::hypot(sums[0], sums[1], sums[2]);
    for (int64_t f = 0; f < features; ++f) {
      float &m = at<float>(arena, first.momentum)[f];
      m = 0.5f * m + sums[f] + noise(arena, first);
      at<float>(arena, first.w)[f] -= *at<float>(arena, first.rate) * m;
      own[f] = 0;
    }
    if (Stages > 1)
      *at<int64_t>(arena, first.step) += 1;
  }
  static void updateSecond(DivisiContext *context, char *arena, char *, const char *) {
    static const CollectiveBlock gradients = block(3, 2), losses = block(4, 1);
    float *own = at<float>(arena, second.gradRest),
          *sums = sum(context, gradients, own, at<float>(arena, second.reduced));
    *at<float>(arena, second.scale) -= *at<float>(arena, second.rate) * sums[0];
    *at<float>(arena, second.bias) -= *at<float>(arena, second.rate) * (sums[1] + noise(arena, second));
    own[0] = own[1] = 0;
    sum(context, losses, at<float>(arena, second.lossSum), at<float>(arena, second.loss));
    *at<float>(arena, second.lossSum) = 0;
    *at<int64_t>(arena, second.step) += 1;
  }
  static void evaluate(DivisiContext *context, char *arena, char *slot, const char *) {
    float error[rows];
    compare(context, arena, slot, error);
  }
  static void evaluated(DivisiContext *context, char *arena, char *, const char *) {
    static const CollectiveBlock losses = block(5, 1);
    sum(context, losses, at<float>(arena, second.lossSum), at<float>(arena, second.evalLoss));
    *at<float>(arena, second.lossSum) = 0;
  }
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_FAKESTAGES_H
