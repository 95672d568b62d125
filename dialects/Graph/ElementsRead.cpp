#include "dialects/Graph/ElementsRead.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace divisi;

llvm::DenseMap<int, double> graph::elementsRead(llvm::ArrayRef<Reader> ops, llvm::ArrayRef<std::pair<int, double>> stored) {
  llvm::DenseMap<int, double> needed(stored.begin(), stored.end());
  for (const Reader &op : llvm::reverse(ops)) {
    double wanted = 0;
    for (int result : op.results)
      wanted = std::max(wanted, needed.lookup(result));
    const bool byElement = op.form == Form::elementwise || op.form == Form::view;
    for (auto [i, operand] : llvm::enumerate(op.operands)) {
      auto [value, elements] = operand;
      auto isThis = [value = value](const auto &other) { return other.first == value; };
      if (llvm::any_of(llvm::ArrayRef(op.operands).take_front(i), isThis))
        continue; // at the same indices
      const bool alike = byElement && (elements == op.elements || (op.readsPart && i == 0));
      double &sum = needed[value];
      sum = std::min(elements, sum + (alike ? wanted : elements));
    }
  }
  return needed;
}
