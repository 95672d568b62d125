#include "passes/Planning/Explain/BreakEven.h"

#include <cmath>

using namespace divisi;
using namespace divisi::planning;

namespace {

struct Figure {
  std::string name, unit;
  double now;
  std::function<void(Cluster &, double)> set; // sets the figure to its value times a factor
};

std::vector<Figure> figuresOf(const Cluster &cluster) {
  std::vector<Figure> figures;
  const std::string device = cluster.device.kind == "cuda" ? "GPU" : "rank";
  int64_t inside = 1; // devices that share a link of the level
  for (auto [i, level] : llvm::enumerate(cluster.levels)) {
    std::string unit = i == 0 ? device : i == 1 ? "node" : "group of " + std::to_string(inside) + " " + device + "s";
    inside *= level.size;
    figures.push_back({"bandwidth of " + level.name + " per " + unit, "B/s", level.bandwidth,
                       [i = i](Cluster &c, double by) { c.levels[i].bandwidth *= by, c.levels[i].uncached /= by; }});
    figures.push_back({"latency of " + level.name, "s", level.latency,
                       [i = i](Cluster &c, double by) { c.levels[i].latency *= by; }});
  }
  figures.push_back(
      {"peak FLOP/s per " + device, "FLOP/s", cluster.device.flops[Cluster::Device::fp32], [](Cluster &c, double by) {
         for (double &flops : c.device.flops)
           flops *= by;
       }});
  figures.push_back(
      {"memory per " + device, "B", cluster.device.memory, [](Cluster &c, double by) { c.device.memory *= by; }});
  return figures;
}

/// The index of the best plan on a cluster.
size_t bestOn(const std::vector<PricedPlan> &plans, const Cluster &cluster) {
  std::vector<Candidate> priced;
  for (const PricedPlan &plan : plans)
    priced.push_back(plan.planner->price(cluster, plan.candidate->mesh, plan.candidate->plan, ""));
  return preferred(llvm::map_to_vector(priced, [](const Candidate &candidate) { return &candidate; }));
}
} // namespace

std::vector<BreakEven> planning::breakEvens(const std::vector<PricedPlan> &plans, const Cluster &cluster) {
  std::vector<BreakEven> result;
  size_t best = bestOn(plans, cluster);
  for (const Figure &figure : figuresOf(cluster)) {
    auto winner = [&](double by) {
      Cluster changed = cluster;
      figure.set(changed, by);
      return bestOn(plans, changed);
    };
    for (double direction : {0.5, 2.0}) {
      double stays = 1;
      for (int step = 0; step < 6; ++step) {
        double flips = stays * direction;
        if (winner(flips) == best) {
          stays = flips;
          continue;
        }
        while (std::abs(flips / stays - 1) > 0.01) {
          double middle = std::sqrt(stays * flips);
          (winner(middle) == best ? stays : flips) = middle;
        }
        result.push_back({figure.name, figure.unit, figure.now, figure.now * flips, winner(flips)});
        break;
      }
    }
  }
  return result;
}
