#pragma once
#include "compiler/PipelineCandidate.h"

namespace divisi::compiler {

/// A plan of a model on a cluster.
struct DifferenceSide {
  std::string model; // for the heading
  const planning::Cluster &cluster;
  const planning::ModuleCandidate &plan;       // of a pipeline: for the devices of one stage
  const PipelineCandidate *pipeline = nullptr; // null: all devices compute the whole step

  std::string name() const { return pipeline ? pipeline->name() : plan.name; }
  bool hasStages() const { return pipeline && pipeline->options.stages > 1; }
};

/// What a second plan changes, on one screen: times, bytes and memory; the schedule and the stages of pipelines; the
/// shardings of states and inputs; the layers whose times differ most; and the collectives. What has the same name in
/// two models is compared.
struct Difference {
  struct Row {
    std::string what, first, second, change;
  };
  struct Section {
    std::string heading;
    std::vector<std::string> lines; // those that matter most first
  };
  std::string title;
  Row heading;
  std::vector<Row> rows; // begins with two spaces: a part of the row above
  std::vector<std::string> notes;
  std::vector<Section> sections;

  static Difference between(const DifferenceSide &first, const DifferenceSide &second);
  void print(llvm::raw_ostream &out) const;
  /// The same as an HTML page that loads nothing.
  void printPage(llvm::raw_ostream &out) const;
};

} // namespace divisi::compiler
