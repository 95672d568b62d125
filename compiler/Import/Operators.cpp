#include "compiler/Import/Operators.h"

#include <set>

using namespace divisi::compiler;

using Table = std::multimap<llvm::StringRef, const Operator *>;

static const Table &table() {
  static const Table rows = [] {
    Table result;
    for (auto family :
         {mathOperators(),        extremumOperators(),    activationOperators(),      logicOperators(),
          shapeOperators(),       rearrangeOperators(),   reductionOperators(),       contractionOperators(),
          convolutionOperators(), poolingOperators(),     normalizationOperators(),   indexingOperators(),
          lossOperators(),        sequenceOperators(),    resizeOperators(),          constantOperators(),
          attentionOperators(),   randomOperators(),      quantizationOperators(),    signalOperators(),
          samplingOperators(),    optimizerOperators(),   fusedOperators(),           fusedAttentionOperators(),
          recurrentOperators(),   controlFlowOperators(), linearAttentionOperators(), determinantOperators(),
          wordOperators()})
      for (const Operator &row : family)
        result.emplace(row.name, &row);
    return result;
  }();
  return rows;
}

const Operator *divisi::compiler::findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t opset) {
  std::string key = isMainDomain(domain) ? name.str() : (domain + "." + name).str();
  auto [first, last] = table().equal_range(key);
  for (auto it = first; it != last; ++it)
    if (it->second->since <= opset && opset <= it->second->until)
      return it->second;
  return nullptr;
}

std::vector<std::string> divisi::compiler::supportedOperators() {
  std::set<std::string> names;
  for (const auto &[name, row] : table())
    names.insert(name.str());
  return {names.begin(), names.end()};
}
