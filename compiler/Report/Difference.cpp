#include "compiler/Report/Difference.h"

#include "compiler/Report/Lines.h"
#include "compiler/Report/Numbers.h"
#include "compiler/Report/PlanReport.h"
#include "passes/Planning/Explain/LayerCosts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

namespace {

/// The number of lines of a section at most, those that matter most.
constexpr size_t mostLines = 8;

/// In the order in which names were added.
template <typename T> using ByName = llvm::MapVector<std::string, T, std::map<std::string, unsigned>>;

struct Both {
  double first = 0, second = 0;
  double change() const { return second - first; }
};

/// What is said about names of one pattern.
struct Line {
  std::string text;
  int64_t count = 0;
  double weight = 0; // lines with more come first
};

class Comparison {
public:
  Comparison(const DifferenceSide &first, const DifferenceSide &second)
      : a(first.plan), b(second.plan), first(first), second(second) {}

  Difference run() {
    const bool models = first.model != second.model, clusters = first.cluster.name != second.cluster.name;
    auto whole = [&](const DifferenceSide &side) {
      return side.name() + (models ? " of " + side.model : "") + (clusters ? " on " + side.cluster.name : "");
    };
    result.title = (models ? "" : first.model + (clusters ? ": " : " ")) +
                   (clusters ? "" : "on " + first.cluster.name + ": ") + whole(first) + " compared with " +
                   whole(second);
    auto heading = [&](const DifferenceSide &side, const char *number) {
      std::string name = first.name() != second.name() ? side.name()
                         : clusters                    ? side.cluster.name
                         : models                      ? side.model
                                                       : side.name();
      return name.size() > widestHeading ? number : name;
    };
    const bool stages = first.hasStages() || second.hasStages();
    result.heading = {"per step and device", heading(first, "the first"), heading(second, "the second"), "difference"};
    if (stages) {
      compareStepsOfPipelines();
      compareSchedules();
      compareStages();
    } else {
      compareTimes();
      compareMemory();
    }
    for (const DifferenceSide *side : {&first, &second})
      if (!(side->pipeline ? side->pipeline->fits : side->plan.fits))
        result.notes.push_back(side->name() + " does not fit: a device has " +
                               scaled(side->cluster.used(side->plan.mesh.devices()).device.memory, "B"));
    compareShardings();
    if (!stages)
      compareLayers();
    compareCollectives();
    return std::move(result);
  }

private:
  static constexpr size_t widestHeading = 18;

  void add(const std::string &what, Both values, llvm::function_ref<std::string(double)> text, double noise) {
    double change = values.change();
    std::string difference = "the same";
    if (std::abs(change) > noise) {
      difference = (change > 0 ? "+" : "") + text(change);
      constexpr double leastShare = 1e-4;
      if (values.first > noise && std::abs(change) > leastShare * values.first)
        difference += " (" + std::string(change > 0 ? "+" : "") + percent(change / values.first) + ")";
    }
    result.rows.push_back({what, text(values.first), text(values.second), difference});
  }
  void addTime(const std::string &what, double first, double second) {
    constexpr double noise = 1e-9; // seconds: what sums leave of nothing
    add(what, {first, second}, [](double seconds) { return digits(seconds * 1e3) + " ms"; }, noise);
  }
  void addBytes(const std::string &what, double first, double second) {
    add(what, {first, second}, [](double bytes) { return scaled(bytes, "B"); }, 0.5);
  }

  void compareTimes() {
    const Prediction &p = a.prediction, &q = b.prediction;
    addTime("step", p.seconds, q.seconds);
    addTime("  computation", p.compute, q.compute);
    addTime("  exposed communication", p.waited, q.waited);
    addTime("overlapped communication", p.communication - p.waited, q.communication - q.waited);
    addBytes("sent", p.bytesSent, q.bytesSent);
  }

