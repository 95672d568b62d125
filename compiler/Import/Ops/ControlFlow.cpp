// If, Loop, Scan and SequenceMap: the chosen branch takes the node's place, and the body of a loop that of its iterations,
// one after the other.
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Bags.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// The most operations that the nodes in iterations of all loops of a model may become.
static constexpr int64_t mostOperations = 1 << 20;
/// The largest carried value that is folded in each iteration, if it is known.
static constexpr int64_t mostFolded = 64;

/// A boolean that must be known during import; `what`: its name in the error.
static bool isTrue(N &n, const Item &item, const char *what, const char *remedy) {
  auto value = item.tensor ? n.known(item.tensor) : std::nullopt;
  if (!value)
    fail("its ", what, " is computed from the inputs or parameters of the model: ", remedy);
  if (value->getNumElements() != 1)
    fail("its ", what, " is not a scalar");
  return integersOf(*value)[0] != 0;
}

static Results importIf(N &n) {
  bool chosen = isTrue(n, n.item(0), "condition", "only branches that are chosen when compiling are supported");
  return n.subgraph(chosen ? "then_branch" : "else_branch", {});
}

//===- Iterations ---------------------------------------------------------===//

/// The results of one iteration of a node's body.
static Results iterate(N &n, int64_t step, ArrayRef<Item> inputs) {
  int64_t nodes = std::max(1, n.graph("body").node_size());
  if ((n.model.unrolled += nodes) > ModelImporter::mostUnrolled)
    fail("its iteration ", step, " of ", nodes, " nodes goes beyond the ", ModelImporter::mostUnrolled,
         " nodes that loops may have when their iterations are written one after the other");
  Block *block = n.getBuilder().getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  Results results = n.subgraph("body", inputs, textOf(n.name, "/step/", step, "/"));
  for (Operation *op = last ? last->getNextNode() : block->empty() ? nullptr : &block->front(); op; op = op->getNextNode())
    if (++n.model.unrolledOperations > mostOperations)
      fail("its iteration ", step, " goes beyond the ", mostOperations, " operations that loops may have when their iterations are written "
           "one after the other");
  return results;
}

/// A small carried value as a constant if it is known, so that the next iteration does not compute it from the first one.
static Item folded(N &n, const Item &item) {
  if (!item.tensor || item.tensor.getDefiningOp<ConstantOp>() || tensorType(item.tensor).getNumElements() > mostFolded)
    return item;
  auto value = n.model.evaluate(item.tensor);
  return value ? Item(n.constant(*value)) : item;
}

/// The values of all iterations in one tensor, with a new dimension for the iterations.
static Value stack(N &n, ArrayRef<Item> items, int64_t axis) {
  SmallVector<Value> values;
  for (const Item &item : items) {
    if (!item.tensor)
      fail("an output that it collects is not a tensor");
    if (values.empty())
      axis = n.axis(axis, n.rankOf(item.tensor) + 1);
    if (axis > n.rankOf(item.tensor))
      fail("an output that it collects differs in rank between iterations");
    values.push_back(item.tensor);
  }
  if (values.empty())
    fail("it has no iterations, and an output that collects their values: no iteration says the shape of a value");
  return n.stack(values, axis);
}

/// Body: (iteration, condition, carried values) to (condition, carried values, collected values).
static Results importLoop(N &n) {
  if (auto bags = importBags(n))
    return *bags;
  const char *remedy = "only loops whose iterations are known when compiling are supported";
  std::optional<int64_t> trips;
  if (n.has(0)) {
    auto value = n.known(n.in(0));
    if (!value || value->getNumElements() != 1)
      fail("its trip count ('", n.node.input(0), "') is computed from the inputs or parameters of the model: ", remedy);
    trips = integersOf(*value)[0];
  }
  Item condition = n.has(1) ? n.item(1) : Item(n.splatOf({}, n.getBuilder().getI1Type(), 1));
  SmallVector<Item> carried;
  for (int64_t i = 2; i < n.numInputs(); ++i)
    carried.push_back(n.item(i));
  int64_t outputs = n.graph("body").output_size(), collected = outputs - 1 - (int64_t)carried.size();
  if (collected < 0)
    fail("its body has ", outputs, " outputs for ", carried.size(), " carried values and a condition");
  SmallVector<SmallVector<Item>> lists(collected);
  for (int64_t step = 0; !trips || step < *trips; ++step) {
    if (!isTrue(n, condition, "condition", remedy))
      break;
    SmallVector<Item> inputs{n.integerTensor(step, {}), condition};
    llvm::append_range(inputs, carried);
    Results results = iterate(n, step, inputs);
    condition = folded(n, results[0]);
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = folded(n, results[1 + i]);
    for (int64_t i = 0; i < collected; ++i)
      lists[i].push_back(results[1 + carried.size() + i]);
  }
  Results results(carried);
  for (const auto &list : lists)
    results.push_back(stack(n, list, 0));
  return results;
}

