// Indices that exporters write where a model names the rows of a sample: as_strided as a table of all places, and
// x[arange(batch), index] as index vectors or as places in the flattened x. Only where the importer knows that a sample
// needs nothing of others can the batch be split there.
#include "compiler/Import/Ops/KnownIndices.h"

#include <numeric>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Dims = CheckedBuilder::Dims;
using Shape = CheckedBuilder::Shape;

bool divisi::compiler::isTable(N &n, Value x) {
  while (isa_and_nonnull<ReshapeOp, TransposeOp, CastOp>(x.getDefiningOp()))
    x = x.getDefiningOp()->getOperand(0);
  Signature::Argument *argument = n.model.signature().find(x);
  return x.getDefiningOp<ConstantOp>() || (argument && argument->role != Signature::Role::input);
}

static int64_t countOf(Dims shape) { return llvm::product_of(shape); }

/// The shape of x with a dimension replaced by others.
static Shape replaced(Dims x, int64_t axis, Dims by) {
  Shape result(x.take_front(axis));
  llvm::append_range(result, by);
  llvm::append_range(result, x.drop_front(axis + 1));
  return result;
}

//===- Places in one dimension --------------------------------------------===//

/// Whether numbers are `first`, first + 1, first + 2, ...
static bool isRun(Dims numbers, int64_t first) {
  return llvm::all_of(llvm::enumerate(numbers),
                      [&](auto entry) { return entry.value() == first + (int64_t)entry.index(); });
}

/// Whether `numbers`, in `parts` parts of one length, are those of the first part, which are within [0, rows), and
/// `rows` more with each part.
static bool isInRows(Dims numbers, int64_t parts, int64_t rows) {
  int64_t length = (int64_t)numbers.size() / parts;
  if (!llvm::all_of(numbers.take_front(length), [&](int64_t number) { return number >= 0 && number < rows; }))
    return false;
  for (int64_t i = length; i < (int64_t)numbers.size(); ++i)
    if (numbers[i] != numbers[i - length] + rows)
      return false;
  return true;
}

/// The largest number of rows of x, which has `size` elements, of which the numbers are in turn; 1 if there are none.
static int64_t rowsOf(Dims numbers, int64_t size) {
  int64_t common = std::gcd((int64_t)numbers.size(), size);
  for (int64_t by = 1; by < common; ++by)
    if (common % by == 0 && isInRows(numbers, common / by, size / (common / by)))
      return common / by;
  return 1;
}

/// A gather along an axis by known indices.
static Value gatherKnown(N &n, Value x, Dims numbers, Dims shape, int64_t axis) {
  int64_t size = shapeOf(x)[axis], count = numbers.size();
  if (count == 0 || llvm::any_of(numbers, [&](int64_t number) { return number < 0 || number >= size; }))
    return {};
  Shape result = replaced(shapeOf(x), axis, shape);
  bool table = isTable(n, x); // a look-up of some of its rows follows a split of the rows
  if (isRun(numbers, numbers[0]) && (count == size || !table))
    return n.reshape(n.sliceDim(x, axis, numbers[0], count), result);
  int64_t parts = axis || table ? 1 : rowsOf(numbers, size), rows = size / parts, each = count / parts;
  if (parts == 1)
    return {};
  Dims inRow = numbers.take_front(each);
  Value y = n.reshape(x, replaced(shapeOf(x), 0, {parts, rows}));
  if (isRun(inRow, inRow[0]))
    y = n.sliceDim(y, 1, inRow[0], each);
  else if (rows == 1)
    y = n.broadcast(y, replaced(shapeOf(y), 1, {each}), dimRange(0, n.rankOf(y)));
  else
    y = n.gather(y, n.integerTensor(inRow, {each}), 1);
  return n.reshape(y, result);
}

/// The numbers that are added up, to a depth of some additions; a sum of them is all of `value`.
static void addends(Value value, SmallVector<Value> &found, int depth = 4) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || depth == 0)
    return found.push_back(value);
  addends(add.getLhs(), found, depth - 1);
  addends(add.getRhs(), found, depth - 1);
}

