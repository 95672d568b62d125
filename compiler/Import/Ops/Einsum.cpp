#include "compiler/Import/Ops/Contraction.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using Shape = CheckedBuilder::Shape;
using B = CheckedBuilder;

namespace {
/// A tensor whose dimensions have labels. Dimensions of an ellipsis have negative labels: -1 is the last of them.
struct Labelled {
  Value value;
  SmallVector<int> labels;

  int64_t size(int label) const {
    auto it = llvm::find(labels, label);
    return it == labels.end() ? 1 : shapeOf(value)[it - labels.begin()];
  }
  bool has(int label) const { return llvm::is_contained(labels, label); }
};
} // namespace

/// The labels of one term, with `dots` dimensions for its ellipsis.
static SmallVector<int> labelsOf(StringRef term, int64_t dots) {
  SmallVector<int> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i).starts_with("...")) {
      for (int64_t d = dots; d > 0; --d)
        labels.push_back(-d);
      i += 2;
    } else if (llvm::isAlpha(term[i])) {
      labels.push_back(term[i]);
    } else {
      fail("its equation has the character '", term.substr(i, 1), "'");
    }
  }
  return labels;
}

/// Replaces repeated labels by their diagonal: elements off the diagonal become zero, and the second dimension is
/// summed.
static void takeDiagonals(B &b, Labelled &x) {
  for (size_t i = 0; i < x.labels.size(); ++i)
    for (size_t j = i + 1; j < x.labels.size();) {
      if (x.labels[i] != x.labels[j]) {
        ++j;
        continue;
      }
      auto shape = shapeOf(x.value);
      if (shape[i] != shape[j])
        fail("a repeated label names dimensions of sizes ", shape[i], " and ", shape[j]);
      Value place = b.iota(shape, j);
      Value same = b.compare(Predicate::eq, b.iota(shape, i), place);
      x.value = b.reduceSum(b.keepWhere(same, x.value), {(int64_t)j});
      x.labels.erase(x.labels.begin() + j);
    }
}

/// Sums over the dimensions whose labels are not wanted.
static void sumOthers(B &b, Labelled &x, llvm::function_ref<bool(int)> wanted) {
  Shape dims;
  SmallVector<int> kept;
  for (auto [d, label] : llvm::enumerate(x.labels))
    if (wanted(label))
      kept.push_back(label);
    else
      dims.push_back(d);
  x.value = b.reduceSum(x.value, dims);
  x.labels = kept;
}

/// Transposes a tensor so that its dimensions have the order of `labels`.
static Value ordered(B &b, const Labelled &x, ArrayRef<int> labels) {
  Shape permutation;
  for (int label : labels)
    permutation.push_back(llvm::find(x.labels, label) - x.labels.begin());
  return b.transpose(x.value, permutation);
}

static SmallVector<int> joined(ArrayRef<int> a, ArrayRef<int> b) {
  SmallVector<int> result(a);
  llvm::append_range(result, b);
  return result;
}

namespace {
/// The labels of two operands, by their role in a contraction.
struct Classes {
  SmallVector<int> batch, left, right, contracted;
};
} // namespace

static Classes classify(const Labelled &x, const Labelled &y, llvm::function_ref<bool(int)> wanted) {
  Classes classes;
  for (int label : x.labels)
    (!y.has(label) ? classes.left : wanted(label) ? classes.batch : classes.contracted).push_back(label);
  for (int label : y.labels)
    if (!x.has(label))
      classes.right.push_back(label);
  return classes;
}

/// A contraction without contracted labels: the product of broadcast tensors.
static Labelled outerProduct(B &b, const Labelled &x, const Labelled &y, const Classes &classes) {
  SmallVector<int> labels = joined(joined(classes.batch, classes.left), classes.right);
  Shape shape;
  for (int label : labels)
    shape.push_back(std::max(x.size(label), y.size(label)));
  auto widen = [&](const Labelled &t, ArrayRef<int> own) {
    Shape dims;
    for (int label : own)
      dims.push_back(llvm::find(labels, label) - labels.begin());
    return b.broadcast(ordered(b, t, own), shape, dims);
  };
  Value right = widen(y, joined(classes.batch, classes.right));
  return {b.mul(widen(x, joined(classes.batch, classes.left)), right), labels};
}

