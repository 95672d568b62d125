// The text of a sharding rule, which ShardingRule.h describes.
#include "dialects/Dist/ShardingRule.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace divisi::dist;

namespace {
using Factor = ShardingRule::Factor;

/// Names by enum value.
constexpr StringLiteral reductions[] = {"sum", "max", "min"};
constexpr StringLiteral linearities[] = {"no", "all", "each", "movement"};
constexpr StringLiteral scalar = "()";

std::string textOf(ArrayRef<ShardingRule::Dims> tensors, ArrayRef<Factor> factors) {
  auto dim = [&](ArrayRef<int> list) {
    auto names = llvm::map_range(list, [&](int factor) { return factors[factor].name; });
    return list.empty() ? "." : llvm::join(names, "*");
  };
  auto tensor = [&](const ShardingRule::Dims &dims) {
    return dims.empty() ? scalar.str() : llvm::join(llvm::map_range(dims, dim), " ");
  };
  return llvm::join(llvm::map_range(tensors, tensor), ", ");
}

/// " | KEYWORD NAME.." with the factors for which `holds` is true; "" if there are none.
template <typename Holds> std::string clause(StringRef keyword, ArrayRef<Factor> factors, Holds holds) {
  std::string text;
  for (const Factor &factor : factors)
    if (holds(factor))
      text += " " + factor.name;
  return text.empty() ? text : " | " + keyword.str() + text;
}

int64_t numberIn(StringRef text) {
  int64_t number = 0;
  if (text.getAsInteger(10, number))
    llvm::report_fatal_error("a sharding rule's text has no number in '" + text + "'");
  return number;
}

/// Reads a clause from its words; the first one names the clause.
void readClause(ShardingRule &rule, ArrayRef<StringRef> words) {
  auto factor = [&](StringRef name) -> Factor & { return rule.factors[rule.find(name)]; };
  StringRef keyword = words[0];
  if (keyword.contains('=')) {
    for (auto [name, size] : llvm::map_range(words, [](StringRef word) { return word.split('='); }))
      factor(name).size = numberIn(size);
    return;
  }
  if (keyword == "linear") {
    rule.linear = (Linear)(llvm::find(linearities, words[1]) - linearities);
    return;
  }
  if (keyword == "zero") {
    rule.zero = true;
    return;
  }
  if (keyword == "accumulates") {
    rule.accumulator = numberIn(words[1].drop_front());
    return;
  }
  const auto *reduction = llvm::find(reductions, keyword);
  for (StringRef word : words.drop_front()) {
    if (reduction != std::end(reductions))
      factor(word).reduction = (Reduction)(reduction - reductions);
    else if (keyword == "whole")
      factor(word).whole = true;
    else if (keyword == "indexed")
      factor(word).indexed = true;
    else if (keyword == "windowed")
      factor(word).windowed = true;
    else if (keyword == "skewed")
      factor(word).skewed = true;
    else if (keyword == "least")
      factor(word.split('=').first).least = numberIn(word.split('=').second);
    else
      llvm::report_fatal_error("a sharding rule's text has the unknown word '" + keyword + "'");
  }
}
} // namespace

std::string ShardingRule::str() const {
  std::string text = textOf(operands, factors) + (operands.empty() ? "-> " : " -> ") + textOf(results, factors);
  for (auto [i, factor] : llvm::enumerate(factors))
    text += (i ? " " : " | ") + factor.name + "=" + std::to_string(factor.size);
  for (auto [i, keyword] : llvm::enumerate(reductions))
    text += clause(keyword, factors, [&](const Factor &f) { return f.reduction == (Reduction)i; });
  text += clause("whole", factors, [](const Factor &f) { return f.whole; });
  text += clause("indexed", factors, [](const Factor &f) { return f.indexed; });
  text += clause("windowed", factors, [](const Factor &f) { return f.windowed; });
  text += clause("skewed", factors, [](const Factor &f) { return f.skewed; });
  for (const Factor &factor : factors)
    if (factor.least > 1)
      text += " | least " + factor.name + "=" + std::to_string(factor.least);
  if (linear != Linear::no)
    text += (" | linear " + linearities[(int)linear]).str();
  if (accumulator >= 0)
    text += " | accumulates #" + std::to_string(accumulator);
  return zero ? text + " | zero" : text;
}

ShardingRule::ShardingRule(StringRef text, Operation *op) {
  SmallVector<StringRef> clauses, tensors, names, words;
  text.split(clauses, '|');
  auto readClauses = [&](bool sizes) {
    for (StringRef rest : ArrayRef(clauses).drop_front()) {
      words.clear();
      rest.split(words, ' ', -1, /*KeepEmpty=*/false);
      if (words[0].contains('=') == sizes)
        readClause(*this, words);
    }
  };
  readClauses(/*sizes=*/true); // the order of the sizes is that of the factors
  bool sized = !factors.empty();
  auto readTensor = [&](StringRef tensor, ArrayRef<int64_t> shape, Dims &dims) {
    names.clear();
    tensor.split(names, ' ', -1, /*KeepEmpty=*/false);
    if (names.size() == 1 && names[0] == "*")
      return;
    for (auto [d, name] : llvm::enumerate(names)) {
      if (name == "." || d >= dims.size())
        continue;
      words.clear();
      name.split(words, '*');
      for (StringRef part : words)
        dims[d].push_back(find(part));
      if (!sized)
        factors[dims[d][0]].size = shape[d];
    }
  };
  auto readSide = [&](StringRef side, ValueRange values, SmallVector<Dims> &list) {
    tensors.clear();
    if (!values.empty())
      side.split(tensors, ',');
    for (auto [tensor, value] : llvm::zip(tensors, values)) {
      ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
      readTensor(tensor, shape, list.emplace_back(shape.size()));
    }
  };
  auto [ins, outs] = clauses[0].split("->");
  readSide(ins, op->getOperands(), operands);
  readSide(outs, op->getResults(), results);
  readClauses(/*sizes=*/false);
}
