#include "dialects/Graph/WhenNeeded.h"

#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"

using namespace mlir;
using namespace divisi;

int64_t graph::whenNeeded(func::FuncOp function, unsigned result) {
  auto report = function.getResultAttrOfType<DictionaryAttr>(result, names::result);
  auto bits =
      report ? report.getAs<IntegerAttr>("when") : function.getResultAttrOfType<IntegerAttr>(result, dist::names::when);
  return bits ? bits.getInt() : 0;
}

std::optional<unsigned> graph::findReport(func::FuncOp function, StringRef kind) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto report = function.getResultAttrOfType<DictionaryAttr>(i, names::result))
      if (report.getAs<StringAttr>("kind").getValue() == kind)
        return i;
  return std::nullopt;
}

llvm::DenseMap<Operation *, int64_t> graph::whenNeeded(func::FuncOp function) {
  llvm::DenseMap<Operation *, int64_t> when;
  llvm::DenseSet<Operation *> always;
  auto need = [&](Value value, int64_t bits) {
    if (Operation *op = value.getDefiningOp()) {
      if (bits)
        when[op] |= bits;
      else
        always.insert(op);
    }
  };
  Block &block = function.getBody().front();
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
    need(value, whenNeeded(function, i));
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    // the sender does not know which operations read a message
    if (always.contains(&op) || isa<dist::ReceiveOp>(op))
      when.erase(&op);
    for (Value operand : op.getOperands())
      need(operand, when.lookup(&op));
  }
  return when;
}
