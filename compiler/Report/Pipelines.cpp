#include "compiler/RankPipelines.h"

using namespace divisi;
using namespace divisi::compiler;

llvm::json::Array compiler::describePipelines(const std::vector<PipelineCandidate> &candidates) {
  llvm::json::Array result;
  for (const PipelineCandidate &candidate : candidates) {
    llvm::json::Array links; // for a step
    const double steps = candidate.simulatedSteps();
    for (const auto &[pair, traffic] : candidate.run.links)
      links.push_back(llvm::json::Object{{"from", pair.first},
                                         {"to", pair.second},
                                         {"messages", (int64_t)(traffic.messages / steps)},
                                         {"bytes", traffic.bytes / steps}});
    result.push_back(llvm::json::Object{{"name", candidate.name()},
                                        {"step_ms", candidate.seconds * 1e3},
                                        {"devices", candidate.options.devices(candidate.plan.mesh)},
                                        {"fits", candidate.fits},
                                        {"memory_bytes", candidate.memory},
                                        {"bubble", candidate.run.bubble()},
                                        {"schedule", candidate.options.schedule},
                                        {"microbatches", candidate.options.microbatches},
                                        {"stages", candidate.options.stages},
                                        {"chunks", candidate.options.chunks},
                                        {"remat", candidate.options.remat > 0},
                                        {"stage_axes", candidate.options.axes.text()},
                                        {"stage_plan", candidate.plan.name},
                                        {"links", std::move(links)},
                                        {"cuts", llvm::json::Array(candidate.options.cuts)}});
  }
  return result;
}
