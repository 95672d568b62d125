#pragma once
#include "compiler/Import/Tensors.h"

namespace divisi::compiler {

/// Changes a model's values of float16 and bfloat16 to float32, in which they are trained: small updates would be lost in 16 bits.
/// Returns a note that says so; empty if there are none.
std::string widenHalves(onnx::ModelProto &model, TensorReader &reader);

} // namespace divisi::compiler
