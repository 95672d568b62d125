#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

/// Whether a value has the elements of a weight or a constant, which do not depend on the batch.
bool isTable(NodeImporter &n, mlir::Value x);

/// x gathered along an axis by indices that count through all of x, through consecutive elements, or through rows of
/// their own: a reshape, a slice, or a gather in each row, which a split of the batch follows. Null for other indices.
mlir::Value gatherCounted(NodeImporter &n, mlir::Value x, mlir::Value indices, int64_t axis);

/// The slices x[a.., v_0, v_1, ..] of index vectors v some of whose components count along a dimension of the vectors,
/// as in x[arange(batch), index]: vectors without these components, in a gather that a split of the batch follows.
/// `batch` is the number of dimensions a. Null if no component counts.
mlir::Value gatherAtCounters(NodeImporter &n, mlir::Value x, mlir::Value vectors, int64_t batch);

/// Index vectors without their first components, as long as these count along the first dimensions of the vectors and
/// of x; `batch` counts them. The other components are in range and not negative. Null if the first does not count.
mlir::Value withoutCounters(NodeImporter &n, mlir::Value x, mlir::Value vectors, int64_t &batch);

} // namespace divisi::compiler
