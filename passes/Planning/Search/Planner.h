#pragma once
#include "passes/Planning/Cost/StepModel.h"
#include "passes/Planning/Search/SearchSpace.h"
#include "passes/Planning/Search/Solver.h"
#include "passes/Planning/Strategy.h"

#include <mutex>

namespace divisi::planning {

/// Steps that differ by less than this share take the same time: predictions are not that exact. And those of processors,
/// whose threads and ranks disturb each other (docs/numbers.md, "auto").
constexpr double sameTime = 0.005, sameTimeOfProcessors = 0.03;

/// A plan for one mesh, and what is expected of it.
struct Candidate {
  std::string name; // "auto data=2,model=4", "data=8 zero=1"
  dist::Mesh mesh;
  Plan plan;
  Prediction prediction;
  bool fits = true;      // in the memory of a device
  bool searched = false; // not by a strategy
  double hidden = 0;     // of the searched ones: the share of what may overlap (SearchSpace) that was taken to
  double hideable = 0;   // and the seconds of all that may
  double searchCost = 0; // the pairwise cost that was minimized, seconds
  double bound = 0;      // and the proven lower bound on it, of all plans on this mesh; 0: not proven
  std::string boundMesh; // the mesh that the bound is for
  double measured = 0;   // seconds of a step by times that were measured on this machine; 0: there are none
  double arenaBytes = 0; // memory of a step as it is compiled; 0: it was not
  double error = sameTime; // of the prediction: plans that differ by less than this share take the same time

  /// The same of the time by which it is ordered.
  double sameWithin() const { return measured > 0 ? sameTime : error; }
};

/// "data=2,model=4".
std::string nameOf(const dist::Mesh &mesh);

/// Whether a plan comes before another: what fits, what was measured, then the faster (or what needs less memory), then
/// fewer devices.
bool isBetter(const Candidate &a, const Candidate &b);
/// The index of the plan to choose: of those that take the same time as the best, one for the fewest devices, of these
/// rather a strategy than a searched plan.
size_t preferred(llvm::ArrayRef<const Candidate *> plans);

/// The seconds of the fastest plan that fits; infinity if none does.
template <class Candidates> double fastest(const Candidates &candidates) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : candidates)
    if (candidate.fits)
      seconds = std::min(seconds, candidate.prediction.seconds);
  return seconds;
}

/// Whether two plans that fit take the same time, as far as the times of the second are exact.
bool isTie(const Candidate &a, const Candidate &b);

/// In programs of at most this number of operations every strategy on every mesh is a candidate, and searched on from where it
/// lays the states; and meshes of three axes are searched.
constexpr size_t mostThorough = 2500;

/// In larger ones, where memory is short, strategies say which numbers of microbatches and recomputed segments are
/// worth a search.
constexpr size_t mostOftenSearched = 6000;

/// What plans a search need not find.
struct PlanLimit {
  double seconds = std::numeric_limits<double>::infinity(); // slower ones
  /// What a step takes at least, as a share of its pairwise cost. 0: by the share that overlaps of the communication that may,
  /// which is mostly no longer than the computation beside it: an estimate, not a bound.
  double share = 0;
  double cost(double hidden) const { return seconds * (share > 0 ? 1 / share : 2 - hidden); }
};

struct PlannerOptions {
  /// Searches this mesh alone, whose axes keep their names.
  void searchOnly(const dist::Mesh &mesh) { meshes = {mesh}, operators = false; }

  std::vector<dist::Mesh> meshes; // to search
  bool alone = true;              // consider one device, too
  bool operators = true;          // the strategy "operator" on all devices, too
  /// The meshes were enumerated: look at three axes and fewer devices, too, and, in large programs, not at strategies that shard nothing.
  bool wider = false;
  bool searches = true;           // else only strategies, and searches of meshes where these want padding
  bool everyMesh = false;         // of large programs, too, the strategies that fit on every mesh
  bool thorough = true;           // refine the best searches, and bound the best one by the whole problem
  /// The seconds of a plan that is known: much slower ones are not refined.
  double best = std::numeric_limits<double>::infinity();
  bool onlyIfPossible = false; // search nothing if the step's memory, divided evenly among the devices, is too much
  std::vector<Pin> pins;
  std::optional<int64_t> remat = 0; // segments that are recomputed; nothing: as many as the memory asks for

  /// All devices of a mesh.
  int64_t devices() const { return meshes.empty() ? 1 : meshes[0].devices(); }
};

/// Plans a program's training step for a cluster. A search minimizes the pairwise cost within the memory, at several
/// shares of communication that overlaps; each plan is then predicted in full.
class Planner {
public:
  Planner(Problem problem, Cluster cluster);

