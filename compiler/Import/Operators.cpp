#include "compiler/Import/Operators.h"

#include <set>

using namespace divisi::compiler;

using Table = std::multimap<llvm::StringRef, const Operator *>;

static const Table &table() {
  static const Table rows = [] {
    Table result;
    for (auto family : {mathOperators(), activationOperators(), logicOperators(), shapeOperators(),
                        rearrangeOperators(), reductionOperators(), contractionOperators(), convolutionOperators(),
                        poolingOperators(), normalizationOperators(), indexingOperators(), lossOperators(),
                        sequenceOperators(), resizeOperators(), constantOperators(), attentionOperators()})
      for (const Operator &row : family)
        result.emplace(row.name, &row);
    return result;
  }();
  return rows;
}

const Operator *divisi::compiler::findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t opset) {
  if (!isMainDomain(domain))
    return nullptr;
  auto [first, last] = table().equal_range(name);
  for (auto it = first; it != last; ++it)
    if (it->second->since <= opset && opset <= it->second->until)
      return it->second;
  return nullptr;
}

std::vector<std::string> divisi::compiler::supportedOperators() {
  std::set<std::string> names{"If"};
  for (const auto &[name, row] : table())
    names.insert(name.str());
  return {names.begin(), names.end()};
}
