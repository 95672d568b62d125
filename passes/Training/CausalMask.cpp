#include "passes/Training/CausalMask.h"

#include "dialects/Graph/Graph.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
using namespace divisi::graph;

namespace {

/// A function of the query's index q and the key's index k: `below` where k <= q + edge, `above` elsewhere. Both are
/// linear: a q + b k + c. Without an edge the function is `below` everywhere.
struct Form {
  struct Linear {
    double a = 0, b = 0, c = 0;
    bool isConstant() const { return a == 0 && b == 0; }
  };
  Linear below, above;
  std::optional<int64_t> edge;
};
using Linear = Form::Linear;

Form constantForm(double c) { return {{0, 0, c}, {0, 0, c}, std::nullopt}; }

/// The edge that both functions share. A function without an edge agrees with every edge; nullopt: the edges differ.
std::optional<std::optional<int64_t>> commonEdge(const Form &x, const Form &y) {
  if (x.edge && y.edge && *x.edge != *y.edge)
    return std::nullopt;
  return x.edge ? x.edge : y.edge;
}

template <typename Combine> std::optional<Form> combined(const Form &x, const Form &y, Combine combine) {
  auto edge = commonEdge(x, y);
  if (!edge)
    return std::nullopt;
  std::optional<Linear> below = combine(x.below, y.below), above = combine(x.above, y.above);
  if (!below || !above || std::isnan(below->c) || std::isnan(above->c))
    return std::nullopt;
  return Form{*below, *above, *edge};
}

bool holds(Predicate predicate, double x, double y) {
  switch (predicate) {
  case Predicate::eq:
    return x == y;
  case Predicate::ne:
    return x != y;
  case Predicate::lt:
    return x < y;
  case Predicate::le:
    return x <= y;
  case Predicate::gt:
    return x > y;
  case Predicate::ge:
    return x >= y;
  }
  return false;
}

/// The truth value, 0 or 1, of a test of two constants.
template <typename Test> std::optional<Form> tested(const Form &x, const Form &y, Test test) {
  return combined(x, y, [&](Linear p, Linear q) -> std::optional<Linear> {
    if (!p.isConstant() || !q.isConstant())
      return std::nullopt;
    return Linear{0, 0, test(p.c, q.c) ? 1.0 : 0.0};
  });
}

/// x + factor y.
std::optional<Form> sum(const Form &x, const Form &y, double factor) {
  return combined(x, y, [&](Linear p, Linear q) -> std::optional<Linear> {
    return Linear{p.a + factor * q.a, p.b + factor * q.b, p.c + factor * q.c};
  });
}

/// x y, if one of them is constant.
std::optional<Form> product(const Form &x, const Form &y) {
  return combined(x, y, [](Linear p, Linear q) -> std::optional<Linear> {
    if (!p.isConstant())
      std::swap(p, q);
    if (!p.isConstant() || (!std::isfinite(p.c) && !q.isConstant()))
      return std::nullopt;
    return Linear{q.isConstant() ? 0 : p.c * q.a, q.isConstant() ? 0 : p.c * q.b, p.c * q.c};
  });
}

/// A comparison of constants, or of indices: k - q with a whole number.
std::optional<Form> compared(Predicate predicate, const Form &x, const Form &y) {
  auto constants = tested(x, y, [&](double p, double q) { return holds(predicate, p, q); });
  if (constants || x.edge || y.edge)
    return constants;
  Linear d = {x.below.a - y.below.a, x.below.b - y.below.b, x.below.c - y.below.c}; // compared with zero
  if (d.a != -d.b || std::abs(d.b) != 1 || d.c != (double)(int64_t)d.c || std::abs(d.c) > 1e9)
    return std::nullopt;
  auto c = (int64_t)d.c;
  bool keyFirst = d.b == 1; // k - q + c against 0, or q - k + c
  auto upTo = [](int64_t edge, bool inside) {
    return Form{{0, 0, inside ? 1.0 : 0.0}, {0, 0, inside ? 0.0 : 1.0}, edge};
  };
  switch (predicate) {
  case Predicate::le:
    return keyFirst ? upTo(-c, true) : upTo(c - 1, false);
  case Predicate::lt:
    return keyFirst ? upTo(-c - 1, true) : upTo(c, false);
  case Predicate::gt:
    return keyFirst ? upTo(-c, false) : upTo(c - 1, true);
  case Predicate::ge:
    return keyFirst ? upTo(-c - 1, false) : upTo(c, true);
  default:
    return std::nullopt;
  }
}

/// What a dimension of a value is among the dimensions of the scores.
enum Place { queries, keys, single, other };
using Places = SmallVector<Place, 4>;

/// Reads a computation as a function of indices. It gives up after a number of operations, because operations are
/// visited once for each use.
struct Reader {
  int left = 4096; ///< operations that may still be visited
  std::optional<Form> formOf(Value value, Places places);
  std::optional<Form> formOf(Operation *op, const Places &places);
};

/// Whether an integer type is wide enough for the values that Form computes in double.
bool holdsForm(Type element, const Form &form) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() == 1)
    return true;
  constexpr double most = 1 << 8, mostConstant = 1 << 30; // for indices below 2^20
  return integer.getWidth() >= 32 && !integer.isUnsigned() &&
         llvm::all_of(ArrayRef<Linear>{form.below, form.above}, [&](const Linear &x) {
           return std::abs(x.a) <= most && std::abs(x.b) <= most && std::abs(x.c) <= mostConstant;
         });
}