//===- Scan ---------------------------------------------------------------===//

/// The numbers of an attribute, one for each of `count` values; zeros if it is missing.
static Shape numbersOfEach(N &n, llvm::StringRef attribute, int64_t count) {
  Shape values = n.integers(attribute).value_or(Shape(count, 0));
  if ((int64_t)values.size() != count)
    fail("attribute '", attribute, "' has ", values.size(), " numbers for ", count, " values");
  return values;
}

namespace {
/// Scan without a batch: body: (states, slices) to (states, collected values).
struct Scan {
  Scan(N &n, int64_t first)
      : n(n), first(first), states(n.numInputs() - first - n.integer("num_scan_inputs", 0)), scans(n.numInputs() - first - states),
        collected(n.graph("body").output_size() - states) {
    if (states < 0 || scans < 1)
      fail("num_scan_inputs is ", n.integer("num_scan_inputs", 0), ", and it has ", n.numInputs() - first, " inputs");
    if (collected < 0)
      fail("its body has ", n.graph("body").output_size(), " outputs, fewer than the ", states, " states that it carries");
  }

  /// `lengths`: the number of iterations, if it is not the size of the scanned dimension. Later ones collect zeros.
  Results run(ArrayRef<Item> state, ArrayRef<Value> inputs, ArrayRef<int64_t> axes, ArrayRef<int64_t> reversed,
              ArrayRef<int64_t> outputAxes, ArrayRef<int64_t> outputReversed, std::optional<int64_t> length = {}) {
    SmallVector<int64_t> dims;
    std::optional<int64_t> size;
    for (auto [x, axis] : llvm::zip(inputs, axes)) {
      dims.push_back(n.axis(axis, n.rankOf(x)));
      int64_t here = shapeOf(x)[dims.back()];
      if (size.value_or(here) != here)
        fail("its scanned inputs '", nameOf(0), "' and '", nameOf(dims.size() - 1), "' have ", *size, " and ", here, " slices");
      size = here;
    }
    if (length && (*length < 1 || *length > *size))
      fail("a sequence of length ", *length, " is not in 1 to ", *size);
    if (length)
      n.model.countSlices(*size - *length); // the zeros behind it
    SmallVector<Item> current(state);
    SmallVector<SmallVector<Item>> lists(collected);
    for (int64_t step = 0; step < length.value_or(*size); ++step) {
      SmallVector<Item> all(current);
      for (auto [x, dim, back] : llvm::zip(inputs, dims, reversed)) {
        Shape shape(shapeOf(x));
        shape.erase(shape.begin() + dim);
        all.push_back(n.reshape(n.sliceDim(x, dim, back ? *size - 1 - step : step, 1), shape));
      }
      Results results = iterate(n, step, all);
      for (int64_t i = 0; i < states; ++i)
        current[i] = folded(n, results[i]);
      for (int64_t i = 0; i < collected; ++i)
        lists[i].push_back(results[states + i]);
    }
    for (auto [list, back, axis] : llvm::zip(lists, outputReversed, outputAxes)) {
      while (!list.empty() && list[0].tensor && (int64_t)list.size() < *size)
        list.push_back(n.splatOf(shapeOf(list[0].tensor), n.elementOf(list[0].tensor), 0));
      if (back)
        std::reverse(list.begin(), list.end());
      current.push_back(stack(n, list, axis));
    }
    return Results(current);
  }