  void compareMemory() {
    const auto &p = a.prediction.memory, &q = b.prediction.memory;
    addBytes("memory", p.total(), q.total());
    addBytes("  parameters", p.parameters, q.parameters);
    addBytes("  optimizer state", p.moments, q.moments);
    addBytes("  activations and gradients", p.transient, q.transient);
  }

  /// What a pipeline and a plan without stages have in common: the busiest device, and what it waits for the others.
  struct Occupation {
    double seconds, busy, devices, messages = 0, memory;
    explicit Occupation(const DifferenceSide &side)
        : seconds(side.plan.prediction.seconds), busy(seconds), devices(side.plan.mesh.devices()),
          memory(side.plan.prediction.memory.total()) {
      if (!side.hasStages())
        return;
      const PipelineCandidate &pipeline = *side.pipeline;
      seconds = pipeline.seconds;
      devices = pipeline.options.devices(side.plan.mesh);
      memory = pipeline.memory;
      busy = 0;
      for (const auto &device : pipeline.run.devices)
        busy = std::max(busy, device.busy / pipeline.simulatedSteps());
      for (const auto &link : pipeline.run.links)
        messages += link.second.bytes / pipeline.simulatedSteps();
    }
  };
  void compareStepsOfPipelines() {
    const Occupation p(first), q(second);
    addTime("step", p.seconds, q.seconds);
    addTime("  tasks of the busiest", p.busy, q.busy);
    addTime("  its idle time", p.seconds - p.busy, q.seconds - q.busy);
    addBytes("messages between stages", p.messages, q.messages);
    addBytes("memory of the fullest", p.memory, q.memory);
    if (p.devices != q.devices)
      add("devices", {p.devices, q.devices}, digits, 0);
  }

  /// The decisions of a plan that are not shardings, by name.
  static std::vector<std::pair<std::string, std::string>> decisionsOf(const DifferenceSide &side) {
    const MicrobatchOptions options = side.pipeline ? side.pipeline->options : MicrobatchOptions();
    const bool stages = side.hasStages();
    return {{"stages", std::to_string(options.stages)},
            {"mesh of a stage", side.plan.mesh.devices() > 1 ? nameOf(side.plan.mesh) : "one device"},
            {"schedule", stages ? options.schedule : "none"},
            {"microbatches", std::to_string(options.microbatches)},
            {"stages of a device", std::to_string(options.chunks)},
            {"axes of the stages", options.axes.empty() ? "all" : options.axes.text()},
            {"replicas in turn", options.replicas.empty() ? "none" : options.replicasText()},
            {"weights", stages && options.asynchronous() ? options.staleness : "synchronous"},
            {"rematerialization", options.remat == 0                  ? "none"
                                  : options.remat == options.allParts ? "all segments"
                                                                      : std::to_string(options.remat) + " segments"}};
  }
  void compareSchedules() {
    std::vector<Line> lines;
    std::string same;
    for (auto [then, now] : llvm::zip(decisionsOf(first), decisionsOf(second)))
      if (then.second != now.second)
        lines.push_back({then.first + ": " + then.second + " -> " + now.second, 1, 0});
      else if (then.first == "stages" || then.first == "schedule" || then.first == "microbatches")
        same += (same.empty() ? "" : ", ") + then.first + " " + then.second;
    addSection("Pipeline" + (same.empty() ? "" : " (the same: " + same + ")"), lines);
  }

