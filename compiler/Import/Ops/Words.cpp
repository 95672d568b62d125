// Counting: TfIdfVectorizer, and Unique of values that are known during import.
#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

static Value integerVector(N &n, ArrayRef<int64_t> values) { return n.integerTensor(values, {(int64_t)values.size()}); }

/// How often each n-gram of the pool is in each row of x, [rows, grams]; between its items there are `distance - 1` others.
static Value countGrams(N &n, Value x, ArrayRef<int64_t> pool, int64_t length, int64_t distance) {
  int64_t rows = shapeOf(x)[0], grams = (int64_t)pool.size() / length;
  int64_t places = std::max<int64_t>(0, shapeOf(x)[1] - (length - 1) * distance);
  Shape shape{rows, places, grams};
  if (places == 0)
    return n.splatOf({rows, grams}, n.f32(), 0);
  Value all;
  for (int64_t k = 0; k < length; ++k) {
    Shape items;
    for (int64_t g = 0; g < grams; ++g)
      items.push_back(pool[g * length + k]);
    Value item = n.broadcast(n.sliceDim(x, 1, k * distance, places), shape, {0, 1});
    Value same = n.compare(Predicate::eq, item, n.broadcast(integerVector(n, items), shape, {2}));
    all = all ? n.both(all, same) : same;
  }
  return n.reduceSum(n.cast(all, n.f32()), {1});
}

static Results importTfIdf(N &n) {
  Value x = n.in(0);
  auto pool = n.integers("pool_int64s"), starts = n.integers("ngram_counts"), columns = n.integers("ngram_indexes");
  if (!pool || !starts || !columns || !isa<IntegerType>(n.elementOf(x)) || n.rankOf(x) < 1 || n.rankOf(x) > 2)
    fail("it takes a vector or a matrix of integers, pool_int64s, ngram_counts and ngram_indexes");
  std::string mode = n.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    fail("mode '", mode, "' is neither TF, IDF nor TFIDF");
  bool isVector = n.rankOf(x) == 1;
  x = n.cast(isVector ? n.reshape(x, {1, shapeOf(x)[0]}) : x, n.i64());
  int64_t rows = shapeOf(x)[0], least = n.integer("min_gram_length", 1), most = n.integer("max_gram_length", 1);
  int64_t skips = n.integer("max_skip_count", 0), size = pool->size();
  if (least < 1 || most < least || most > (int64_t)starts->size() || skips < 0 || skips > 1 << 12)
    fail("n-grams of ", least, " to ", most, " items, with at most ", skips, " skipped, do not fit to ngram_counts");
  constexpr int64_t mostOperations = 1 << 16;
  int64_t operations = 0; // of one length and distance, about five for each item
  SmallVector<Value> counts; // of the grams in the pool's order
  for (int64_t length = 1; length <= (int64_t)starts->size(); ++length) {
    int64_t first = (*starts)[length - 1], last = length < (int64_t)starts->size() ? (*starts)[length] : size;
    if (first < 0 || last < first || last > size || (last - first) % length)
      fail("ngram_counts does not divide the pool into grams");
    int64_t grams = (last - first) / length;
    if (grams == 0)
      continue;
    Value count = n.splatOf({rows, grams}, n.f32(), 0);
    for (int64_t skip = 0; skip <= (length == 1 ? 0 : skips) && length >= least && length <= most; ++skip) {
      if ((operations += 5 * length) > mostOperations)
        fail("its n-grams with skipped items are too many");
      count = n.add(count, countGrams(n, x, ArrayRef(*pool).slice(first, last - first), length, skip + 1));
    }
    counts.push_back(count);
  }
  if (counts.empty())
    fail("its pool is empty");
  Value all = n.concat(counts, 1);
  int64_t grams = shapeOf(all)[1], width = 0;
  auto weights = n.floats("weights");
  if ((int64_t)columns->size() != grams || (weights && (int64_t)weights->size() != grams))
    fail("its pool has ", grams, " n-grams, but ngram_indexes or weights another number");
  if (mode == "IDF")
    all = n.op<MinOp>(all, n.splatLike(all, 1));
  if (mode != "TF" && weights)
    all = n.mul(all, n.along(n.numbers({grams}, n.f32(), *weights), shapeOf(all), 1));
  for (int64_t column : *columns) {
    if (column < 0 || column >= 1 << 24)
      fail("ngram_indexes has ", column);
    width = std::max(width, column + 1);
  }
  Shape sources(width, grams); // the gram of each column; those without one are zero
  for (auto [gram, column] : llvm::enumerate(*columns))
    sources[column] = gram;
  Value places = integerVector(n, sources);
  Value y = n.gather(n.pad(all, {0, 0}, {rows, grams + 1}), places, 1);
  return {isVector ? n.reshape(y, {width}) : y};
}

/// The different slices along an axis, or elements, of a known tensor.
static Results importUnique(N &n) {
  auto values = numbersOf(n.constantInput(0, "input"));
  Value x = n.in(0);
  int64_t axis = 0;
  if (n.hasAttr("axis"))
    axis = n.axisAttr(0, n.rankOf(x));
  else
    x = n.reshape(x, {(int64_t)values.size()});
  ArrayRef<int64_t> shape = shapeOf(x);
  int64_t outer = 1, inner = 1, size = shape[axis];
  for (int64_t d = 0; d < (int64_t)shape.size(); ++d)
    (d < axis ? outer : inner) *= d == axis ? 1 : shape[d];
  if (outer == 0 || inner == 0)
    fail("its input has no elements");
  std::map<SmallVector<double>, int64_t> seen; // slice, its number in the order of appearance
  Shape first, number, counts;
  for (int64_t i = 0; i < size; ++i) {
    SmallVector<double> slice;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k)
        slice.push_back(values[(o * size + i) * inner + k]);
    auto [it, isNew] = seen.emplace(std::move(slice), (int64_t)first.size());
    if (isNew)
      first.push_back(i), counts.push_back(0);
    number.push_back(it->second);
    ++counts[it->second];
  }
  Shape order; // of the results
  if (n.integer("sorted", 1))
    for (const auto &[slice, k] : seen)
      order.push_back(k);
  else
    order = dimRange(0, first.size());
  Shape place(order.size()), firsts, sizes;
  for (auto [to, k] : llvm::enumerate(order)) {
    place[k] = to;
    firsts.push_back(first[k]);
    sizes.push_back(counts[k]);
  }
  for (int64_t &k : number)
    k = place[k];
  Value chosen = integerVector(n, firsts);
  return {n.gather(x, chosen, axis), chosen, integerVector(n, number), integerVector(n, sizes)};
}

llvm::ArrayRef<Operator> divisi::compiler::wordOperators() {
  static constexpr Operator rows[] = {
      {"TfIdfVectorizer", 9, newest, importTfIdf},
      {"Unique", 11, newest, importUnique},
  };
  return rows;
}
