#pragma once
#include "passes/Planning/Cost/StepCollectives.h"
#include "passes/Planning/Cost/StepModel.h"
#include "step/Fusion.h"

namespace divisi::planning {

/// A kernel or a call of a device, or what a collective in its middle leaves of one.
struct Piece {
  llvm::SmallVector<int, 4> ops, reads, writes;         // operations; versions
  llvm::SmallVector<std::pair<int, int>, 1> overwrites; // versions: one that it may write over another
  step::Work work;
  int launches = 1;
  int64_t workspace = 0; // bytes
  bool call = false, copy = false;
  bool view = false;           // runs nothing
  bool batched = false;        // may share a launch with others (step/Batch.h)
  std::optional<double> apart; // of an epilogue: bytes that it reads and writes although its call has them at hand
  int at = -1, home = -1; // the position, and the operation that stands for it: as numbers of operations
  double seconds = 0;
  int run = -1;
};

/// The bytes of a version on a device; none if it is one number everywhere, which kernels write out.
double bytesOf(const Problem &problem, const dist::Mesh &mesh, const Expansion::Version &version);

/// What a device keeps in a step, by liveness: arguments stay; everything else lives from where it is made to its last reader.
class StepMemory {
public:
  /// What is written and read, in program order.
  struct Use {
    const std::vector<Piece> &pieces;
    const std::map<int, llvm::SmallVector<int, 1>> &views; // by version that is read: that of the tensor that it is a view of
    const std::vector<bool> &copied; // by version: a renewed state that lies elsewhere until the end
    int end;                         // the position behind all others
  };
  StepMemory(const Problem &problem, const Groups &groups, const dist::Mesh &mesh, const Expansion &expansion,
             const StepCollectives &collectives, const Use &use)
      : problem(problem), groups(groups), mesh(mesh), all(expansion), collectives(collectives), pieces(use.pieces),
        views(use.views), copied(use.copied), end(use.end) {}

  /// Sets the memory of a prediction whose collectives are known, and where most is needed.
  void measure(Prediction &result) const;

private:
  bool isArgument(int version) const;
  /// By version: the one in whose place it is; that lives as long. A result takes the place of a value that dies with the
  /// kernel.
  std::vector<int> takePlaces(std::vector<int> &dies, const std::vector<bool> &stored,
                              const std::vector<bool> &renews) const;
  /// What a collective reads lives until it is awaited: before its result is read, or when step::mostUnderWay others have
  /// begun (codegen/Kernels/PlaceAwaits.cpp).
  void keepUntilAwaited(llvm::ArrayRef<Prediction::Collective> begun, const std::vector<int> &born,
                        std::vector<int> &dies) const;
  /// What microbatches share lives from the first operation that runs for each of them to the last: sums of their
  /// gradients, and what is made once and read by each.
  void keepOverMicrobatches(std::vector<int> &born, std::vector<int> &dies) const;

  const Problem &problem;
  const Groups &groups;
  const dist::Mesh &mesh;
  const Expansion &all;
  const StepCollectives &collectives;
  const std::vector<Piece> &pieces;
  const std::map<int, llvm::SmallVector<int, 1>> &views;
  const std::vector<bool> &copied;
  const int end;
};

} // namespace divisi::planning
