#pragma once
#include "compiler/Import/Tensors.h"

namespace divisi::compiler {

/// What a tensor is by its name or its numbers, for files that do not say it. The names are those that PyTorch's
/// modules and the models written with it use; a name's last component counts ("layers.0.attn.pe").
enum class NameRule {
  parameter, // a name that modules give to parameters
  buffer,    // a name that is used for tables and schedules
  madeUp,    // an exporter's name for what it has computed
  unknown,
};
NameRule ruleOfName(llvm::StringRef name);

/// Names of PyTorch's operators that only rearrange elements, also numbered ("permute_1").
bool isRearrangement(llvm::StringRef name);

/// What a tensor's numbers say: "only 0 and 1", "only 0 and -inf"; "" if they say nothing.
std::string maskContent(const TensorData &data);
/// Whether all elements are equal.
bool isSplat(const TensorData &data);
/// Whether one matrix is the other's transpose, bit by bit.
bool isTransposeOf(const TensorData &matrix, const TensorData &other);

} // namespace divisi::compiler