/// Whether x is a tensor with the dimensions of `parts` rows of this length, flattened.
static bool isFlattened(Value x, int64_t parts, int64_t rows) {
  auto reshape = x.getDefiningOp<ReshapeOp>();
  int64_t before = 1;
  for (int64_t size : reshape ? shapeOf(reshape.getX()) : Dims()) {
    if (before == parts && size == rows)
      return true;
    before *= size;
  }
  return false;
}

/// A gather along the first axis by i * rows + index, where i counts along the first dimensions of the indices. Each
/// index must be within the rows: it is a position along them, or checked where x has just been flattened, since that
/// is how TorchScript writes x[i, index]. (There an index of -1 would be read from another row, which is not what
/// PyTorch does.)
static Value gatherInRows(N &n, Value x, Value indices) {
  SmallVector<Value> terms;
  addends(indices, terms);
  ArrayRef<int64_t> shape = shapeOf(indices);
  int64_t size = shapeOf(x)[0], count = countOf(shape);
  Value index;
  Shape known;
  if (terms.size() == 1)
    return {};
  for (Value term : terms) {
    if (auto values = n.model.evaluate(term)) {
      known.resize(count, 0); // of no more elements than are evaluated
      for (auto [sum, number] : llvm::zip(known, integersOf(*values)))
        if (llvm::AddOverflow(sum, number, sum))
          return {};
    } else if (index) {
      return {};
    } else {
      index = term;
    }
  }
  if (!index || known.empty())
    return {};
  auto positions = N::sizeOfPositions(index);
  for (int64_t lead = shape.size(); lead > 0; --lead) {
    int64_t parts = countOf(shape.take_front(lead));
    if (parts < 2 || size % parts != 0)
      continue;
    bool checked = !n.model.options.forwardOnly && isFlattened(x, parts, size / parts);
    if (positions ? *positions > size / parts : !checked)
      continue;
    Shape starts;
    for (int64_t i = 0; i < count; ++i)
      starts.push_back(i / (count / parts) * (size / parts));
    if (known != starts)
      continue;
    n.limit(index, 0, size / parts);
    Value rows = n.reshape(x, replaced(shapeOf(x), 0, {parts, size / parts}));
    Value vectors = n.reshape(n.cast(index, n.i64()), {parts, count / parts, 1});
    return n.reshape(n.op<GatherNdOp>(rows, vectors, 1), replaced(shapeOf(x), 0, shape));
  }
  return {};
}

Value divisi::compiler::gatherCounted(N &n, Value x, Value indices, int64_t axis) {
  if (!isa<IntegerType>(n.elementOf(indices)))
    return {};
  if (auto values = n.known(indices)) {
    Shape numbers = integersOf(*values);
    for (int64_t &number : numbers)
      number += number < 0 ? shapeOf(x)[axis] : 0;
    return gatherKnown(n, x, numbers, shapeOf(indices), axis);
  }
  return axis == 0 && !isTable(n, x) ? gatherInRows(n, x, indices) : Value();
}

//===- Index vectors ------------------------------------------------------===//

namespace {
/// The components of index vectors, each of the vectors' shape without the last dimension.
struct Components {
  SmallVector<Value> values;
  Shape shape;
  SmallVector<std::optional<int64_t>> counts; ///< the dimension along which a component counts

  /// Reads vectors that are joined from their components, or known; of others nothing is known.
  Components(N &n, Value vectors, Dims sizes);
  bool any() const {
    return llvm::any_of(counts, [](auto dim) { return dim.has_value(); });
  }
};
} // namespace

/// Whether numbers of a shape are the index along one of its dimensions.
static bool counts(Dims numbers, Dims shape, size_t dim) {
  int64_t inner = countOf(shape.drop_front(dim + 1));
  for (auto [i, number] : llvm::enumerate(numbers))
    if (number != (int64_t)i / inner % shape[dim])
      return false;
  return true;
}

