#include "compiler/CheckProgram.h"

#include "codegen/Emit/CheckPlaces.h"
#include "codegen/Emit/Services.h"
#include "codegen/Kernels/BatchKernels.h"
#include "codegen/Kernels/CheckTasks.h"

using namespace mlir;
using namespace divisi;

LogicalResult compiler::checkProgram(ModuleOp module) {
  return success(succeeded(codegen::checkTasks(module)) && succeeded(codegen::checkPlaces(module)) &&
                 succeeded(codegen::checkBatches(module)) && succeeded(codegen::checkServices(module)));
}
