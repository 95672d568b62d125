#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Cost/Quantity.h"

#include "llvm/ADT/STLExtras.h"

using namespace divisi;
using namespace divisi::planning;

int64_t Cluster::devices() const {
  int64_t product = 1;
  for (const Level &level : levels)
    product *= level.size;
  return product;
}

Cluster Cluster::used(int64_t count) const {
  Cluster result = *this;
  if (machine) {
    result.device = shareOf(*machine, count);
    result.machine.reset();
    // What was changed of the devices' own share (BreakEven.cpp).
    const Device whole = shareOf(*machine, devices());
    result.device.memory *= device.memory / whole.memory;
    for (auto [flops, mine, known] : llvm::zip(result.device.flops, device.flops, whole.flops))
      flops *= mine / known;
    const double faster = device.flops[Device::fp32] / whole.flops[Device::fp32];
    for (auto *rates : {&result.device.matmuls, &result.device.convolutions, &result.device.filters, &result.device.batches})
      for (Rate &point : *rates)
        point.rate *= faster;
  }
  return result;
}

std::vector<int64_t> Cluster::childSizes() const {
  std::vector<int64_t> sizes;
  int64_t size = 1;
  for (const Level &level : levels) {
    sizes.push_back(size);
    size *= level.size;
  }
  return sizes;
}

std::string Cluster::invalid() const {
  struct Figure {
    std::string name;
    Unit unit;
    double value;
  };
  std::vector<Figure> figures = {{"device.memory", Unit::bytes, device.memory},
                                 {"device.bandwidth", Unit::bytesPerSecond, device.bandwidth},
                                 {"device.memory-efficiency", Unit::share, device.memoryEfficiency},
                                 {"device.launch", Unit::seconds, device.launch}};
  for (auto [name, rates] : {std::pair("device.matmuls", &device.matmuls), {"device.convolutions", &device.convolutions}, {"device.filters", &device.filters}})
    for (const Rate &point : *rates)
      for (double figure : {point.size, point.rate})
        figures.push_back({name, Unit::flopsPerSecond, figure});
  for (const auto *rates : {&device.kernels, &device.packings})
    for (const Rate &point : *rates) {
      const char *name = rates == &device.kernels ? "device.kernels" : "device.packings";
      figures.push_back({name, Unit::bytes, point.size});
      figures.push_back({name, Unit::bytesPerSecond, point.rate});
    }
  for (double share : device.computeEfficiency)
    figures.push_back({"device.compute-efficiency", Unit::share, share});
  for (double flops : device.flops)
    figures.push_back({"device.flops", Unit::flopsPerSecond, flops});
  for (const Level &level : levels) {
    figures.push_back({"level.bandwidth", Unit::bytesPerSecond, level.bandwidth});
    figures.push_back({"level.latency", Unit::seconds, level.latency});
  }
  for (const Figure &figure : figures)
    if (!inRange(figure.unit, figure.value))
      return figure.name + ": expected " + expectation(figure.unit).str();

  if (device.kind != "cpu" && device.kind != "cuda")
    return "device.kind: expected \"cpu\" or \"cuda\"";
  if (levels.size() > mostLevels)
    return "level: expected at most " + std::to_string(mostLevels) + " levels";
  int64_t product = 1;
  for (const Level &level : levels) {
    if (level.size < 1 || level.size > mostDevices / product)
      return "level.size: expected sizes from 1, and at most " + std::to_string(mostDevices) + " devices in all";
    product *= level.size;
  }
  return "";
}
