#include "compiler/Report/SyncReport.h"

#include "dialects/Dist/Sync.h"
#include "passes/Planning/Cost/Collectives.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// Numbers of steps from one average to the next that are shown.
static constexpr int64_t averages[] = {8, 64};

std::vector<SyncPrice> compiler::priceSync(const Candidate &plan, const Cluster &cluster) {
  using Kind = dist::ReshardStep::Kind;
  const Prediction &step = plan.prediction;
  const dist::Mesh &mesh = plan.mesh;
  int axis = *mesh.find(dist::replicaAxis);
  const int64_t replicas = mesh.axes[axis].size;
  const double parameters = step.memory.parameters;
  const Link link = linkOf(cluster, mesh, {axis});
  // What replicas exchange in a step of all-reduce, and what is left without it.
  double bytes = 0, seconds = 0, waited = 0;
  for (const Prediction::Collective &collective : step.collectives)
    if (llvm::is_contained(collective.step.axes, axis)) {
      bytes += bytesSent(collective.step.kind, mesh.parts(collective.step.axes), collective.bytes);
      seconds += collective.seconds;
      waited += collective.waited;
    }
  auto priced = [&](const std::string &flags, bool same, double sent, double shown) {
    return SyncPrice{flags, same, step.bytesSent - bytes + sent, step.waited - waited + shown, step.seconds - waited + shown};
  };
  std::vector<SyncPrice> prices = {{"all-reduce", true, step.bytesSent, step.waited, step.seconds}};
  // All others send to the first replica, which sends back: as many seconds overlap with the backward pass as of all_reduces.
  std::vector<Transfer> in, out;
  int64_t stride = 1;
  for (size_t inner = axis + 1; inner < mesh.axes.size(); ++inner)
    stride *= mesh.axes[inner].size;
  for (int64_t other = 1; other < replicas; ++other) {
    in.push_back({other * stride, 0});
    out.push_back({0, other * stride});
  }
  double there = transferSeconds(cluster, in, parameters) + transferSeconds(cluster, out, parameters);
  prices.push_back(priced("driver", true, (double)(replicas - 1) * parameters, std::max(0.0, there - (seconds - waited))));
  // Colocated servers: everybody sends each other one its share of the gradients, and after the update of the parameters.
  std::vector<Transfer> all;
  for (int64_t from = 0; from < replicas; ++from)
    for (int64_t to = 0; to < replicas; ++to)
      if (from != to)
        all.push_back({from * stride, to * stride});
  double push = transferSeconds(cluster, all, parameters / (double)replicas);
  prices.push_back(priced("server --servers colocated", true, bytesSent(Kind::allReduce, replicas, parameters),
                          std::max(0.0, push - (seconds - waited)) + push));
  double average = stepSeconds(link, Kind::allReduce, parameters), ring = bytesSent(Kind::allReduce, replicas, parameters);
  for (int64_t every : averages)
    prices.push_back(priced("local --average-every " + std::to_string(every), false, ring / (double)every, average / (double)every));
  for (auto topology : {dist::Sync::Topology::ring, dist::Sync::Topology::exponential, dist::Sync::Topology::pairs}) {
    double neighbours = topology == dist::Sync::Topology::ring && replicas > 2 ? 2 : 1;
    prices.push_back(priced("gossip --topology " + dist::Sync::nameOf(topology).str(), false, neighbours * parameters,
                            neighbours * permuteSeconds(link, parameters)));
  }
  return prices;
}

llvm::json::Array compiler::describeSync(const std::vector<SyncPrice> &prices) {
  llvm::json::Array list;
  for (const SyncPrice &price : prices)
    list.push_back(llvm::json::Object{{"sync", price.flags},
                                      {"same_numbers", price.sameNumbers},
                                      {"step_ms", price.seconds * 1e3},
                                      {"exposed_ms", price.exposed * 1e3},
                                      {"bytes_sent", price.bytes}});
  return list;
}

void compiler::printSync(llvm::StringRef plan, const std::vector<SyncPrice> &prices, llvm::raw_ostream &out) {
  out << "\nWays to keep the replicas of " << plan << " in step\n";
  out << llvm::formatv("{0,-32} {1,9} {2,9} {3,12}  {4}\n", "--sync", "step ms", "exposed", "bytes sent", "numbers");
  for (const SyncPrice &price : prices) {
    std::string step, exposed, bytes;
    llvm::raw_string_ostream(step) << llvm::format("%.3g", price.seconds * 1e3);
    llvm::raw_string_ostream(exposed) << llvm::format("%.3g", price.exposed * 1e3);
    llvm::raw_string_ostream(bytes) << llvm::format("%.4g", price.bytes);
    out << llvm::formatv("{0,-32} {1,9} {2,9} {3,12}  {4}\n", price.flags, step, exposed, bytes,
                         price.sameNumbers ? "of one device" : "others");
  }
}
