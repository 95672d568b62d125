// nn.EmbeddingBag: PyTorch's exporters write a Loop over the bags, each of which is a slice of the indices or of the rows, with
// bounds that come from the offsets. All bags are reduced at once here: they need not be known when compiling.
#include "compiler/Import/Ops/Bags.h"
#include "compiler/Import/ExportNotes.h"

#include <limits>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using llvm::StringRef;
using N = NodeImporter;
using Node = onnx::NodeProto;
using Shape = CheckedBuilder::Shape;

namespace {
enum class Mode { sum, mean, max };

/// Bag b has the rows begin[b] to end[b] - 1; all from outside of the loop.
struct Bags {
  Value rows, begin, end;
  Mode mode;
  bool isSecond = false; // whether the loop's second result has them
};

/// The nodes of a loop's body by their results.
class Body {
public:
  Body(N &n, const onnx::GraphProto &graph) : n(n), graph(graph) {
    for (const Node &node : graph.node())
      for (const std::string &output : node.output())
        makers[output] = &node;
  }

  /// The node that computes a value; null if it is of another type.
  const Node *maker(StringRef value, StringRef type) const {
    auto it = makers.find(value);
    return it != makers.end() && it->second->op_type() == type ? it->second : nullptr;
  }
  const Node *makerOf(const Node *node, int input, StringRef type) const {
    return node && input < node->input_size() ? maker(node->input(input), type) : nullptr;
  }
  /// A tensor from outside of the body; null for other values.
  Value outer(StringRef name) const {
    const Item *item = makers.contains(name) ? nullptr : n.named(name);
    return item ? item->tensor : Value();
  }
  Value outer(const Node *node, int input) const {
    return node && input < node->input_size() ? outer(node->input(input)) : Value();
  }
  /// Whether an input of a node is a constant with one element of this value, or is absent and `orAbsent` holds.
  bool is(const Node *node, int input, int64_t value, bool orAbsent = false) const {
    if (!node || input >= node->input_size() || node->input(input).empty())
      return orAbsent;
    auto number = numberOf(node->input(input));
    return number && *number == value;
  }
  /// The value of a constant with one element, inside or outside of the body.
  std::optional<int64_t> numberOf(StringRef name) const {
    std::optional<DenseElementsAttr> known;
    if (const Node *constant = maker(name, "Constant")) {
      if (constant->attribute_size() == 1 && constant->attribute(0).has_t())
        known = n.model.reader.attribute(constant->attribute(0).t());
    } else if (Value from = outer(name)) {
      known = n.known(from);
    }
    return known && known->getNumElements() == 1 ? std::optional(integersOf(*known)[0]) : std::nullopt;
  }

  /// Whether all iterations run: the loop's condition is absent or true, and the body's is true, or the one that it was given.
  bool goesOn() const {
    if (n.has(1) && !numberOf(n.node.input(1)).value_or(0))
      return false;
    std::string name = graph.output(0).name();
    auto copied = [&] { return maker(name, "Identity") ? maker(name, "Identity") : maker(name, "Cast"); };
    for (size_t i = 0; i < makers.size() && copied(); ++i)
      name = copied()->input_size() ? copied()->input(0) : "";
    return name == graph.input(1).name() || numberOf(name).value_or(0);
  }

  N &n;
  const onnx::GraphProto &graph;

private:
  llvm::StringMap<const Node *> makers;
};
} // namespace

static int64_t integerOf(const Node &node, StringRef attribute, int64_t missing) {
  for (const auto &a : node.attribute())
    if (a.name() == attribute)
      return a.i();
  return missing;
}

//===- TorchScript --------------------------------------------------------===//

/// The vector whose element of this iteration is a bound of a slice: Unsqueeze(Gather(vector, i)).
static Value boundsOf(const Body &body, const std::string &bound) {
  const Node *gather = body.makerOf(body.maker(bound, "Unsqueeze"), 0, "Gather");
  bool byIteration = gather && gather->input_size() == 2 && gather->input(1) == body.graph.input(0).name();
  Value vector = byIteration ? body.outer(gather, 0) : Value();
  return vector && body.n.rankOf(vector) == 1 ? vector : Value();
}

/// The tensor whose rows [first, last) are sliced, along the first dimension.
static Value slicedBy(const Body &body, const Node *slice, const std::string &first, const std::string &last) {
  bool fits = slice && slice->input_size() >= 4 && slice->input(1) == first && slice->input(2) == last &&
              body.is(slice, 3, 0) && body.is(slice, 4, 1, /*orAbsent=*/true);
  return fits ? body.outer(slice, 0) : Value();
}