  /// Where stages begin, and what their devices compute, if each has one stage.
  void compareStages() {
    auto count = [](const DifferenceSide &side) { return side.hasStages() ? side.pipeline->options.stages : 1; };
    auto begin = [](const DifferenceSide &side, int64_t stage) -> std::string {
      const bool known = side.hasStages() && stage > 0 && stage <= (int64_t)side.pipeline->options.cuts.size();
      return stage == 0 ? "the beginning" : known ? side.pipeline->options.cuts[stage - 1] : "not there";
    };
    auto time = [](const DifferenceSide &side, int64_t stage) -> std::string {
      if (!side.hasStages())
        return stage == 0 ? digits(side.plan.prediction.seconds * 1e3) + " ms" : "";
      const auto &devices = side.pipeline->run.devices;
      const bool alone = stage < (int64_t)devices.size() && (int64_t)devices.size() == side.pipeline->options.stages;
      return alone ? digits(devices[stage].busy / side.pipeline->simulatedSteps() * 1e3) + " ms" : "";
    };
    std::vector<Line> lines;
    int64_t same = 0;
    for (int64_t stage = 0; stage < std::max(count(first), count(second)); ++stage) {
      const std::string then = begin(first, stage), now = begin(second, stage);
      const std::string before = time(first, stage), after = time(second, stage);
      if (then == now && before == after) {
        ++same;
        continue;
      }
      std::string text = "stage " + std::to_string(stage) + ": " + (then == now ? "at " + then : then + " -> " + now);
      if (!before.empty() || !after.empty())
        text += ", " + (before.empty() ? "none" : before) + " -> " + (after.empty() ? "none" : after);
      lines.push_back({text, 1, 0});
    }
    addSection("Where stages begin, and the time of their tasks (" + std::to_string(same) + " stay)", lines);
  }

  /// Adds the lines with the most weight under a heading; nothing if there are none.
  void addSection(const std::string &heading, std::vector<Line> lines) {
    if (lines.empty())
      return;
    llvm::stable_sort(lines, [](const Line &x, const Line &y) { return x.weight > y.weight; });
    Difference::Section &section = result.sections.emplace_back();
    section.heading = heading;
    for (const Line &line : llvm::ArrayRef(lines).take_front(mostLines))
      section.lines.push_back((line.count > 1 ? std::to_string(line.count) + " x " : "") + line.text);
    int64_t rest = 0;
    for (const Line &line : llvm::ArrayRef(lines).drop_front(std::min(mostLines, lines.size())))
      rest += line.count;
    if (rest)
      section.lines.push_back(std::to_string(rest) + " more");
  }

  /// Shardings of inputs and states by name, and their bytes.
  static ByName<std::pair<std::string, double>> placesOf(const DifferenceSide &side) {
    ByName<std::pair<std::string, double>> places;
    const ModuleCandidate &plan = side.plan;
    const int64_t microbatches = side.pipeline ? side.pipeline->options.microbatches : 1;
    const Problem &problem = plan.planner->problem;
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.named()) {
        dist::Sharding sharding = plan.plan.tensors[t];
        // Inputs have a dimension for their microbatches in front, which no plan without them has.
        if (tensor.role == Problem::Role::input && microbatches > 1 && !tensor.shape.empty() &&
            tensor.shape[0] == microbatches && sharding.dims[0].empty())
          sharding.dims.erase(sharding.dims.begin());
        places.try_emplace(tensor.name, describe(sharding, plan.mesh), tensor.bytes());
      }
    return places;
  }

  void compareShardings() {
    auto before = placesOf(first), after = placesOf(second);
    ByName<Line> lines;
    size_t same = 0;
    auto count = [&](const std::string &name, const std::string &then, const std::string &now, double bytes) {
      std::string text = layerPattern(name) + ": " + then + " -> " + now;
      Line &line = lines[text];
      line.text = text;
      ++line.count;
      line.weight += bytes;
    };
    for (const auto &[name, place] : before) {
      auto other = after.find(name);
      std::string now = other == after.end() ? "not there" : other->second.first;
      if (now == place.first)
        ++same;
      else
        count(name, place.first, now, place.second);
    }
    for (const auto &[name, place] : after)
      if (before.find(name) == before.end())
        count(name, "not there", place.first, place.second);
    std::vector<Line> list;
    for (auto &entry : lines)
      list.push_back(std::move(entry.second));
    addSection("Shardings of inputs and states that change, the largest first (" + std::to_string(same) + " stay)",
               list);
  }

