#pragma once
#include "dialects/Dist/Sharding.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace divisi::dist {

namespace names {
/// Attribute of a module and of a plan: how replicas are kept in step, if not by reducing gradients everywhere (Sync).
inline constexpr llvm::StringLiteral sync = "dist.sync";
/// Attribute of a module that is not planned yet: the mesh, with the axis of stages, that has these replicas.
inline constexpr llvm::StringLiteral syncMesh = "dist.sync_mesh";
/// Attribute of an argument of a server's task: workers send its value (serve-updates).
inline constexpr llvm::StringLiteral pushed = "dist.pushed";
} // namespace names

/// The axis of a mesh along which replicas share the batch.
inline constexpr llvm::StringLiteral replicaAxis = "data";

/// How the replicas along the axis "data" are kept in step.
struct Sync {
  enum class Mode { allReduce, local, gossip, driver, server, asyncServer };
  /// What makes new parameters of the replicas' mean: the mean itself, or an update of the previous mean.
  enum class Outer { mean, sgd, nesterov };
  /// With whom a replica averages in a step of gossip.
  enum class Topology { ring, exponential, pairs };

  Mode mode = Mode::allReduce;
  int64_t every = 1; // local: steps from one average to the next
  Outer outer = Outer::mean;
  double outerRate = 1, outerMomentum = 0;
  bool averageState = false; // local: the optimizer's state is averaged, too
  bool overlap = false;      // local: the next steps are computed during an average, which counts after the next one
  Topology topology = Topology::ring;
  bool asynchronous = false; // gossip: replicas average with one neighbour at a time, and wait for no other
  /// server, asyncServer: ranks that compute no batch, but update the parameters; 0: every replica serves a shard.
  int64_t servers = 0;
  /// asyncServer: the number of batches by which a replica may be ahead of the slowest one.
  std::optional<int64_t> maxStaleness;

  bool operator==(const Sync &) const = default;
  /// Whether parameters are updated by the gradient of a replica's own share of the batch.
  bool isApart() const { return mode == Mode::local || mode == Mode::gossip || mode == Mode::asyncServer; }
  /// The number of ranks of dedicated servers, beside a mesh; each server has one for each place inside a replica.
  int64_t serverRanks(const Mesh &mesh) const;

  static std::optional<Mode> parseMode(llvm::StringRef text);
  static std::optional<Outer> parseOuter(llvm::StringRef text);
  static std::optional<Topology> parseTopology(llvm::StringRef text);
  static llvm::StringRef nameOf(Mode mode);
  static llvm::StringRef nameOf(Topology topology);
  static llvm::StringRef nameOf(Outer outer);
  /// An error text if the numbers are out of range; else "".
  std::string invalid() const;

  /// Null for all-reduce.
  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  /// Null: all-reduce.
  static mlir::FailureOr<Sync> parse(mlir::Attribute attr, llvm::function_ref<mlir::InFlightDiagnostic()> error);
  /// That of a module, which has been verified or is an error.
  static mlir::FailureOr<Sync> of(mlir::ModuleOp module);
  /// For people: "local of 4 replicas, averaged every 8 steps".
  std::string text(int64_t replicas) const;
};

} // namespace divisi::dist
