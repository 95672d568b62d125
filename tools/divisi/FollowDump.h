#pragma once
#include "divisi/DeviceFlags.h"
#include "divisi/ModelFlags.h"

#include "llvm/Support/LogicalResult.h"

namespace divisi::tools {

/// If the model is a dump of level graph or train: takes from it how its replicas are kept in step. Errors are printed to stderr.
llvm::LogicalResult followDump(const ModelFlags &model, DeviceFlags &devices);

} // namespace divisi::tools
