//===- Manifest.h - what a program reads and keeps --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MANIFEST_H
#define DIVISI_RUNTIME_CORE_MANIFEST_H

#include "divisi/abi.h"
#include "runtime/core/DataType.h"
#include "runtime/core/Mesh.h"
#include "runtime/core/Slice.h"
#include "runtime/core/Status.h"

#include <map>
#include <optional>
#include <set>

namespace divisi::runtime {

/// A tensor in the arena: the whole of it, or this rank's piece.
struct Tensor {
  std::string name;
  int64_t stage = -1; ///< of the ranks whose arena has it; -1: all
  bool here = true;   ///< this rank's arena has it; known when the program runs
  DataType dtype = DataType::F32;
  Shape shape;
  /// Of a tensor that ranks share: the shape of the whole, and the axes over which each dimension is split.
  Shape global;
  std::vector<std::vector<int64_t>> split;
  /// Its shape in files, where that is another view of the same elements.
  Shape inFiles;
  int64_t offset = 0;
  int64_t bytes = 0;
  /// Of a tensor of stages: the same tensor on each stage that has it, the lowest first. Its pieces may differ.
  std::vector<Tensor> places;

  /// As the lowest stage has it.
  const Tensor &owner() const { return places.empty() ? *this : places.front(); }
  int64_t elements() const { return bytes / widthOf(dtype); }
  bool isSplit() const { return !split.empty(); }
  /// The whole as files and users know it, and as it is split.
  const Shape &wholeShape() const { return inFiles.empty() ? splitShape() : inFiles; }
  const Shape &splitShape() const { return isSplit() ? global : shape; }
  /// Bytes of the whole.
  int64_t wholeBytes() const { return isSplit() ? byteCount(global, widthOf(dtype)).value_or(0) : bytes; }
};

/// What a user feeds.
struct Input : Tensor {
  bool label = false;
  /// How many microbatches the first dimension counts, whose rows are the second; 0: the rows of the batch are the
  /// first.
  int64_t microbatches = 0;
  /// Fills the rows that an incomplete evaluation batch does not have (else zero).
  std::optional<int64_t> padding;
  /// Valid values are [range->first, range->second), and the padding: class labels, token numbers.
  std::optional<std::pair<int64_t, int64_t>> range;
};

enum class Role { Parameter, Buffer, Constant, Moment, Step, Seed, Scaling };
const char *nameOf(Role role);

/// How `--init` fills a tensor.
struct Initial {
  enum class Kind { Uniform, Normal, Constant } kind = Kind::Constant;
  double value = 0; ///< half width, standard deviation, or the value
};

/// What lives from step to step.
struct State : Tensor {
  Role role = Role::Parameter;
  bool trainable = true;
  std::string of;       ///< of a moment: its parameter
  std::string onnxName; ///< name of the initializer in the model
  std::optional<Initial> init;

  /// Comes from the weights file and goes back to the model.
  bool isWeight() const { return role == Role::Parameter || role == Role::Buffer || role == Role::Constant; }
};

/// One number that a task leaves in the arena.
struct Output : Tensor {
  std::string function; ///< train or evaluate
  std::string kind;     ///< loss, correct, count, grad_norm, index
  uint32_t when = 0;    ///< valid only in steps where one of these bits was wanted; 0: always
  /// Of an index: what its node takes, [range->first, range->second).
  std::optional<std::pair<int64_t, int64_t>> range;
};

/// What a task calls, or a rank in every step of training.
struct Call {
  std::string kind;    ///< kernel, the name of a service, a collective, or await
  std::string name;    ///< of the model's nodes
  std::string key;     ///< equal for calls that take equally long
  int64_t id = -1;     ///< of a collective or transfer, or the one that is waited for
  double expected = 0; ///< microseconds; 0: unknown
  int64_t task = 0;
  int64_t microbatch = -1; ///< that it is for; -1: not known, or there is only one

  /// What users know it as.
  const std::string &title() const { return name.empty() ? kind : name; }
};

/// A run of a task.
struct Row {
  int64_t task = 0;
  int64_t microbatch = 0; ///< of an asynchronous program: counted from the minibatch that comes with the step
  int64_t slot = 0;       ///< byte in the arena
  int64_t stride = 0;     ///< of an asynchronous program: from the slot of a minibatch to that of the next one
  int64_t slots = 1;      ///< that minibatches take in turn
};
/// What a rank runs, in order.
using Table = std::vector<Row>;

/// `DivisiProgram::manifest`, checked: every range lies in the arena, and nothing a user or the runtime writes
/// overlaps.
struct Manifest {
  std::string model;
  int64_t batch = 1;
  std::string weightsFile, weightsHashes;
  /// What the training computes, in parts (model, optimizer, numerics), whatever devices compute it.
  std::map<std::string, std::string> program;
  std::vector<Input> inputs;
  std::vector<State> state;
  std::vector<Tensor> scalars;
  std::vector<Output> results;
  Mesh mesh;                                               ///< without axes: one device
  int64_t rank = 0;                                        ///< whose pieces the arena has; known when the program runs
  std::map<int64_t, std::string> collectives;              ///< and transfers
  std::set<std::vector<int64_t>> groups;                   ///< the axes, major to minor, that collectives are over
  std::map<std::pair<int64_t, int64_t>, int64_t> messages; ///< the most bytes of one, by its stages
  std::vector<std::string> tasks;                          ///< names
  std::map<std::string, std::vector<Table>> tables;        ///< by function and stage
  std::vector<uint64_t> arenas;                            ///< bytes by stage
  std::vector<Call> calls; ///< of tasks; once the rank is known, of all that its table of `train` runs
  double expectedStep = 0; ///< microseconds; 0: unknown
  double learningRate = 0.01;
  std::string schedule = "constant";
  int64_t warmupSteps = 0, stepSize = 0;
  double gamma = 0.1;

  /// Makes this the manifest of one rank: tensors are those of its arena, or marked as not here.
  void localize(int64_t rank);

  /// Ranks of one stage run the same tasks on the same arena; without an axis "stage" there is one stage.
  int64_t stages() const { return static_cast<int64_t>(arenas.size()); }
  int64_t stageOf(int64_t rank) const;
  /// The first rank of a stage.
  int64_t firstOf(int64_t stage) const;
  /// What this rank runs for a function; null if the program cannot do it.
  const Table *table(const std::string &function) const;
  /// Whether a step of training has several microbatches.
  bool hasMicrobatches() const;
  /// Whether a step of training brings a minibatch that later steps finish.
  bool asynchronous = false;
  /// In so many steps later than it comes a stage has finished a minibatch.
  int64_t lagOf(int64_t stage) const;
  int64_t longestLag() const;

  /// The piece of a tensor that a rank of its stage has.
  Slice sliceOf(const Tensor &tensor, int64_t rank) const;
  Slice sliceOf(const Tensor &tensor) const { return sliceOf(tensor, rank); }
  const Tensor *scalar(std::string_view name) const;
  const State *stateOf(Role role) const;
  const Output *result(std::string_view function, std::string_view kind) const;
  /// A hash of names, roles, element types and whole shapes of the state in the model's order: equal for programs that
  /// can exchange checkpoints, on however many ranks and stages.
  std::string identity() const;
};

Result<Manifest> parseManifest(std::string_view json, uint64_t arenaBytes);
/// Also checks the version of the program.
Result<Manifest> parseManifest(const DivisiProgram &program);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MANIFEST_H
