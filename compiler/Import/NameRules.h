#pragma once
#include "compiler/Import/Tensors.h"

namespace divisi::compiler {

/// What the name or the numbers of a tensor say about it, for files that do not describe their tensors. The names are
/// those of PyTorch's modules and of models that use it; the last component of a name counts ("layers.0.attn.pe").
enum class NameRule {
  parameter, // a name that modules give to parameters
  buffer,    // a usual name of tables and schedules
  madeUp,    // an exporter's name for a computed tensor
  unknown,
};
NameRule ruleOfName(llvm::StringRef name);

/// Whether the name is that of a PyTorch operator that only rearranges elements, perhaps numbered ("permute_1").
bool isRearrangement(llvm::StringRef name);

/// The values of a mask as a text: "only 0 and 1", "only 0 and -inf"; "" if the tensor is no mask.
std::string maskContent(const TensorData &data);
/// Whether the tensor is a table of positions: along the last dimension, or along the second, pairs of a sine and a cosine.
bool isSinusoid(const TensorData &data);
/// Whether the tensor holds one filter several times: its slices along the first dimension are equal, but not their elements.
bool isRepeatedFilter(const TensorData &data);
/// Whether all elements are equal.
bool isSplat(const TensorData &data);
/// Whether one matrix is the transpose of the other, bit by bit.
bool isTransposeOf(const TensorData &matrix, const TensorData &other);

} // namespace divisi::compiler
