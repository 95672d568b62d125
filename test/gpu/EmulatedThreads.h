#pragma once
#include <cstdint>

// A GPU's threads on this processor: the functions that kernels call instead of a GPU's intrinsics, and their launch.
extern "C" {
int32_t emulated_thread();
int32_t emulated_block();
void emulated_barrier();
void emulated_warp_sync(int32_t mask);
int32_t emulated_shuffle(int32_t mask, int32_t value, int32_t distance, int32_t clamp);
float emulated_shuffle_float(int32_t mask, float value, int32_t distance, int32_t clamp);
/// 1 / x, for the instruction that approximates it.
float approximate_reciprocal(float x);

/// Runs all threads, block by block. `together`: threads of a block wait for each other and are switched at these
/// points. Returns false if some would wait forever.
bool emulated_launch(void (*kernel)(void *const *), void *const *buffers, int64_t blocks, int64_t threads,
                     bool together);
}