/// Reduce(Gather(table, Slice(indices)) [* Unsqueeze(Slice(weights))]) of each iteration, stacked.
static std::optional<Bags> matchTorchScript(N &n, const Body &body) {
  if (n.numInputs() != 2 || !n.has(0) || body.graph.input_size() != 2 || body.graph.output_size() != 2 ||
      !body.goesOn())
    return std::nullopt;
  const std::string &result = body.graph.output(1).name();
  const Node *reduce = nullptr;
  Mode mode = Mode::sum;
  static const std::pair<const char *, Mode> reductions[] = {
      {"ReduceSum", Mode::sum}, {"ReduceMean", Mode::mean}, {"ReduceMax", Mode::max}};
  for (auto [type, itsMode] : reductions)
    if (const Node *found = body.maker(result, type))
      reduce = found, mode = itsMode;
  if (!reduce || integerOf(*reduce, "keepdims", 1) || !body.is(reduce, 1, 0))
    return std::nullopt;
  const Node *product = body.makerOf(reduce, 0, "Mul");
  const Node *gather = body.makerOf(product ? product : reduce, 0, "Gather");
  const Node *indices = body.makerOf(gather, 1, "Slice");
  Value table = body.outer(gather, 0);
  if (!indices || indices->input_size() < 4 || !table || integerOf(*gather, "axis", 0) || n.rankOf(table) != 2)
    return std::nullopt;
  const std::string &first = indices->input(1), &last = indices->input(2);
  Value all = slicedBy(body, indices, first, last), begin = boundsOf(body, first), end = boundsOf(body, last);
  auto trips = n.known(n.in(0));
  if (!all || n.rankOf(all) != 1 || !begin || !end || !trips || trips->getNumElements() != 1 || shapeOf(end)[0] != integersOf(*trips)[0] ||
      shapeOf(begin)[0] < shapeOf(end)[0])
    return std::nullopt;
  Value weights;
  if (product) {
    const Node *column = body.makerOf(product, 1, "Unsqueeze");
    weights = slicedBy(body, body.makerOf(column, 0, "Slice"), first, last);
    if (!weights || !body.is(column, 1, 1) || shapeOf(weights) != shapeOf(all))
      return std::nullopt;
  }
  Value rows = n.gather(table, n.index(all, shapeOf(table)[0]), 0);
  if (weights)
    rows = n.mul(rows, n.along(weights, shapeOf(rows), 0));
  return Bags{rows, n.sliceDim(begin, 0, 0, shapeOf(end)[0]), end, mode};
}

//===- torch.export -------------------------------------------------------===//

/// Visits the nodes of a graph and of the graphs inside of it.
static void forEachNode(const onnx::GraphProto &graph, llvm::function_ref<void(const Node &)> visit) {
  for (const Node &node : graph.node()) {
    visit(node);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        forEachNode(attribute.g(), visit);
  }
}

/// The loop carries the number of the bag and, before or behind it, a sequence into which it inserts a row that an If computes from a
/// slice of the rows, by the mode. Bounds are neighbours in one vector: Equal(Slice(offsets, i, i + 1), Slice(offsets, i + 1, i + 2))
/// says whether the bag is empty.
static std::optional<Bags> matchTorchExport(N &n, const Body &body) {
  if (!StringRef(CallNotes(n.node).target).contains("embedding_bag") || n.numInputs() != 4 ||
      body.graph.output_size() != 3 || body.graph.input_size() != 4)
    return std::nullopt;
  const Node *insert = body.maker(body.graph.output(1).name(), "SequenceInsert");
  bool isSecond = !insert;
  if (isSecond)
    insert = body.maker(body.graph.output(2).name(), "SequenceInsert");
  const Node *branch = body.makerOf(insert, 1, "If"), *isEmpty = body.makerOf(branch, 0, "Equal");
  const Node *first = body.makerOf(isEmpty, 0, "Slice"), *last = body.makerOf(isEmpty, 1, "Slice");
  Value offsets = body.outer(first, 0);
  if (!last || !offsets || body.outer(last, 0) != offsets || n.rankOf(offsets) != 1 || shapeOf(offsets)[0] < 1)
    return std::nullopt;
  std::optional<int64_t> mode;
  std::set<std::string> reductions;
  Value rows;
  bool same = true; // whether all slices are of the same rows
  forEachNode(body.graph, [&](const Node &node) {
    if (node.op_type() == "Constant" && !mode && node.attribute_size() && node.attribute(0).name() == "value_int")
      mode = node.attribute(0).i();
    if (StringRef(node.op_type()).starts_with("Reduce"))
      reductions.insert(node.op_type());
    if (node.op_type() != "Slice" || node.input_size() < 2 || node.input(1) != first->output(0))
      return;
    Value sliced = body.outer(node.input(0));
    same &= sliced && (!rows || sliced == rows);
    rows = sliced;
  });
  if (reductions.size() < 3) // the exporter's optimizer has removed the branches of other modes; the mean's has a sum
    mode = reductions.count("ReduceMax") ? 2 : reductions.count("ReduceMean") ? 1 : 0;
  if (!same || !rows || n.rankOf(rows) != 2 || reductions.empty() || !mode || *mode < 0 || *mode > 2)
    return std::nullopt;
  int64_t count = shapeOf(offsets)[0] - 1;
  return Bags{rows, n.sliceDim(offsets, 0, 0, count), n.sliceDim(offsets, 0, 1, count), Mode(*mode), isSecond};
}

