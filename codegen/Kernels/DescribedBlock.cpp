#include "codegen/Kernels/DescribedBlock.h"

#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Dist/Dist.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

DescribedBlock::DescribedBlock(mlir::Block &source) {
  auto add = [&](Value value) {
    auto type = cast<ShapedType>(value.getType());
    return numbers[value] = block.addValue(type.getNumElements(), graph::bytesOf(type));
  };
  for (BlockArgument argument : source.getArguments())
    add(argument);
  for (Operation &op : source.without_terminator()) {
    step::Block::Op entry;
    auto cost = dyn_cast<graph::CostInterface>(op);
    entry.form = cost ? cost.getForm() : graph::Form::call; // (collectives and messages)
    for (Value operand : op.getOperands())
      entry.operands.push_back(numbers.lookup(operand));
    for (Value result : op.getResults())
      entry.results.push_back(add(result));
    if (auto loop = dyn_cast<LoopInterface>(op)) {
      LoopDomain domain = loop.getLoopDomain();
      entry.extents.assign(domain.extents.begin(), domain.extents.end());
      entry.reduced.assign(domain.reduced.begin(), domain.reduced.end());
    }
    if (isa<LoopInterface, SerialInterface>(op))
      for (unsigned i = 0; i < op.getNumOperands(); ++i)
        entry.rows.push_back(rowsThrough(&op, i));
    if (cost && op.getNumOperands())
      entry.flops = cost.getFlopsPerPoint();
    entry.always = isa<dist::ReceiveOp>(op); // the sender does not know its uses
    block.addOp(std::move(entry));
    operations.push_back(&op);
  }
}
