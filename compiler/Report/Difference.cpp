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

class Printer {
public:
  Printer(const DifferenceSide &first, const DifferenceSide &second, llvm::raw_ostream &out)
      : a(first.plan), b(second.plan), first(first), second(second), out(out) {}

  void run() {
    const bool models = first.model != second.model, clusters = first.cluster.name != second.cluster.name;
    auto whole = [&](const DifferenceSide &side) {
      return side.plan.name + (models ? " of " + side.model : "") + (clusters ? " on " + side.cluster.name : "");
    };
    if (!models)
      out << first.model << (clusters ? ": " : "");
    if (!clusters)
      out << (models ? "on " : " on ") << first.cluster.name << ": ";
    out << whole(first) << " compared with " << whole(second) << "\n\n";
    auto heading = [&](const DifferenceSide &side) {
      return a.name != b.name ? side.plan.name : clusters ? side.cluster.name : models ? side.model : side.plan.name;
    };
    row(out, {{"of a step, and of one device", width}, {heading(first), -column}, {heading(second), -column}, {"difference", -column}});
    printTimes();
    printMemory();
    printShardings();
    printLayers();
    printCollectives();
  }

private:
  static constexpr int width = 34, column = 18;

  void print(const std::string &what, Both values, llvm::function_ref<std::string(double)> text, double noise) {
    double change = values.change();
    std::string difference = "the same";
    if (std::abs(change) > noise) {
      difference = (change > 0 ? "+" : "") + text(change);
      if (values.first > noise)
        difference += " (" + std::string(change > 0 ? "+" : "") + percent(change / values.first) + ")";
    }
    row(out, {{what, width}, {text(values.first), -column}, {text(values.second), -column}, {difference, -column}});
  }
  void printTime(const std::string &what, double first, double second) {
    constexpr double noise = 1e-9; // seconds: what sums leave of nothing
    print(what, {first, second}, [](double seconds) { return digits(seconds * 1e3) + " ms"; }, noise);
  }
  void printBytes(const std::string &what, double first, double second) {
    print(what, {first, second}, [](double bytes) { return scaled(bytes, "B"); }, 0.5);
  }

  void printTimes() {
    const Prediction &p = a.prediction, &q = b.prediction;
    printTime("step", p.seconds, q.seconds);
    printTime("  computation", p.compute, q.compute);
    printTime("  exposed communication", p.waited, q.waited);
    printTime("overlapped communication", p.communication - p.waited, q.communication - q.waited);
    printBytes("sent", p.bytesSent, q.bytesSent);
  }

  void printMemory() {
    const auto &p = a.prediction.memory, &q = b.prediction.memory;
    printBytes("memory", p.total(), q.total());
    printBytes("  parameters", p.parameters, q.parameters);
    printBytes("  optimizer state", p.moments, q.moments);
    printBytes("  activations and gradients", p.transient, q.transient);
    for (const DifferenceSide *side : {&first, &second})
      if (!side->plan.fits)
        out << side->plan.name << " does not fit: a device has "
            << scaled(side->cluster.used(side->plan.mesh.devices()).device.memory, "B") << "\n";
  }

  /// Prints the lines with the most weight under a heading; nothing if there are none.
  void printLines(const std::string &heading, std::vector<Line> lines) {
    if (lines.empty())
      return;
    llvm::stable_sort(lines, [](const Line &x, const Line &y) { return x.weight > y.weight; });
    out << "\n" << heading << "\n";
    for (const Line &line : llvm::ArrayRef(lines).take_front(mostLines))
      out << "  " << (line.count > 1 ? std::to_string(line.count) + " x " : "") << line.text << "\n";
    int64_t rest = 0;
    for (const Line &line : llvm::ArrayRef(lines).drop_front(std::min(mostLines, lines.size())))
      rest += line.count;
    if (rest)
      out << "  " << rest << " more\n";
  }

  /// Shardings of inputs and states by name, and their bytes.
  static ByName<std::pair<std::string, double>> placesOf(const ModuleCandidate &plan) {
    ByName<std::pair<std::string, double>> places;
    const Problem &problem = plan.planner->problem;
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.named())
        places.try_emplace(tensor.name, describe(plan.plan.tensors[t], plan.mesh), tensor.bytes());
    return places;
  }

  void printShardings() {
    auto before = placesOf(a), after = placesOf(b);
    ByName<Line> lines;
    size_t same = 0;
    auto add = [&](const std::string &name, const std::string &then, const std::string &now, double bytes) {
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
        add(name, place.first, now, place.second);
    }
    for (const auto &[name, place] : after)
      if (before.find(name) == before.end())
        add(name, "not there", place.first, place.second);
    std::vector<Line> list;
    for (auto &entry : lines)
      list.push_back(std::move(entry.second));
    printLines("Shardings of inputs and states that change, the largest first (" + std::to_string(same) + " stay)", list);
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

  void printLayers() {
    auto before = layersOf(a), after = layersOf(b);
    std::vector<Line> lines;
    for (const auto &[name, layer] : before)
      after.try_emplace(name, layer.first, 0.0);
    for (const auto &[name, layer] : after) {
      auto known = before.find(name);
      Both times{known == before.end() ? 0 : known->second.second, layer.second};
      if (std::abs(times.change()) * 1e3 < leastChange * a.prediction.seconds * 1e3)
        continue;
      lines.push_back({(name.empty() ? "(losses and update)" : name) + ": " + digits(times.first * 1e3) + " -> " +
                           digits(times.second * 1e3) + " ms (" + (times.change() > 0 ? "+" : "") +
                           digits(times.change() * 1e3) + ")",
                       layer.first, std::abs(times.change())});
    }
    printLines("Layers whose time changes most (computation and exposed communication, together)", lines);
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
      ++entry.count;
      entry.bytes += collective.bytes;
      entry.seconds += collective.seconds;
      entry.exposed += collective.waited;
    }
    return kinds;
  }

  void printCollectives() {
    auto before = collectivesOf(a), after = collectivesOf(b);
    std::vector<Line> lines;
    for (const auto &entry : before)
      after.try_emplace(entry.first);
    for (const auto &[kind, now] : after) {
      Collectives then = before.lookup(kind);
      bool same = then.text() == now.text();
      lines.push_back({kind + ": " + then.text() + (same ? " in both" : " -> " + now.text()), 1, std::max(then.seconds, now.seconds)});
    }
    printLines("Collectives of a step (bytes of all of them)", lines);
  }

  /// Layers whose time changes by less than this share of the step are left out.
  static constexpr double leastChange = 1e-4;

  const ModuleCandidate &a, &b;
  const DifferenceSide &first, &second;
  llvm::raw_ostream &out;
};
} // namespace

void compiler::printDifference(const DifferenceSide &first, const DifferenceSide &second, llvm::raw_ostream &out) {
  Printer(first, second, out).run();
}