  /// Every plan worth naming: the searched one of every mesh, the strategies data and operator with the levels of ZeRO,
  /// and one device. An error where the pins hold on no mesh.
  llvm::Expected<std::vector<Candidate>> candidates(const PlannerOptions &options) const;
  /// The best plans on a candidate's mesh with one parameter laid in each of these ways, by two searches each: from the
  /// beginning, and with the candidate's other parameters as they lie.
  std::vector<Candidate> searchNear(const Candidate &candidate, int parameter,
                                    llvm::ArrayRef<dist::Sharding> shardings) const;
  /// Searches a candidate's mesh again, now with a bound for the whole problem; keeps the better plan.
  void certify(const std::vector<Pin> &pins, Candidate &candidate) const;
  /// Decides what not every step does, the evaluation: a search leaves it unsplit.
  void complete(Candidate &candidate) const;
  /// The step on one device, unsplit.
  const Candidate &alone() const;
  /// Seconds that one device of a cluster computes in a step, unsplit.
  double computation(const Cluster &on) const;
  /// Seconds that a step takes at least on at most `devices`: each starts all kernels and calls, and at best shares their
  /// work evenly with the others.
  double leastSeconds(int64_t devices) const;
  /// Whether a plan for one device takes the same time as any plan for at most `devices` could.
  bool isSettled(const Candidate &plan, int64_t devices) const;
  /// What a plan would take on another cluster.
  Candidate price(const Cluster &cluster, const dist::Mesh &mesh, Plan plan, std::string name) const;
  Candidate price(const Cluster &cluster, const dist::Mesh &mesh, Plan plan, std::string name,
                  const Expansion &expansion) const;

  /// The kernels and calls of every step.
  const FusedProblem &items() const { return stepItems; }

  const Problem problem; // what the numbers of plans mean
  const Cluster cluster;

private:
  /// By the sizes of a mesh's axes, on which alone prices depend.
  using Spaces = std::map<std::vector<int64_t>, std::shared_ptr<const SearchSpace>>;
  /// Those of the meshes, without pins. Each is built once.
  Spaces spacesOf(llvm::ArrayRef<dist::Mesh> meshes) const;
  std::shared_ptr<const SearchSpace> spaceOf(const dist::Mesh &mesh, const std::map<int, dist::Sharding> &pins,
                                             const SearchSpace *known) const;
  /// The best plan on a mesh with these arguments (by tensor) sharded so, or none if all seem to be beyond the limit.
  std::vector<Candidate> search(const Spaces &spaces, const dist::Mesh &mesh,
                                const std::map<int, dist::Sharding> &places, llvm::ArrayRef<double> hiddenShares,
                                SolveOptions effort, PlanLimit limit = {}) const;
  /// The strategy of this level of ZeRO; nothing where it is impossible, or splits nothing (unless `evenIfWhole`).
  std::vector<Candidate> strategy(const dist::Mesh &mesh, const std::vector<Pin> &pins, int zero,
                                  bool evenIfWhole = true) const;
  /// The strategies that fit, from ZeRO 3 on, or the one that needs the least memory.
  std::vector<Candidate> fittingStrategies(const dist::Mesh &mesh, const std::vector<Pin> &pins) const;
  /// The effort of a look at a mesh: of a large program, with this gap.
  SolveOptions effort(double gap) const;
  llvm::Expected<std::vector<Candidate>> allCandidates(const PlannerOptions &options) const;
  /// The strategies, and searches of the given meshes for plans within the limit; in large programs, if there is one, no
  /// strategies.
  llvm::Expected<std::vector<Candidate>> firstCandidates(const PlannerOptions &options, PlanLimit limit = {}) const;
  /// The best meshes of two axes with one of them split in two.
  std::vector<Candidate> withThirdAxis(const PlannerOptions &options, const std::vector<Candidate> &found) const;
  /// Plans for fewer devices that are better than the best so far.
  std::vector<Candidate> onFewerDevices(const PlannerOptions &options, llvm::ArrayRef<Candidate> found) const;

  /// Plans of small programs from other beginnings: with matrices whole, or with each input over each axis.
  std::vector<Candidate> otherBeginnings(const PlannerOptions &options, PlanLimit limit) const;
  /// The strategies with these pins, as if they had been searched.
  std::vector<Candidate> strategies(const dist::Mesh &mesh, const std::vector<Pin> &pins) const;
  /// Searches the best meshes at more shares of communication that overlaps.
  void refine(const std::vector<Pin> &pins, std::vector<Candidate> &candidates) const;

  Groups step; // of every step
  FusedProblem stepItems;
  // The plan for one device, and what it takes without packing if the device packs; only one thread at a time asks for them.
  mutable std::optional<Candidate> one;
  mutable std::optional<Prediction> unpacked;
  mutable std::optional<GroupKinds> stepKinds; // of searches
  mutable std::once_flag searching;
  mutable Spaces built;
  mutable std::mutex building; // guards `built`
};

} // namespace divisi::planning
