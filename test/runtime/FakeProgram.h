//===- FakeProgram.h - a "compiled" model written by hand -------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_FAKEPROGRAM_H
#define DIVISI_TEST_RUNTIME_FAKEPROGRAM_H

#include "divisi/abi.h"

namespace divisi::test {

/// Linear regression of integer labels on three features, trained by SGD with momentum. Its gradient has a little noise
/// that depends on seed and step, and its state has a buffer: a resumed training differs if anything is not restored.
constexpr int64_t fakeBatch = 4, fakeFeatures = 3;
constexpr uint64_t fakeArenaBytes = 1216;
extern const char *const fakeManifest;
extern const char fakeSkeleton[];
extern const uint64_t fakeSkeletonBytes;
void fakeTrain(DivisiContext *context, char *arena, char *slot, const char *constants);
void fakeEvaluate(DivisiContext *context, char *arena, char *slot, const char *constants);
DivisiProgram fakeProgram();
/// A step of training without a context: values that are computed on demand are left out.
void fakeTrainDirect(char *arena);

/// Called before each step of training with the number of finished steps, for tests that end a program.
extern void (*fakeHook)(int64_t step);

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_FAKEPROGRAM_H
