#pragma once
#include "compiler/RankPipelines.h"

namespace divisi::compiler {

/// The number of microbatches whose best pipeline has the fastest step, for a module at the level graph whose training step
/// depends on it, as batch norm's statistics of each microbatch do. 0 if no number has a pipeline.
int64_t searchMicrobatches(mlir::ModuleOp module, const TrainOptions &train, const planning::Cluster &cluster,
                           const PipelineRequest &request);

} // namespace divisi::compiler
