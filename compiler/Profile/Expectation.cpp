#include "compiler/Profile/Expectation.h"

#include "dialects/Graph/Graph.h"

#include <algorithm>
#include <cmath>

using namespace divisi;
using namespace divisi::compiler;
using codegen::ProgramCall;

namespace {

/// Roofline for computation, a ring for collectives; in microseconds.
double byFormula(const ProgramCall &call, const planning::Cluster &cluster) {
  const auto &device = cluster.device;
  if (call.kind == "await")
    return 0;
  if (call.collective) {
    double n = call.group, bandwidth = 1e9, latency = 1e-5;
    for (const auto &level : cluster.levels)
      bandwidth = level.bandwidth, latency = level.latency;
    double rounds = call.kind == "all_reduce" ? 2 : 1;
    return 1e6 * (rounds * (n - 1) * latency + rounds * (n - 1) / n * call.bytes / bandwidth);
  }
  double arithmetic = call.flops / (device.flops[planning::Cluster::Device::fp32] * device.computeEfficiency);
  double traffic = call.bytes / (device.bandwidth * device.memoryEfficiency);
  return 1e6 * std::max({arithmetic, traffic, device.launch});
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 1 : values[values.size() / 2];
}
} // namespace

Expectation compiler::expectStep(mlir::func::FuncOp train, const planning::Cluster &cluster,
                                 const RunSetting &setting, const ProfileDatabase &database) {
  Expectation result;
  result.calls = codegen::callsOf(train);
  std::map<std::string, std::vector<double>> ratios; // measured over formula, by kind
  for (const ProgramCall &call : result.calls)
    if (auto known = database.microseconds(setting, call.key); known && call.kind != "await")
      ratios[call.kind].push_back(*known / std::max(1e-3, byFormula(call, cluster)));
  std::map<int64_t, double> done; // when each collective ends
  double now = 0, network = 0, sum = 0, fromDatabase = 0;
  for (const ProgramCall &call : result.calls) {
    auto known = call.kind == "await" ? std::nullopt : database.microseconds(setting, call.key);
    double time = known ? *known : byFormula(call, cluster) * (ratios.count(call.kind) ? median(ratios[call.kind]) : 1);
    result.microseconds.push_back(time);
    sum += time;
    fromDatabase += known ? time : 0;
    if (call.kind == "await") {
      now = std::max(now, done[call.id]);
    } else if (call.collective) {
      network = std::max(network, now) + time;
      done[call.id] = network;
    } else {
      now += time;
    }
  }
  int64_t fed = 0;
  for (unsigned i = 0; i < train.getNumArguments(); ++i)
    if (train.getArgAttr(i, graph::names::input))
      fed += graph::bytesOf(train.getArgumentTypes()[i]);
  result.step = std::max(now, network) + database.microseconds(setting, feedKey(fed)).value_or(0);
  result.measured = sum > 0 ? fromDatabase / sum : 0;
  return result;
}
