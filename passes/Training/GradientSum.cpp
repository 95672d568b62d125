#include "passes/Training/GradientSum.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace divisi::graph;
using divisi::training::GradientSum;
using B = GraphBuilder;

/// The one dimension that a pad with zeros makes larger; -1 if it is no such pad.
static int64_t paddedDim(PadOp pad) {
  if (!pad || !pad.getValue().isZero() || llvm::any_of(pad.getSteps(), [](int64_t step) { return step != 1; }))
    return -1;
  int64_t dim = -1;
  for (auto [d, sizes] : llvm::enumerate(llvm::zip(shapeOf(pad.getX()), shapeOf(pad.getResult()))))
    if (std::get<0>(sizes) != std::get<1>(sizes)) {
      if (dim >= 0)
        return -1;
      dim = d;
    }
  return dim;
}

/// Whether it is a product x^T y of matrices [k, m] and [k, n] that have fewer elements than the result.
static bool isSmallProduct(MatmulOp product) {
  if (!product || !product.getTransposeLhs() || product.getTransposeRhs() || shapeOf(product.getLhs()).size() != 2)
    return false;
  ArrayRef<int64_t> shape = shapeOf(product.getResult());
  return shapeOf(product.getLhs())[0] * (shape[0] + shape[1]) <= shape[0] * shape[1];
}

void GradientSum::add(B &b, Value contribution) {
  if (auto pad = contribution.getDefiningOp<PadOp>(); paddedDim(pad) >= 0)
    parts.push_back(pad);
  else if (auto product = contribution.getDefiningOp<MatmulOp>(); isSmallProduct(product))
    products.push_back(product);
  else
    sum = b.addMaybe(sum, contribution);
}

Value GradientSum::total(B &b) {
  joinParts(b);
  joinProducts(b);
  return sum;
}

void GradientSum::joinParts(B &b) {
  llvm::MapVector<int64_t, SmallVector<PadOp>> byDim;
  for (PadOp part : parts)
    byDim[paddedDim(part)].push_back(part);
  parts.clear();
  for (auto &[dim, list] : byDim) {
    llvm::stable_sort(list, [&, d = dim](PadOp a, PadOp c) { return a.getLow()[d] < c.getLow()[d]; });
    auto type = tensorType(list[0].getResult());
    SmallVector<Value> joined;
    int64_t end = 0;
    auto fill = [&, d = dim](int64_t to) {
      SmallVector<int64_t> shape(type.getShape());
      shape[d] = to - end;
      if (to > end)
        joined.push_back(b.splat(type.clone(shape), 0));
      end = to;
    };
    for (PadOp part : list) {
      int64_t low = part.getLow()[dim];
      if (list.size() == 1 || low < end) { // alone, or it overlaps the one before
        sum = b.addMaybe(sum, part);
        continue;
      }
      fill(low);
      joined.push_back(part.getX());
      end = low + shapeOf(part.getX())[dim];
    }
    if (joined.empty())
      continue;
    fill(type.getDimSize(dim));
    sum = b.addMaybe(sum, b.concat(joined, dim));
  }
}

/// Matrices [k, n] as one of [k * count, n]. They lie side by side in each row, so that rows stay ordered by the index
/// that may be sharded.
static Value joinRows(B &b, ArrayRef<Value> matrices) {
  int64_t k = shapeOf(matrices[0])[0], n = shapeOf(matrices[0])[1];
  SmallVector<Value> joined;
  for (Value matrix : matrices)
    joined.push_back(b.reshape(matrix, {k, 1, n}));
  return b.reshape(b.concat(joined, 1), {k * (int64_t)matrices.size(), n});
}

void GradientSum::joinProducts(B &b) {
  llvm::MapVector<int64_t, SmallVector<MatmulOp>> bySize; // by k
  for (MatmulOp product : products)
    bySize[shapeOf(product.getLhs())[0]].push_back(product);
  products.clear();
  for (auto &[k, list] : bySize) {
    SmallVector<Value> left, right;
    for (MatmulOp product : llvm::reverse(list)) { // the last step of the model comes first
      left.push_back(product.getLhs());
      right.push_back(product.getRhs());
    }
    if (list.size() == 1) {
      sum = b.addMaybe(sum, list[0]);
      continue;
    }
    Value first = joinRows(b, left), second = joinRows(b, right);
    sum = b.addMaybe(sum, b.matmul(first, second, true));
  }
}
