#pragma once
#include "passes/Planning/Cost/StepMemory.h"
#include "step/Batch.h"

namespace divisi::planning {

/// The kernels, calls and copies of a device in a step, in the order in which they run.
class StepPieces {
public:
  /// Of a program before it is sharded, an item is cut where a value in its middle is resharded.
  StepPieces(const Problem &problem, const Groups &groups, const FusedProblem &fused, const dist::Mesh &mesh,
             const Plan &plan, const Expansion &expansion, const StepCollectives &collectives);

  /// What decides whether a piece shares a launch with the one before it.
  step::Batch::Kernel kernelOf(const Piece &piece) const;

  std::vector<Piece> pieces;
  std::map<int, llvm::SmallVector<int, 1>> views; // by version that is read: that of the tensor that it is a view of
  std::vector<bool> copied; // by version: a renewed state that lies elsewhere until the end
  int end;                  // the position behind all pieces

private:
  double bytesOf(int version) const { return planning::bytesOf(problem, mesh, all.versions[version]); }
  double unreadBytes(const FusedProblem::Item &item, const Piece &piece) const;
  llvm::SmallVector<int, 4> neededOps(const FusedProblem::Item &item);
  bool isCut(int version) const;
  int sourceOf(int tensor, int version) const;
  bool cutsOut(const Piece &piece) const;
  bool isElementwise(const Piece &piece) const;
  void addWork(Piece &piece, const FusedProblem::Item &item, int op) const;
  void addPiece(const FusedProblem::Item &item);
  int pieceThatMakes(int tensor) const;
  void numberPieces(const FusedProblem::Item &item, llvm::ArrayRef<int> ops);
  void addPieces(const FusedProblem::Item &item);
  void moveUpdates();
  void addCopies();
  void cutForCall(const Piece &call);

  const Problem &problem;
  const Groups &groups;
  const FusedProblem &fused;
  const dist::Mesh &mesh;
  const Plan &plan;
  const Expansion &all;
  const StepCollectives &collectives;
  std::vector<bool> sent;      // by version: a collective is among what makes it; without one, it is cut out where it is read
  std::vector<bool> written;   // by version: in the middle of an item, to be resharded
  std::vector<bool> cutBefore; // by version: for a call
  std::vector<int> wantedBy;   // by tensor: the last item whose needed operations read or make it
  std::vector<int> pieceOf;    // by operation: its piece of the item at hand, or -1
};

} // namespace divisi::planning
