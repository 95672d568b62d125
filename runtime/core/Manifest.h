//===- Manifest.h - description of a program --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MANIFEST_H
#define DIVISI_RUNTIME_CORE_MANIFEST_H

#include "divisi/abi.h"
#include "divisi/all_reduce.h"
#include "runtime/core/DataType.h"
#include "runtime/core/Mesh.h"
#include "runtime/core/Slice.h"
#include "runtime/core/Status.h"
#include "runtime/core/Sync.h"

#include <map>
#include <optional>
#include <set>

namespace divisi::runtime {

/// A tensor in the arena: the whole tensor, or this rank's shard.
struct Tensor {
  std::string name;
  int64_t stage = -1; ///< of the ranks whose arena contains it; -1: all
  bool here = true;   ///< in this rank's arena; known when the program runs
  DataType dtype = DataType::F32;
  Shape shape;
  /// For a sharded tensor: the global shape, and the axes along which each dimension is sharded.
  Shape global;
  std::vector<std::vector<int64_t>> split;
  /// Its shape in files, if it is a reshape of the tensor.
  Shape inFiles;
  int64_t offset = 0;
  int64_t bytes = 0;
  /// For a tensor of stages: the tensor on each stage that has it, the lowest first. Its shards may differ.
  std::vector<Tensor> places;

  /// The tensor on the lowest stage.
  const Tensor &owner() const { return places.empty() ? *this : places.front(); }
  int64_t elements() const { return bytes / widthOf(dtype); }
  bool isSplit() const { return !split.empty(); }
  /// The whole tensor's shape in files and for users, and its shape before sharding.
  const Shape &wholeShape() const { return inFiles.empty() ? splitShape() : inFiles; }
  const Shape &splitShape() const { return isSplit() ? global : shape; }
  /// Bytes of the whole tensor.
  int64_t wholeBytes() const { return isSplit() ? byteCount(global, widthOf(dtype)).value_or(0) : bytes; }
};

/// An input of the program.
struct Input : Tensor {
  bool label = false;
  /// The number of microbatches in the first dimension, whose rows are then the second dimension; 0: the first
  /// dimension has the rows of the batch.
  int64_t microbatches = 0;
  /// Fills missing rows of an incomplete evaluation batch (without it: zeros).
  std::optional<int64_t> padding;
  /// Valid values are in [range->first, range->second), or equal to the padding: class labels, tokens.
  std::optional<std::pair<int64_t, int64_t>> range;
};

enum class Role { Parameter, Buffer, Constant, Moment, Step, Seed, Scaling };
const char *nameOf(Role role);

/// How `--init` fills a tensor.
struct Initial {
  enum class Kind { Uniform, Normal, Constant } kind = Kind::Constant;
  double value = 0; ///< half of the range, standard deviation, or the value
  double mean = 0;  ///< of random numbers
};

/// A tensor that is kept from step to step.
struct State : Tensor {
  Role role = Role::Parameter;
  bool trainable = true;
  std::string of;       ///< of optimizer state: its parameter
  std::string trainingName; ///< not empty: the initializer of the saved model's training_info that has its value
  bool isStored = false;    ///< optimizer state whose initial value the program's own weights file has
  std::optional<Initial> init;
  bool average = false; ///< optimizer state: the moving average of its parameter
  bool apart = false; ///< each replica has its own: see Manifest::sync

  /// The tensor on each stage that has it, or the one of all.
  std::vector<const Tensor *> onStages() const {
    std::vector<const Tensor *> tensors;
    for (const Tensor &place : places)
      tensors.push_back(&place);
    return tensors.empty() ? std::vector<const Tensor *>{this} : tensors;
  }
  /// Whether it is read from any weights file and saved in others.
  bool isWeight() const { return role == Role::Parameter || role == Role::Buffer || role == Role::Constant; }
};

/// One number that a task writes into the arena.
struct Output : Tensor {
  std::string function; ///< train or evaluate
  std::string kind;     ///< loss, correct, count, grad_norm, grad_sq_big, grad_sq_small, index
  uint32_t when = 0;    ///< computed on demand, if one of these bits is set; 0: always
  /// For an index: the valid range of its node, [range->first, range->second).
  std::optional<std::pair<int64_t, int64_t>> range;
  int64_t shares = 0; ///< of grad_sq_small: of the batch

