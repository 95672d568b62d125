#include "passes/Planning/ApplyPadding.h"
#include "passes/Planning/Passes.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace divisi::planning {
#define GEN_PASS_DEF_ALIGNCONTRACTIONSPASS
#include "passes/Planning/Passes.h.inc"

namespace {
/// Rows of operands that tensor cores read begin at multiples of this number of bytes.
constexpr int64_t rowBytes = 16;
/// A size of at least `large` becomes a multiple of `partsOfLarge` elements, which adds at most an eighth, so that the
/// parts on 2, 4 or 8 devices have aligned rows, too.
constexpr int64_t large = 512, partsOfLarge = 64;
/// Of a contraction that is worth it: it takes a few microseconds, as launching a kernel does.
constexpr int64_t leastFlops = 1'000'000'000;

/// Whether the operation multiplies by weights on tensor cores.
bool isWanted(const Problem &problem, const Problem::Op &op) {
  auto isWeight = [&](int tensor) { return problem.tensors[tensor].weight; };
  return op.precision != graph::fp32 && op.flops >= leastFlops && op.rule.isContraction() &&
         llvm::any_of(op.operands, isWeight);
}

/// The padding of the first contraction that reads or writes rows which are not aligned, where they belong to a
/// dimension of its weights.
std::optional<PadRequest> nextRequest(const Problem &problem) {
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (!isWanted(problem, op))
      continue;
    auto ofWeights = [&](int factor) {
      for (auto [tensor, dims] : llvm::zip(op.operands, op.rule.operands))
        for (const auto &list : dims)
          if (problem.tensors[tensor].weight && llvm::is_contained(list, factor))
            return true;
      return false;
    };
    auto requestOf = [&](int tensor, const ShardingRule::Dims &dims) -> std::optional<PadRequest> {
      int last = (int)dims.size() - 1, factor = dims.empty() ? -1 : soleFactor(op.rule, dims[last]);
      if (factor < 0 || !ofWeights(factor))
        return std::nullopt;
      int64_t size = problem.tensors[tensor].shape[last], aligned = rowBytes / problem.tensors[tensor].elementBytes;
      PadRequest request{tensor, last, size < large ? aligned : partsOfLarge};
      if (size % aligned == 0 || !PadClass(problem, request).grows((int)number, factor))
        return std::nullopt;
      return request;
    };
    for (auto [tensor, dims] : llvm::zip(op.operands, op.rule.operands))
      if (auto request = requestOf(tensor, dims))
        return request;
    if (auto request = requestOf(op.results[0], op.rule.results[0]))
      return request;
  }
  return std::nullopt;
}

struct AlignContractionsPass : impl::AlignContractionsPassBase<AlignContractionsPass> {
  void runOnOperation() final {
    for (;;) { // each iteration pads one size, of which there are finitely many
      auto problem = ModuleProblem::build(getOperation());
      if (failed(problem))
        return signalPassFailure();
      auto request = nextRequest(problem->problem);
      if (!request)
        return;
      applyPadding(getOperation(), *problem, PadClass(problem->problem, *request));
    }
  }
};
} // namespace
} // namespace divisi::planning