/// One batched matmul. An operand is transposed by a flag if only its last two dimensions are exchanged.
static Labelled contraction(B &b, const Labelled &x, const Labelled &y, const Classes &classes) {
  auto sizes = [](const Labelled &t, ArrayRef<int> labels) {
    Shape shape;
    for (int label : labels)
      shape.push_back(t.size(label));
    return shape;
  };
  Shape batch = sizes(x, classes.batch), rows = sizes(x, classes.left), columns = sizes(y, classes.right);
  int64_t depth = llvm::product_of(sizes(x, classes.contracted));
  Shape flat;
  if (!batch.empty())
    flat.push_back(llvm::product_of(batch));
  auto matrix = [&](const Labelled &t, ArrayRef<int> first, int64_t firstSize, ArrayRef<int> second, int64_t secondSize,
                    bool &swapped) {
    SmallVector<int> other = joined(joined(classes.batch, second), first);
    swapped = ArrayRef<int>(t.labels) == ArrayRef<int>(other);
    Shape shape = flat;
    shape.append({swapped ? secondSize : firstSize, swapped ? firstSize : secondSize});
    return b.reshape(swapped ? t.value : ordered(b, t, joined(joined(classes.batch, first), second)), shape);
  };
  bool ta, tb;
  Value lhs = matrix(x, classes.left, llvm::product_of(rows), classes.contracted, depth, ta);
  Value rhs = matrix(y, classes.contracted, depth, classes.right, llvm::product_of(columns), tb);
  Shape shape = batch;
  llvm::append_range(shape, rows);
  llvm::append_range(shape, columns);
  return {b.reshape(matmulOf(b, lhs, rhs, ta, tb), shape), joined(joined(classes.batch, classes.left), classes.right)};
}

/// Drops dimensions of size 1 that would be broadcast against larger ones.
static void dropUnits(B &b, Labelled &x, const Labelled &other) {
  for (size_t d = 0; d < x.labels.size();) {
    int64_t size = shapeOf(x.value)[d], theirs = other.size(x.labels[d]);
    if (other.has(x.labels[d]) && size != theirs && size != 1 && theirs != 1)
      fail("a label names dimensions of sizes ", size, " and ", theirs);
    if (size == 1 && theirs != 1) {
      Shape shape(shapeOf(x.value));
      shape.erase(shape.begin() + d);
      x.value = b.reshape(x.value, shape);
      x.labels.erase(x.labels.begin() + d);
    } else {
      ++d;
    }
  }
}

static Labelled product(B &b, Labelled x, Labelled y, llvm::function_ref<bool(int)> wanted) {
  dropUnits(b, x, y);
  dropUnits(b, y, x);
  sumOthers(b, x, [&](int label) { return y.has(label) || wanted(label); });
  sumOthers(b, y, [&](int label) { return x.has(label) || wanted(label); });
  Classes classes = classify(x, y, wanted);
  bool isVector = llvm::all_of(classes.left, [&](int l) { return x.size(l) == 1; }) ||
                  llvm::all_of(classes.right, [&](int l) { return y.size(l) == 1; });
  if (!classes.contracted.empty() && (classes.batch.empty() || !isVector))
    return contraction(b, x, y, classes);
  // Vectors: multiplied elementwise and summed.
  llvm::append_range(classes.batch, classes.contracted);
  Labelled result = outerProduct(b, x, y, classes);
  sumOthers(b, result, [&](int label) { return !llvm::is_contained(classes.contracted, label); });
  return result;
}

/// The output's labels if the equation has no arrow: those of the ellipsis, then the labels that occur once, sorted.
static SmallVector<int> implicitOutput(ArrayRef<StringRef> terms, int64_t dots) {
  std::map<int, int> counts;
  for (StringRef term : terms)
    for (int label : labelsOf(term, 0))
      ++counts[label];
  SmallVector<int> output = labelsOf("...", dots);
  for (auto [label, count] : counts)
    if (label > 0 && count == 1)
      output.push_back(label);
  return output;
}

Value divisi::compiler::einsum(B &b, StringRef equation, ArrayRef<Value> operands) {
  std::string text;
  llvm::copy_if(equation, std::back_inserter(text), [](char c) { return c != ' '; });
  auto [inputs, output] = StringRef(text).split("->");
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  if (terms.size() != operands.size())
    fail("its equation has ", terms.size(), " terms for ", operands.size(), " inputs");
  int64_t dots = 0;
  SmallVector<Labelled> tensors;
  for (auto [term, operand] : llvm::zip(terms, operands)) {
    int64_t own = term.contains("...") ? b.rankOf(operand) - ((int64_t)term.size() - 3) : 0;
    if (own < 0)
      fail("term '", term, "' does not fit a tensor of rank ", b.rankOf(operand));
    dots = std::max(dots, own);
    tensors.push_back({operand, labelsOf(term, own)});
    if ((int64_t)tensors.back().labels.size() != b.rankOf(operand))
      fail("term '", term, "' does not fit a tensor of rank ", b.rankOf(operand));
    takeDiagonals(b, tensors.back());
  }
  SmallVector<int> wanted = StringRef(text).contains("->") ? labelsOf(output, dots) : implicitOutput(terms, dots);
  if (llvm::SmallSet<int, 8>(wanted.begin(), wanted.end()).size() != wanted.size())
    fail("its equation repeats a label in the output");
  Labelled result = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i)
    result = product(b, result, tensors[i], [&](int label) {
      return llvm::is_contained(wanted, label) ||
             llvm::any_of(llvm::drop_begin(tensors, i + 1), [&](const Labelled &t) { return t.has(label); });
    });
  sumOthers(b, result, [&](int label) { return llvm::is_contained(wanted, label); });
  for (int label : wanted)
    if (!result.has(label))
      fail("its equation's output has a label that no input has");
  return ordered(b, result, wanted);
}