  /// Of an index: whether a result says that it is in its range. It is twice the distance from the range's middle, or that minus one for
  /// negative distances: 0, -1, 1, -2, ...
  bool isInRange(double code) const { return code < static_cast<double>(range->second - range->first); }
};

/// An output of the model that `evaluate` computes on demand: rows for each row of the batch.
struct Prediction : Tensor {
  std::vector<std::string> inputs; ///< that it depends on
  /// Not empty: the program makes these metrics of it (ScoredSet), and users cannot ask for it.
  std::vector<std::string> metrics;
};

/// A call of a task, or of a rank in every step of training.
struct Call {
  std::string kind;    ///< kernel, the name of a service, a collective, or await
  std::string name;    ///< of the model's nodes
  std::string key;     ///< equal for calls that take equally long
  int64_t id = -1;     ///< of a collective or transfer, or of the one that is awaited
  double expected = 0; ///< microseconds; 0: unknown
  int64_t task = 0;
  int64_t microbatch = -1; ///< -1: not known, or there is only one

  /// The name for users.
  const std::string &title() const { return name.empty() ? kind : name; }
};

/// One run of a task.
struct Row {
  int64_t task = 0;
  int64_t microbatch = 0; ///< in an asynchronous program: relative to the minibatch that comes with the step
  int64_t slot = 0;       ///< buffer slot: an offset in the arena
  int64_t stride = 0;     ///< in an asynchronous program: between slots of consecutive minibatches
  int64_t slots = 1;      ///< number of buffer slots, which minibatches take in turn
  int64_t replica = -1;   ///< the replica that runs it, where some take microbatches in turn (0: the one whose turn it is,
                          ///< in an asynchronous program); -1: each
  /// In an asynchronous program: which of the minibatches that are updated together it runs for.
  enum class When { each, first, last } when = When::each;
};
/// The tasks that a rank runs, in order.
using Table = std::vector<Row>;

/// `DivisiProgram::manifest`, checked: every range is inside of the arena, and tensors that a user or the runtime
/// writes do not overlap.
struct Manifest {
  std::string model;
  int64_t batch = 1;
  std::string weightsFile, weightsHashes;
  /// The text at the skeleton's end that is the training_info of a saved model (0: none), and the updates before the first
  /// step of a program with its own weights.
  int64_t trainingBytes = 0, updatesBefore = 0;
  /// What the training computes, in parts (model, optimizer, numerics), independent of the devices.
  std::map<std::string, std::string> program;
  std::vector<Input> inputs;
  std::vector<State> state;
  std::vector<Tensor> scalars;
  std::vector<Output> results;
  std::vector<Prediction> predictions;
  /// The scores and the labels of which metrics are made; null: there are none.
  std::pair<const Prediction *, const Prediction *> scored() const;
  Mesh mesh;                                               ///< without axes: one device
  int64_t rank = 0;                                        ///< whose shards the arena has; known at run time
  std::map<int64_t, std::string> collectives;              ///< names by id, also of transfers
  std::set<std::vector<int64_t>> groups;                   ///< the axes, major to minor, of collectives
  std::map<std::pair<int64_t, int64_t>, int64_t> messages; ///< largest bytes, by its stages
  std::vector<std::string> tasks;                          ///< names
  std::map<std::string, std::vector<Table>> tables;        ///< by function and stage
  std::vector<uint64_t> arenas;                            ///< bytes by stage
  std::vector<Call> calls; ///< of tasks; once the rank is known, of all rows of its table of `train`
  double expectedStep = 0; ///< microseconds; 0: unknown
  double learningRate = 0.01;
  std::optional<Sync> sync; ///< null: all replicas have the same state
  std::optional<Reducers> reducers; ///< null: collectives go around rings
  HostLinks links;                  ///< by which an all_reduce chooses its algorithm
  std::optional<Servers> servers;   ///< null: the ranks of the mesh update the parameters
  /// The server that this rank is one of; null: it is a worker, whose place in the mesh is `rank`. A rank of a server has
  /// the state of the worker `rank`, the first replica's rank at the same place inside a replica.
  std::optional<int64_t> server;
  int64_t processRank = 0; ///< among all ranks
  std::string schedule = "constant";
  int64_t warmupSteps = 0;