  /// The name of a scanned input.
  const std::string &nameOf(int64_t scanned) const { return n.node.input(first + states + scanned); }

  N &n;
  const int64_t first, states, scans, collected; // first: the number of inputs before the states
};
} // namespace

static Results importScan(N &n) {
  Scan scan(n, 0);
  SmallVector<Item> states;
  SmallVector<Value> inputs;
  for (int64_t i = 0; i < n.numInputs(); ++i)
    i < scan.states ? states.push_back(n.item(i)) : inputs.push_back(n.in(i));
  return scan.run(states, inputs, numbersOfEach(n, "scan_input_axes", scan.scans),
                  numbersOfEach(n, "scan_input_directions", scan.scans),
                  numbersOfEach(n, "scan_output_axes", scan.collected),
                  numbersOfEach(n, "scan_output_directions", scan.collected));
}

/// Opset 8: the first input has the sequences' lengths, and all others a batch, whose elements are scanned one by one.
static Results importScanOfBatch(N &n) {
  Scan scan(n, 1);
  int64_t batch = n.rankOf(n.in(1)) ? shapeOf(n.in(1))[0] : 0;
  auto lengths = n.has(0) ? std::optional(n.integersInput(0, "sequence_lens")) : std::nullopt;
  if (lengths && (int64_t)lengths->size() != batch)
    fail("it has ", lengths->size(), " sequence lengths for a batch of ", batch);
  Shape directions = numbersOfEach(n, "directions", scan.scans), zeros(std::max(scan.scans, scan.collected), 0);
  SmallVector<SmallVector<Item>> lists(scan.states + scan.collected);
  n.model.countSlices(batch);
  for (int64_t b = 0; b < batch; ++b) {
    SmallVector<Item> states;
    SmallVector<Value> inputs;
    for (int64_t i = 1; i < n.numInputs(); ++i) {
      Value x = n.in(i);
      if (n.rankOf(x) == 0 || shapeOf(x)[0] != batch)
        fail("input ", i, " does not have the batch of ", batch);
      Value element = n.reshape(n.sliceDim(x, 0, b, 1), shapeOf(x).drop_front());
      i <= scan.states ? states.push_back(element) : inputs.push_back(element);
    }
    Results results = scan.run(states, inputs, zeros, directions, zeros, zeros,
                               lengths ? std::optional((*lengths)[b]) : std::nullopt);
    for (auto [list, result] : llvm::zip(lists, results))
      list.push_back(result);
  }
  Results results;
  for (const auto &list : lists)
    results.push_back(stack(n, list, 0));
  return results;
}

//===- SequenceMap --------------------------------------------------------===//

/// Body: (an element of the sequence, an element of each other sequence or another tensor) to elements of sequences.
static Results importSequenceMap(N &n) {
  SmallVector<SmallVector<Value>> lists(n.graph("body").output_size());
  int64_t length = n.sequence(0).size();
  for (int64_t step = 0; step < length; ++step) {
    SmallVector<Item> inputs;
    for (int64_t i = 0; i < n.numInputs(); ++i) {
      const Item &item = n.item(i);
      if (item.sequence && (int64_t)item.sequence->size() != length)
        fail("its sequences have ", length, " and ", item.sequence->size(), " tensors");
      inputs.push_back(item.sequence ? Item((*item.sequence)[step]) : item);
    }
    for (auto [list, result] : llvm::zip(lists, iterate(n, step, inputs))) {
      if (!result.tensor)
        fail("its body does not compute tensors");
      list.push_back(result.tensor);
    }
  }
  Results results;
  for (auto &list : lists)
    results.push_back(Item::ofSequence(list));
  return results;
}

llvm::ArrayRef<Operator> divisi::compiler::controlFlowOperators() {
  static constexpr Operator rows[] = {
      {"If", 1, newest, importIf},          {"Loop", 1, newest, importLoop},
      {"Scan", 8, 8, importScanOfBatch},    {"Scan", 9, newest, importScan},
      {"SequenceMap", 17, newest, importSequenceMap},
  };
  return rows;
}
