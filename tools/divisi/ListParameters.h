#pragma once
#include "divisi/ModelFlags.h"

namespace divisi::tools {

/// Prints what trains in an ONNX file and why: a line for each tensor with its name, type, role and the reason, parted
/// by tabs, or a JSON array. Returns the exit code.
int listParameters(const ModelFlags &flags, bool json);

} // namespace divisi::tools
