#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

template <Predicate predicate> static Results comparison(N &n) {
  Value a = n.in(0), b = n.in(1);
  if (n.elementOf(a) != n.elementOf(b))
    fail("element types differ: ", n.elementOf(a), " and ", n.elementOf(b));
  auto both = n.broadcastTogether({a, b});
  return {n.compare(predicate, both[0], both[1])};
}

static Results importNot(N &n) { return {n.op<NotOp>(n.in(0))}; }

static Results importWhere(N &n) {
  auto all = n.broadcastTogether({n.in(0), n.in(1), n.in(2)});
  return {n.op<SelectOp>(all[1].getType(), all[0], all[1], all[2])};
}

llvm::ArrayRef<Operator> divisi::compiler::logicOperators() {
  static constexpr Operator rows[] = {
      {"And", 7, newest, binary<AndOp>},
      {"Equal", 7, newest, comparison<Predicate::eq>},
      {"Greater", 7, newest, comparison<Predicate::gt>},
      {"GreaterOrEqual", 12, newest, comparison<Predicate::ge>},
      {"Less", 7, newest, comparison<Predicate::lt>},
      {"LessOrEqual", 12, newest, comparison<Predicate::le>},
      {"Not", 1, newest, importNot},
      {"Or", 7, newest, binary<OrOp>},
      {"Where", 9, newest, importWhere},
      {"Xor", 7, newest, binary<XorOp>},
  };
  return rows;
}
