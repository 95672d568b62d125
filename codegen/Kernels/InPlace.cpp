#include "codegen/Kernels/InPlace.h"

#include "codegen/Kernels/DescribedBlock.h"
#include "step/InPlace.h"

using namespace mlir;
using namespace divisi;

bool codegen::writesOnlyWhereItReads(exec::KernelOp kernel, unsigned result, unsigned input) {
  Block &body = kernel.getBody().front();
  if (graph::tensorType(kernel.getOutputs()[result]).getElementType() !=
      graph::tensorType(kernel.getInputs()[input]).getElementType())
    return false;
  DescribedBlock described(body);
  auto isStage = [&](int op) { return described.operations[op]->hasAttr(exec::names::stage); };
  step::InPlace inPlace(described.block, llvm::to_vector(llvm::seq(0, described.block.size())), isStage, kernel.getRows());
  return inPlace.mayOverwrite(described.numbers.lookup(body.getTerminator()->getOperand(result)),
                              described.numbers.lookup(body.getArgument(input)));
}
