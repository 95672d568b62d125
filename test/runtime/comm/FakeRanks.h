//===- FakeRanks.h - a "compiled" model for a mesh, by hand -----*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_FAKERANKS_H
#define DIVISI_TEST_RUNTIME_COMM_FAKERANKS_H

#include "test/runtime/comm/Conformance.h"

#include <cstring>

namespace divisi::test {

/// Linear regression of four features on a mesh of data x model ranks: rows are sharded along the first axis, features
/// and weights along the second. A two-dimensional buffer is sharded along both. The bias is replicated.
constexpr uint64_t fakeRanksArena = 1408;
std::string fakeRanksManifest(int data, int model);

template <int Data, int Model> class FakeRanks {
public:
  static DivisiProgram program() {
    static const std::string manifest = fakeRanksManifest(Data, Model);
    return {DIVISI_ABI_VERSION,
            fakeRanksArena,
            manifest.data(),
            manifest.size(),
            "\x08\x08\x3a\x06\x12\x04line",
            10,
            2,
            tasks,
            nullptr,
            0,
            1,
            0,
            nullptr,
            nullptr};
  }

private:
  static constexpr int64_t rows = 4 / Data, features = 4 / Model;
  template <typename T> static T *at(char *arena, int64_t offset) { return reinterpret_cast<T *>(arena + offset); }

  static void sum(DivisiContext *context, const CollectiveBlock &block, float *from, float *to) {
    void *buffers[] = {from, to};
    divisi_collective(context, block.get(), buffers);
    DivisiAwait await{block->id};
    divisi_await(context, &await, nullptr);
  }

  static CollectiveBlock block(int64_t id, int64_t axis, int64_t count) {
    CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {axis}, {{1, count, 1, 1, 1}});
    block->id = id;
    return block;
  }

  /// The error of each row at 1088, the loss of the batch at `loss`.
  static void forward(DivisiContext *context, char *arena, int64_t loss) {
    static const CollectiveBlock predictions = block(0, 1, rows), losses = block(1, 0, 1);
    const float *x = at<float>(arena, 0), *w = at<float>(arena, 128);
    float *partial = at<float>(arena, 1024), *error = at<float>(arena, 1088), *mine = at<float>(arena, 1152);
    for (int64_t r = 0; r < rows; ++r) {
      partial[r] = 0;
      for (int64_t f = 0; f < features; ++f)
        partial[r] += x[r * features + f] * w[f];
    }
    sum(context, predictions, partial, error);
    *mine = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t label = at<int64_t>(arena, 64)[r];
      error[r] = label == -100 ? 0 : error[r] + *at<float>(arena, 192) - static_cast<float>(label);
      *mine += error[r] * error[r] / static_cast<float>(*at<int64_t>(arena, 640));
    }
    sum(context, losses, mine, at<float>(arena, loss));
  }

  static void train(DivisiContext *context, char *arena, char *, const char *) {
    static const CollectiveBlock gradients = block(2, 0, features + 1);
    forward(context, arena, 704);
    const float *x = at<float>(arena, 0), *error = at<float>(arena, 1088);
    float *partial = at<float>(arena, 1216), *gradient = at<float>(arena, 1280), rate = *at<float>(arena, 576);
    for (int64_t f = 0; f <= features; ++f) {
      partial[f] = 0;
      for (int64_t r = 0; r < rows; ++r)
        partial[f] += error[r] * (f < features ? x[r * features + f] : 1) / 2;
    }
    sum(context, gradients, partial, gradient);
    for (int64_t f = 0; f < features; ++f) {
      float &m = at<float>(arena, 256)[f];
      m = 0.5f * m + gradient[f];
      at<float>(arena, 128)[f] -= rate * m;
    }
    *at<float>(arena, 192) -= rate * gradient[features];
    for (int64_t i = 0; i < 24 / Data / Model; ++i)
      at<float>(arena, 320)[i] += 1;
    *at<int64_t>(arena, 448) += 1;
  }
  static void evaluate(DivisiContext *context, char *arena, char *, const char *) { forward(context, arena, 768); }
  static constexpr DivisiTask tasks[] = {train, evaluate};
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_FAKERANKS_H