  /// Makes this the manifest of one rank: marks the tensors that are not in its arena.
  void localize(int64_t rank);

  /// The number of ranks: those of the mesh, and those of servers.
  int64_t ranks() const { return mesh.size() + (servers ? servers->count() * placesInReplica() : 0); }
  /// Whether shares of batches are dealt to free workers, and steps are run by the dozen (FreeRun); the axis of the shares.
  bool dealsShares() const { return servers || (sync && sync->asynchronous); }
  int64_t shareAxis() const { return servers ? servers->axis : sync->axis; }
  /// Whether training can go on without workers that are lost, other than the first one.
  bool canLoseWorkers() const;
  /// With servers: the number of ranks of a replica, and of a server.
  int64_t placesInReplica() const { return mesh.size() / mesh.axes()[static_cast<size_t>(servers->axis)].size; }
  /// With servers: the rank of a worker, and of a server, at this rank's place inside a replica, or at that of a rank of the first replica.
  int workerRank(int64_t replica) const { return static_cast<int>(mesh.withIndex(rank, shareAxis(), replica)); }
  int serverRank(int64_t number) const { return serverRank(number, workerRank(0)); }
  int serverRank(int64_t number, int64_t ofFirst) const;
  /// With servers: the updates of each, for this rank's stage.
  const std::vector<Servers::Update> &updates() const { return servers->updates[static_cast<size_t>(stageOf(rank))]; }
  /// The mesh of this rank's collectives: that of all workers, or of this server.
  Mesh ownMesh() const;

  /// The number of stages: ranks of one stage run the same tasks on the same arena. Without an axis "stage" there is
  /// one.
  int64_t stages() const { return static_cast<int64_t>(arenas.size()); }
  int64_t stageOf(int64_t rank) const;
  /// Which of the replicas of its stage that take microbatches in turn a rank is, and how many there are.
  std::pair<int64_t, int64_t> turnOf(int64_t rank) const;
  /// The first rank of a stage.
  int64_t firstOf(int64_t stage) const;
  /// The table of this rank for a function; null if the program does not have the function.
  const Table *table(const std::string &function) const;
  /// Whether a step of training has several microbatches.
  bool hasMicrobatches() const;
  /// Whether each step of training brings minibatches which later steps finish, and how many.
  bool asynchronous = false;
  int64_t minibatches = 1;
  /// The number of minibatches that come between a minibatch and the moment in which a stage has finished it.
  int64_t lagOf(int64_t stage) const;
  int64_t longestLag() const;

  /// The shard of a tensor on a rank of its stage.
  Slice sliceOf(const Tensor &tensor, int64_t rank) const;
  Slice sliceOf(const Tensor &tensor) const { return sliceOf(tensor, rank); }
  /// In checkpoints, state of which each replica has its own has the replicas as an additional first dimension: their
  /// number (0: there is none), a shape with it, and the slice of a rank.
  int64_t replicasOf(const State &state) const;
  Shape storedShape(const State &state, Shape shape) const;
  Slice storedSlice(const State &state, const Tensor &tensor, int64_t rank) const;
  /// Adds the state of averages, behind the rest of the arenas: for each parameter one with each suffix.
  void addStateOfAverages(const std::vector<std::string_view> &suffixes);
  const Tensor *scalar(std::string_view name) const;
  const State *stateOf(Role role) const;
  /// The moving average of a parameter; null if there is none.
  const State *averageOf(const State &parameter) const;
  const Output *result(std::string_view function, std::string_view kind) const;
  /// A hash of names, roles, element types and whole shapes of the state in the model's order. Programs with equal
  /// hashes can exchange checkpoints, independent of their numbers of ranks and stages.
  std::string identity() const;
};

Result<Manifest> parseManifest(std::string_view json, uint64_t arenaBytes);
/// Parses the manifest; also checks the version of the program.
Result<Manifest> parseManifest(const DivisiProgram &program);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MANIFEST_H
