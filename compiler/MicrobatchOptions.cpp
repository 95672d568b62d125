#include "compiler/MicrobatchOptions.h"

#include "divisi/abi.h"
#include "passes/Planning/Simulator/Schedule.h"

#include "llvm/ADT/StringExtras.h"

using namespace divisi;
using namespace divisi::compiler;

std::string MicrobatchOptions::wrongReplicas(const dist::Mesh &mesh) const {
  if (replicas.empty())
    return "";
  planning::pipeline::ScheduleOptions options;
  options.kind = *planning::pipeline::parseScheduleKind(schedule);
  options.devices = stages / chunks;
  options.microbatches = microbatches;
  options.chunks = chunks;
  options.replicas = replicas;
  options.batch = options.doubleBuffered() ? microbatches : 1;
  constexpr int64_t mostReplicas = 4096, mostPlaces = 1 << 16; // the runtime's limit
  for (int64_t count : replicas)
    if (count < 1 || count > mostReplicas)
      return "replicas: from 1 to " + std::to_string(mostReplicas) + " are possible, not " + std::to_string(count);
  if (!axes.empty())
    return "stages whose replicas take microbatches in turn have the same axes: leave out the axes of each stage";
  dist::Mesh all = mesh;
  axes.withTurns(replicas, all);
  constexpr size_t mostAxes = DIVISI_MAX_AXES - 1; // beside that of stages
  if (all.axes.size() > mostAxes)
    return "a mesh has an axis for the stages, one for each number of replicas above 1, and those of a stage: at "
           "most " +
           std::to_string(mostAxes + 1);
  int64_t places = options.devices;
  for (const dist::Mesh::Axis &axis : all.axes)
    places = std::min(places * axis.size, mostPlaces + 1);
  if (places > mostPlaces)
    return "a mesh has at most " + std::to_string(mostPlaces) + " places, and an axis for each number of replicas above "
           "1: take numbers that are equal";
  return options.invalid();
}

std::string MicrobatchOptions::replicasText() const {
  return llvm::join(llvm::map_range(replicas, [](int64_t count) { return std::to_string(count); }), ",");
}

int64_t MicrobatchOptions::devices(const dist::Mesh &mesh) const {
  int64_t sum = 0;
  for (int64_t stage = 0; stage < stages / chunks; ++stage)
    sum += axes.devices(stage, mesh) * (replicas.empty() ? 1 : replicas[stage]);
  return sum;
}