  static ByName<std::pair<int64_t, double>> layersOf(const ModuleCandidate &plan) {
    ByName<std::pair<int64_t, double>> layers;
    for (const LayerCost &layer : layerCosts(plan.planner->problem, plan)) {
      std::string pattern = layerPattern(layer.name + "/");
      auto &[count, seconds] = layers[pattern.substr(0, pattern.size() - 1)];
      ++count;
      seconds += layer.forward + layer.backward + layer.shown;
    }
    return layers;
  }

  void compareLayers() {
    auto before = layersOf(a), after = layersOf(b);
    std::vector<Line> lines;
    for (const auto &[name, layer] : before)
      after.try_emplace(name, layer.first, 0.0);
    for (const auto &[name, layer] : after) {
      auto known = before.find(name);
      Both times{known == before.end() ? 0 : known->second.second, layer.second};
      if (std::abs(times.change()) * 1e3 < leastChange * a.prediction.seconds * 1e3)
        continue;
      lines.push_back({(name.empty() ? "(update and operations without a node)" : name) + ": " +
                           digits(times.first * 1e3) + " -> " + digits(times.second * 1e3) + " ms (" +
                           (times.change() > 0 ? "+" : "") + digits(times.change() * 1e3) + ")",
                       layer.first, std::abs(times.change())});
    }
    addSection("Layers whose time changes most (computation and exposed communication, together)", lines);
  }

  struct Collectives {
    int64_t count = 0;
    double bytes = 0, seconds = 0, exposed = 0;
    std::string text() const {
      return count ? std::to_string(count) + " of " + scaled(bytes, "B") + ", " + digits(seconds * 1e3) + " ms (" +
                         digits(exposed * 1e3) + " exposed)"
                   : "none";
    }
  };
  static ByName<Collectives> collectivesOf(const ModuleCandidate &plan) {
    ByName<Collectives> kinds;
    for (const auto &collective : plan.prediction.collectives) {
      std::string axes;
      for (int axis : collective.step.axes)
        axes += (axes.empty() ? "" : "+") + plan.mesh.axes[axis].name;
      Collectives &entry = kinds[std::string(collectiveName(collective.step.kind)) + " over " + axes];
      entry.count += collective.leads ? collective.times : 0;
      entry.bytes += collective.bytes * collective.times;
      entry.seconds += collective.seconds * collective.times;
      entry.exposed += collective.waited * collective.times;
    }
    return kinds;
  }

  void compareCollectives() {
    auto before = collectivesOf(a), after = collectivesOf(b);
    std::vector<Line> lines;
    for (const auto &entry : before)
      after.try_emplace(entry.first);
    for (const auto &[kind, now] : after) {
      Collectives then = before.lookup(kind);
      bool same = then.text() == now.text();
      lines.push_back({kind + ": " + then.text() + (same ? " in both" : " -> " + now.text()), 1, std::max(then.seconds, now.seconds)});
    }
    addSection(first.hasStages() || second.hasStages() ? "Collectives of a step inside of stages (all stages together)"
                                                       : "Collectives of a step (bytes of all of them)",
               lines);
  }

  /// Layers whose time changes by less than this share of the step are left out.
  static constexpr double leastChange = 1e-4;

  const ModuleCandidate &a, &b;
  const DifferenceSide &first, &second;
  Difference result;
};
} // namespace

Difference Difference::between(const DifferenceSide &first, const DifferenceSide &second) {
  return Comparison(first, second).run();
}

void Difference::print(llvm::raw_ostream &out) const {
  constexpr int width = 34, column = 18;
  auto printRow = [&](const Row &values) {
    row(out, {{values.what, width}, {values.first, -column}, {values.second, -column}, {values.change, -column}});
  };
  out << title << "\n\n";
  printRow(heading);
  for (const Row &values : rows)
    printRow(values);
  for (const std::string &note : notes)
    out << note << "\n";
  for (const Section &section : sections) {
    out << "\n" << section.heading << "\n";
    for (const std::string &line : section.lines)
      out << "  " << line << "\n";
  }
}
