// LinearAttention, unrolled over the tokens: a state of [keys, values] for each head decays, is corrected, and is read by the queries.
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Attention.h"

#include <cmath>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// The most tokens that are unrolled.
static constexpr int64_t mostTokens = 4096;

static void expect(Value x, const char *what, ArrayRef<int64_t> shape) {
  if (shapeOf(x) != shape)
    fail("its ", what, " ", shapeText(shapeOf(x)), " should be ", shapeText(shape));
}

/// S = exp(decay) S + k (beta (v - exp(decay) S' k))', or without decay, or without the correction by beta; y = scale q' S.
static Results importLinearAttention(N &n) {
  std::string rule = n.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    fail("update_rule '", rule, "' is neither linear, gated, delta nor gated_delta");
  bool decays = llvm::StringRef(rule).contains("gated"), corrects = llvm::StringRef(rule).contains("delta");
  if (decays != n.has(4) || corrects != n.has(5))
    fail("update_rule '", rule, "' takes ", decays ? "a" : "no", " decay and ", corrects ? "a" : "no", " beta");
  int64_t heads = n.integer("kv_num_heads", 0), queryHeads = n.integer("q_num_heads", 0);
  if (heads < 1 || queryHeads < 1 || queryHeads % heads)
    fail(queryHeads, " query heads do not divide into ", heads, " groups");
  Type result = n.elementOf(n.in(0)), kept = n.has(3) ? n.elementOf(n.in(3)) : result;
  Type element = result.isF64() ? result : Type(n.f32());
  if (!n.isFloat(n.in(0)) || n.elementOf(n.in(1)) != result || n.elementOf(n.in(2)) != result)
    fail("queries, keys and values are not floats of one type");
  // [batch, heads, tokens, size]
  Value q = n.cast(splitHeads(n, n.in(0), queryHeads), element), k = n.cast(splitHeads(n, n.in(1), heads), element);
  Value v = n.cast(splitHeads(n, n.in(2), heads), element);
  int64_t batch = shapeOf(k)[0], tokens = shapeOf(k)[2], keys = shapeOf(k)[3], values = shapeOf(v)[3];
  expect(q, "queries", {batch, queryHeads, tokens, keys});
  expect(v, "values", {batch, heads, tokens, values});
  if (tokens < 1 || tokens > mostTokens)
    fail("it has ", tokens, " tokens; 1 to ", mostTokens, " can be unrolled");
  double scale = n.number("scale", 0);
  q = n.scale(q, scale == 0 ? 1 / std::sqrt((double)keys) : scale);
  Value state = n.splatOf({batch, heads, keys, values}, element, 0), factor, beta;
  if (n.has(3)) {
    expect(n.in(3), "past state", shapeOf(state));
    state = n.cast(n.in(3), element);
  }
  if (decays)
    factor = n.op<ExpOp>(n.cast(splitHeads(n, n.in(4), heads), element));
  if (corrects)
    beta = n.cast(splitHeads(n, n.in(5), n.rankOf(n.in(5)) == 3 && shapeOf(n.in(5))[2] == 1 ? 1 : heads), element);
  Location whole = n.getLoc();
  SmallVector<Value> outputs;
  for (int64_t t = 0; t < tokens; ++t) {
    n.setLoc(NameLoc::get(n.getBuilder().getStringAttr(textOf(n.name, "/step/", t))));
    auto at = [&](Value x) { return n.sliceDim(x, 2, t, 1); }; // [batch, heads, 1, size]
    Value key = n.transpose(at(k), {0, 1, 3, 2}), value = at(v);
    if (decays)
      state = n.binary<MulOp>(state, n.transpose(at(factor), {0, 1, 3, 2}));
    if (corrects) {
      Value error = n.sub(value, n.matmul(at(k), state));
      value = n.binary<MulOp>(at(beta), error);
    }
    state = n.add(state, n.matmul(key, value));
    Value query = n.reshape(at(q), {batch, heads, queryHeads / heads, keys});
    outputs.push_back(n.reshape(n.matmul(query, state), {batch, 1, queryHeads * values}));
  }
  n.setLoc(whole);
  return {n.cast(n.concat(outputs, 1), result), n.cast(state, kept)};
}

llvm::ArrayRef<Operator> divisi::compiler::linearAttentionOperators() {
  static constexpr Operator rows[] = {{"LinearAttention", 27, newest, importLinearAttention}};
  return rows;
}
