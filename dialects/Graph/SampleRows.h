#pragma once
#include "dialects/Graph/GraphBuilder.h"

namespace divisi::graph {

/// The sum of `each` over the rows of the samples that are not padding, divided by the number of these rows times `inner`. The last
/// batch of an evaluation is padded: `samples`, a run-time scalar, is the number of valid ones of `batch`. A sample has one or several
/// consecutive rows; if the rows are not those of samples, their number being no multiple of `batch` (or that 0), all count.
mlir::Value meanOfSampleRows(GraphBuilder &b, mlir::Value each, mlir::Value samples, int64_t batch, double inner);

/// The elements of a row.
double elementsOfRow(mlir::Value each);

} // namespace divisi::graph
