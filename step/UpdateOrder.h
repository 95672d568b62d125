#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace divisi::step {

/// A kernel or a call, of what decides when it runs. Buffers are numbers.
struct OrderedItem {
  llvm::SmallVector<int, 4> reads, writes;
  llvm::SmallVector<int, 2> renews; // buffers of old state, in whose place it may write
  bool trains = false;              // renews a parameter or its optimizer state
  bool call = false;
};

/// The one rule of the order of updates, for the pass that moves them (codegen/Kernels/OrderUpdates.cpp) and for the
/// plan that foresees time and memory, of a step that one device runs at once: what stands at the end of a step, from
/// the first update of a parameter on, moves behind the last item that it depends on, so that the gradient's memory is
/// free again. It depends on what it reads, and on the readers of the state that it renews. On GPUs updates move in
/// groups, each of a thirty-second of the gradients' bytes (at least those of a bucket, step/Buckets.h), so that a
/// group is one launch. Nothing moves if more bytes would then live at once, as where an update computes large values on
/// its way beside the activations of the backward pass.
///
/// `items`: those of one function, in program order. `bytes`: by buffer, those that are free when nothing reads it any
/// more; 0 of arguments, constants and results. Returns, by item, the item behind which it runs: itself if it does not
/// move, -1 for the beginning. Items behind the same one keep their order.
std::vector<int> orderUpdates(llvm::ArrayRef<OrderedItem> items, llvm::ArrayRef<int64_t> bytes, bool forGpu);
/// The items' numbers in that order.
std::vector<int> sortBehind(llvm::ArrayRef<int> behind);

} // namespace divisi::step
