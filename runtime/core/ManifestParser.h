//===- ManifestParser.h - a manifest that may be anything -------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MANIFESTPARSER_H
#define DIVISI_RUNTIME_CORE_MANIFESTPARSER_H

#include "runtime/core/ManifestSync.h"

namespace divisi::runtime {

/// Parses a manifest; the first error ends it.
class ManifestParser {
public:
  ManifestParser(Manifest &manifest, uint64_t arenaBytes) : manifest(manifest), arenaBytes(arenaBytes) {}

  Status parse(const Json &json);

private:
  void keep(const Status &other) {
    if (status.ok() && !other.ok())
      status = other;
  }

  // ManifestTables.cpp: the mesh, its stages, and what they run and send.
  /// Parses what messages take: inside of a host, then between hosts.
  void parseLinks(const Json &json);
  void parseMesh(const Json &json);
  /// Parses the arena of each stage.
  void parseStages(JsonReader &top);
  bool isAxis(const Json &axis) const;
  bool isLacking(int64_t stage, int64_t axis) const;
  /// Parses the tables of all stages: rows [task, microbatch, slot], [task, microbatch, slot, replica] where replicas
  /// take microbatches in turn, [task, minibatch, slot, stride, slots, Row::When] if they are asynchronous.
  void parseTables(const std::string &function, const Json &stages);
  bool isReplica(int64_t replica, int64_t stage) const;
  void parseCollective(const Json &json);
  void parseMessage(const Json &json);
  void parseCall(const Json &json);

  // ManifestTensors.cpp
  /// Parses the sharding of a tensor.
  void parseSplit(const Json &json, Tensor &tensor, const char *what);
  Tensor parseTensor(const Json &json, const char *what, bool single);
  void parseInput(const Json &json);
  static std::optional<std::pair<int64_t, int64_t>> parseRange(JsonReader &reader);
  void parseState(const Json &json);
  void parseInit(const Json &json, State &state);
  void parseOutput(const Json &json);
  void parsePrediction(const Json &json);

  // ManifestChecks.cpp: what spans tensors.
  void checkTensors();
  /// Joins the tensors of one name on several stages into one.
  template <typename T> void join(const char *what, std::vector<T> &items);
  /// Averages are like their parameters.
  void checkAverages();
  void checkResults();
  /// Checks that tensors in the arena of a stage do not overlap.
  void checkOverlap(int64_t stage);


  Manifest &manifest;
  uint64_t arenaBytes;
  std::optional<int64_t> stageAxis;
  std::vector<std::vector<int64_t>> lacking; // axes, by stage
  /// The largest distance of a minibatch from the one that comes with a step.
  static constexpr int64_t mostInFlight = 4096;
  int64_t microbatches = INT64_MAX; ///< common to all inputs
  Status status;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MANIFESTPARSER_H
