#pragma once
#include "divisi/ModelFlags.h"

namespace divisi::tools {

/// Prints the role of every tensor of an ONNX file: one line for each with its name, type, role and the reason,
/// separated by tabs, or a JSON array. Returns the exit code.
int listParameters(const ModelFlags &flags, bool json);

} // namespace divisi::tools