/// Whether a cast changes no number that occurs here. A truth value is 0 or 1 in every type.
bool keepsNumbers(Type from, Type to) {
  if (from.isInteger(1))
    return true;
  bool wideFloat = to.isF32() || to.isF64();
  if (isa<FloatType>(from))
    return wideFloat;
  return wideFloat || (isa<IntegerType>(to) && to.getIntOrFloatBitWidth() >= 32);
}

std::optional<Form> Reader::formOf(Operation *op, const Places &places) {
  auto operand = [&](unsigned i) { return formOf(op->getOperand(i), places); };
  auto both = [&](auto combine) -> std::optional<Form> {
    auto x = operand(0), y = operand(1);
    return x && y ? combine(*x, *y) : std::nullopt;
  };
  return llvm::TypeSwitch<Operation *, std::optional<Form>>(op)
      .Case([&](ConstantOp constant) -> std::optional<Form> {
        auto data = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!data || !data.isSplat())
          return std::nullopt;
        return constantForm(isa<FloatType>(data.getElementType()) ? data.getSplatValue<APFloat>().convertToDouble()
                            : data.getElementType().isInteger(1)  ? (double)data.getSplatValue<bool>()
                                                                  : (double)data.getSplatValue<APInt>().getSExtValue());
      })
      .Case([&](IotaOp iota) -> std::optional<Form> {
        Place place = places[iota.getDim()];
        if (place == other || shapeOf(iota.getResult())[iota.getDim()] > (1 << 20))
          return std::nullopt;
        Linear index = {place == queries ? 1.0 : 0, place == keys ? 1.0 : 0, 0};
        return Form{index, index, std::nullopt};
      })
      .Case([&](CastOp cast) -> std::optional<Form> {
        Type from = tensorType(cast.getX()).getElementType(), to = tensorType(cast.getResult()).getElementType();
        return keepsNumbers(from, to) ? operand(0) : std::nullopt;
      })
      .Case([&](NegOp) -> std::optional<Form> {
        auto x = operand(0);
        return x ? sum(constantForm(0), *x, -1) : std::nullopt;
      })
      .Case([&](AddOp) { return both([](const Form &x, const Form &y) { return sum(x, y, 1); }); })
      .Case([&](SubOp) { return both([](const Form &x, const Form &y) { return sum(x, y, -1); }); })
      .Case([&](MulOp) { return both(product); })
      .Case([&](AndOp) {
        return both([](const Form &x, const Form &y) {
          return tested(x, y, [](double p, double q) { return p != 0 && q != 0; });
        });
      })
      .Case([&](OrOp) {
        return both([](const Form &x, const Form &y) {
          return tested(x, y, [](double p, double q) { return p != 0 || q != 0; });
        });
      })
      .Case([&](NotOp) -> std::optional<Form> {
        auto x = operand(0);
        return x ? tested(*x, *x, [](double p, double) { return p == 0; }) : std::nullopt;
      })
      .Case([&](CompareOp compare) {
        return both([&](const Form &x, const Form &y) { return compared(compare.getPredicate(), x, y); });
      })
      .Case([&](SelectOp) -> std::optional<Form> {
        auto condition = operand(0), x = operand(1), y = operand(2);
        if (!condition || !x || !y || !condition->below.isConstant() || !condition->above.isConstant())
          return std::nullopt;
        auto first = commonEdge(*condition, *x);
        auto edge = first ? commonEdge({{}, {}, *first}, *y) : std::nullopt;
        if (!edge)
          return std::nullopt;
        return Form{condition->below.c != 0 ? x->below : y->below, condition->above.c != 0 ? x->above : y->above,
                    *edge};
      })
      .Case([&](BroadcastOp broadcast) {
        Places inner;
        for (auto [d, to] : llvm::enumerate(broadcast.getDims()))
          inner.push_back(shapeOf(broadcast.getX())[d] == 1 ? single : places[to]);
        return formOf(broadcast.getX(), inner);
      })
      .Case([&](TransposeOp transpose) {
        Places inner(places.size());
        for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
          inner[from] = places[to];
        return formOf(transpose.getX(), inner);
      })
      .Case([&](ReshapeOp reshape) -> std::optional<Form> { // of dimensions of size 1
        Places inner;
        auto from = shapeOf(reshape.getX()), to = shapeOf(reshape.getResult());
        size_t d = 0;
        for (int64_t size : from) {
          while (size != 1 && d < to.size() && to[d] == 1)
            ++d;
          if (size != 1 && (d == to.size() || to[d] != size))
            return std::nullopt;
          inner.push_back(size == 1 ? single : places[d++]);
        }
        return formOf(reshape.getX(), inner);
      })
      .Case([&](SliceOp slice) -> std::optional<Form> { // a slice that starts at the first element
        bool first = llvm::all_of(slice.getStarts(), [](int64_t start) { return start == 0; }) &&
                     llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
        return first ? operand(0) : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Form> Reader::formOf(Value value, Places places) {
  Operation *op = value.getDefiningOp();
  auto form = op && left-- > 0 ? formOf(op, places) : std::nullopt;
  return form && holdsForm(tensorType(value).getElementType(), *form) ? form : std::nullopt;
}
} // namespace

/// The numbers of a two-valued mask: for keys up to the query's own index, and for the other keys. Null: it is no such
/// mask.
static std::optional<std::pair<double, double>> stepOf(Value value) {
  auto shape = shapeOf(value);
  if (shape.size() < 2)
    return std::nullopt;
  Places places;
  for (int64_t size : shape)
    places.push_back(size == 1 ? single : other);
  places[shape.size() - 2] = queries;
  places.back() = keys;
  auto form = Reader().formOf(value, places);
  if (!form || form->edge != 0 || !form->below.isConstant() || !form->above.isConstant())
    return std::nullopt;
  return std::pair(form->below.c, form->above.c);
}

std::optional<double> training::causalNumber(Value added) {
  auto step = stepOf(added);
  return step && step->first == 0 && step->second <= masksFrom ? std::optional(step->second) : std::nullopt;
}

bool training::isCausal(Value condition, bool masksWhere) {
  auto step = stepOf(condition);
  return step && (step->first != 0) != masksWhere && (step->second != 0) == masksWhere;
}
