#include "dialects/Exec/Exec.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace divisi::exec;

#include "dialects/Exec/ExecDialect.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/ExecOps.cpp.inc"
      >();
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("expected block arguments of the inputs' types");
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("expected exec.yield of the outputs' types");
  for (Value value : yield.getValues())
    if (!value.getDefiningOp() || !value.getDefiningOp()->hasAttr(names::stage))
      return emitOpError("expected exec.yield of values of operations with 'exec.stage': others are not stored");
  if (getRows() == 0)
    return emitOpError("expected at least one row");
  return success();
}