//===- The reduction ------------------------------------------------------===//

/// The size of all bags if they are known, of one size, and fill the rows in their order.
static std::optional<int64_t> sizeOfAll(N &n, const Bags &bags) {
  auto begin = n.known(bags.begin), end = n.known(bags.end);
  int64_t count = shapeOf(bags.begin)[0], rows = shapeOf(bags.rows)[0];
  if (!begin || !end || count == 0 || rows % count || rows == 0)
    return std::nullopt;
  int64_t size = rows / count;
  Shape first = integersOf(*begin), last = integersOf(*end);
  for (int64_t b = 0; b < count; ++b)
    if (first[b] != b * size || last[b] != first[b] + size)
      return std::nullopt;
  return size;
}

/// [bags, width]; a bag without rows is zero, as in PyTorch.
static Value reduced(N &n, const Bags &bags) {
  int64_t count = shapeOf(bags.begin)[0], rows = shapeOf(bags.rows)[0], width = shapeOf(bags.rows)[1];
  if (auto size = sizeOfAll(n, bags)) {
    Value x = n.reshape(bags.rows, {count, *size, width});
    return bags.mode == Mode::sum ? n.reduceSum(x, {1}) : bags.mode == Mode::mean ? n.reduceMean(x, {1}) : n.reduceMax(x, {1});
  }
  n.limit(bags.begin, 0, rows + 1);
  n.limit(bags.end, 0, rows + 1);
  if (count > 1) { // bags in their order do not overlap
    Value ends = n.sliceDim(bags.end, 0, 0, count - 1);
    n.limit(n.sub(n.sliceDim(bags.begin, 0, 1, count - 1), ends), 0, rows + 1);
  }
  Value begin = n.cast(bags.begin, n.i64()), end = n.cast(bags.end, n.i64());
  Shape table{count, rows}, result{count, width};
  Value position = n.iota(table, 1);
  Value isBefore = n.compare(Predicate::lt, position, n.broadcast(end, table, {0}));
  Value inside = n.both(n.compare(Predicate::ge, position, n.broadcast(begin, table, {0})), isBefore);
  if (bags.mode == Mode::max) {
    Shape all{count, rows, width};
    Value least = n.splatOf(all, n.elementOf(bags.rows), minusInfinity);
    Value rows = n.broadcast(bags.rows, all, {1, 2});
    Value x = n.select(n.broadcast(inside, all, {0, 1}), rows, least);
    Value most = n.reduceMax(x, {1});
    return n.keepWhere(n.broadcast(n.compare(Predicate::lt, begin, end), result, {0}), most);
  }
  // The bag of each row; rows outside of all bags are added to one more, which is left out.
  Value bag = n.reduceSum(n.keepWhere(inside, n.addConst(n.iota(table, 0), -(double)count)), {0});
  Value zeros = n.splatOf({count + 1, width}, n.elementOf(bags.rows), 0);
  Value sums = n.op<ScatterAddOp>(zeros.getType(), zeros, n.addConst(bag, (double)count), bags.rows, 0);
  sums = n.sliceDim(sums, 0, 0, count);
  if (bags.mode == Mode::sum)
    return sums;
  Value one = n.splatLike(begin, 1);
  Value size = n.op<MaxOp>(n.sub(end, begin), one);
  return n.div(sums, n.broadcast(n.cast(size, n.elementOf(sums)), result, {0}));
}

std::optional<Results> divisi::compiler::importBags(NodeImporter &n) {
  Body body(n, n.graph("body"));
  if (auto bags = matchTorchScript(n, body))
    return Results{reduced(n, *bags)};
  if (auto bags = matchTorchExport(n, body)) {
    // The loop leaves a sequence of rows, whose only use concatenates them: one tensor of all rows does as well.
    Value count = n.integerTensor(shapeOf(bags->begin)[0], {});
    Results results{Item::ofSequence({reduced(n, *bags)}), count};
    if (bags->isSecond)
      std::swap(results[0], results[1]);
    return results;
  }
  return std::nullopt;
}