Components::Components(N &n, Value vectors, Dims sizes) : shape(shapeOf(vectors).drop_back()), counts(sizes.size()) {
  int64_t last = shape.size();
  auto join = vectors.getDefiningOp<ConcatOp>();
  bool joined = join && (int64_t)join.getDim() == last && join.getInputs().size() == sizes.size() &&
                llvm::all_of(join.getInputs(), [&](Value part) { return shapeOf(part).back() == 1; });
  if (countOf(shape) == 0 || !(joined || n.known(vectors)))
    return;
  llvm::SmallDenseSet<size_t> used;
  for (size_t k = 0; k < sizes.size(); ++k) {
    values.push_back(n.reshape(joined ? join.getInputs()[k] : n.sliceDim(vectors, last, k, 1), shape));
    auto known = n.known(values[k]);
    if (!known)
      continue;
    Shape numbers = integersOf(*known);
    for (size_t d = 0; d < shape.size() && !counts[k]; ++d)
      if (shape[d] == sizes[k] && !used.contains(d) && ::counts(numbers, shape, d))
        counts[k] = d, used.insert(d);
  }
}

/// Vectors of these components, in range and not negative.
static Value joined(N &n, ArrayRef<Value> components, Dims sizes) {
  return n.index(n.stack(components, n.rankOf(components[0])), sizes);
}

Value divisi::compiler::withoutCounters(N &n, Value x, Value vectors, int64_t &batch) {
  Dims sizes = shapeOf(x).slice(batch, shapeOf(vectors).back());
  Components components(n, vectors, sizes);
  size_t first = 0;
  while (first + 1 < sizes.size() && components.counts[first] == batch + (int64_t)first)
    ++first;
  if (first == 0)
    return {};
  batch += first;
  return joined(n, ArrayRef(components.values).drop_front(first), sizes.drop_front(first));
}

/// All components count: the dimensions of x, in their order, are repeated along the others.
static Value broadcastOf(N &n, Value x, const Components &components, int64_t batch) {
  Shape to = components.shape, dims = dimRange(0, batch);
  for (auto dim : components.counts)
    if (!dim || (*dim < batch) || (!dims.empty() && *dim <= dims.back()))
      return {};
    else
      dims.push_back(*dim);
  llvm::append_range(dims, dimRange(to.size(), (int64_t)to.size() + n.rankOf(x) - (int64_t)dims.size()));
  llvm::append_range(to, shapeOf(x).drop_front(batch + components.counts.size()));
  return n.broadcast(x, to, dims);
}

/// One component does not count, and the others count along all dimensions of the vectors, as in x[index,
/// arange(batch)].
static Value gatherAlong(N &n, Value x, const Components &components, int64_t batch) {
  int64_t along = -1, next = batch, depth = components.counts.size();
  for (int64_t k = 0; k < depth; ++k)
    if (!components.counts[k] && along < 0)
      along = k;
    else if (components.counts[k] != next++)
      return {};
  if (along < 0 || next != (int64_t)components.shape.size())
    return {};
  int64_t dim = batch + along;
  Shape shape(shapeOf(x)), one(components.shape);
  shape[dim] = 1;
  one.insert(one.begin() + dim, 1);
  Value index = n.reshape(n.index(components.values[along], shapeOf(x)[dim]), one);
  Value y = n.op<GatherElementsOp>(x, n.broadcast(index, shape, dimRange(0, one.size())), dim);
  return n.reshape(y, replaced(shapeOf(x), dim, {}));
}

Value divisi::compiler::gatherAtCounters(N &n, Value x, Value vectors, int64_t batch) {
  Dims sizes = shapeOf(x).slice(batch, shapeOf(vectors).back());
  Components components(n, vectors, sizes);
  if (!components.any())
    return {};
  if (Value y = broadcastOf(n, x, components, batch))
    return y;
  int64_t deeper = batch;
  if (Value others = withoutCounters(n, x, vectors, deeper))
    return n.op<GatherNdOp>(x, others, deeper);
  return gatherAlong(n, x, components, batch);
}
