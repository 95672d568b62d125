// LSTM, GRU and RNN, unrolled over the steps of their sequences. The matmuls of the inputs with their weights do not
// depend on earlier steps and are one matmul for all steps. Its rows are ordered by sequence, then by step, so that a
// split of the batch splits them.
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Activation.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;
using Dims = CheckedBuilder::Dims;

/// The most steps that are unrolled, of both directions together.
static constexpr int64_t mostSteps = 4096;

namespace {
/// What a step leaves for the next one: [batch, hidden].
struct State {
  Value h, c;
};

/// A layer with one or two directions: all but the cell.
class Layer {
public:
  /// `functions`: the activations of one direction, where the node names none.
  Layer(N &n, int64_t gates, ArrayRef<std::string> functions, bool hasCell);
  virtual ~Layer() = default;
  Results run();

protected:
  /// Prepares what the steps of the current direction share.
  virtual void begin() {}
  /// The state after a step; x: [batch, gates * hidden], the inputs' products with their weights and the biases.
  virtual State step(Value x, State before) = 0;
  /// The bias of the products, of `bias`, which is added to the inputs', and `recurrent`, which is to the state's.
  virtual Value biasOf(Value bias, Value recurrent) { return n.add(bias, recurrent); }

  /// Columns [index * hidden, (index + count) * hidden) of a matrix.
  Value gate(Value x, int64_t index, int64_t count = 1) { return n.sliceDim(x, 1, index * hidden, count * hidden); }
  Value product(Value h, Value weights) { return n.matmul(h, weights, false, true); }
  Value activate(int64_t function, Value x);
  /// The activation of a gate, whose argument is clipped.
  Value activateGate(int64_t function, Value x);
  Value part(Value stacked, std::initializer_list<int64_t> shape);
  Value rows(Value vector) { return n.along(vector, {batch, hidden}, 1); }

  N &n;
  const int64_t gates;
  int64_t steps = 0, batch = 0, hidden = 0, directions = 1, direction = 0;
  Value weights; // of the state, of the current direction: [gates * hidden, hidden]

private:
  void expect(Value value, const char *what, Dims shape);
  Value initialState(int64_t input);
  Value products();
  Value activeAt(int64_t step);
  void runDirection(bool reverse);
  Value stackStates(ArrayRef<Value> states);
  Value stackOutputs();

  const bool hasCell;
  bool batchFirst;
  double clip;
  std::string order;
  SmallVector<Activation> activations;
  Value inputs;                      // [batch * steps, size of the input]
  Value lengths;                     // of the sequences, where some may be shorter
  SmallVector<Value> outputs, hs, cs; // of each direction: [batch, steps, hidden], [batch, hidden]
};
} // namespace

void Layer::expect(Value value, const char *what, Dims shape) {
  if (shapeOf(value) != shape)
    fail("its ", what, " ", shapeText(shapeOf(value)), " should be ", shapeText(shape));
}

Layer::Layer(N &n, int64_t gates, ArrayRef<std::string> functions, bool hasCell)
    : n(n), gates(gates), hasCell(hasCell), batchFirst(n.integer("layout", 0) != 0), clip(n.number("clip", 0)),
      order(n.text("direction", "forward")) {
  Value x = n.in(0);
  if (n.rankOf(x) != 3 || n.rankOf(n.in(1)) != 3 || n.rankOf(n.in(2)) != 3 || !n.isFloat(x))
    fail("it takes an input, weights and weights of the state with three dimensions each, of floats");
  if (order != "forward" && order != "reverse" && order != "bidirectional")
    fail("direction '", order, "' is neither forward, reverse nor bidirectional");
  if (clip < 0)
    fail("clip ", clip, " is negative");
  directions = order == "bidirectional" ? 2 : 1;
  batch = shapeOf(x)[batchFirst ? 0 : 1], steps = shapeOf(x)[batchFirst ? 1 : 0], hidden = shapeOf(n.in(2))[2];
  int64_t size = shapeOf(x)[2];
  if (n.integer("hidden_size", hidden) != hidden)
    fail("hidden_size is not the weights' ", hidden);
  expect(n.in(1), "weights", {directions, gates * hidden, size});
  expect(n.in(2), "weights of the state", {directions, gates * hidden, hidden});
  if (n.has(3))
    expect(n.in(3), "bias", {directions, 2 * gates * hidden});
  if (steps < 1 || steps * directions > mostSteps)
    fail("its sequences have ", steps, " steps; 1 to ", mostSteps / directions, " can be unrolled");
  SmallVector<std::string> missing;
  for (int64_t d = 0; d < directions; ++d)
    llvm::append_range(missing, functions);
  activations = namedActivations(n, missing);
  inputs = n.reshape(batchFirst ? x : n.transpose(x, {1, 0, 2}), {batch * steps, size});
  if (!n.has(4))
    return;
  expect(n.in(4), "sequence_lens", {batch});
  auto known = n.model.evaluate(n.in(4));
  n.limit(n.in(4), 0, steps + 1, "sequence length");
  if (!known || llvm::any_of(integersOf(*known), [&](int64_t length) { return length < steps; }))
    lengths = n.in(4);
}

/// The part of the current direction.
Value Layer::part(Value stacked, std::initializer_list<int64_t> shape) {
  return n.reshape(n.sliceDim(stacked, 0, direction, 1), shape);
}

Value Layer::activateGate(int64_t function, Value x) {
  return activate(function, clip > 0 ? n.clamp(x, -clip, clip) : x);
}

Value Layer::activate(int64_t function, Value x) {
  return activations[direction * ((int64_t)activations.size() / directions) + function](n, x);
}

/// A state before the first step: by default zero.
Value Layer::initialState(int64_t input) {
  if (!n.has(input))
    return n.splatOf({batch, hidden}, n.elementOf(n.in(0)), 0);
  Value all = n.in(input);
  expect(all, "initial state", batchFirst ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden});
  return n.reshape(n.sliceDim(all, batchFirst ? 1 : 0, direction, 1), {batch, hidden});
}

/// The matmul of all inputs with the weights, and the biases: [batch, steps, gates * hidden].
Value Layer::products() {
  int64_t columns = gates * hidden;
  Value x = n.matmul(inputs, part(n.in(1), {columns, shapeOf(inputs)[1]}), false, true);
  if (n.has(3)) {
    Value both = part(n.in(3), {2 * columns});
    Value recurrent = n.sliceDim(both, 0, columns, columns);
    Value bias = biasOf(n.sliceDim(both, 0, 0, columns), recurrent);
    x = n.add(x, n.along(bias, shapeOf(x), 1));
  }
  return n.reshape(x, {batch, steps, columns});
}

/// Whether each sequence has this step; null if all have: [batch, hidden].
Value Layer::activeAt(int64_t step) {
  if (!lengths)
    return {};
  return n.broadcast(n.compareTo(Predicate::gt, lengths, (double)step), {batch, hidden}, {0});
}

void Layer::runDirection(bool reverse) {
  Location whole = n.getLoc();
  weights = part(n.in(2), {gates * hidden, hidden});
  Value x = products();
  begin();
  State state{initialState(5), hasCell ? initialState(6) : Value()};
  SmallVector<Value> all(steps);
  for (int64_t i = 0; i < steps; ++i) {
    int64_t t = reverse ? steps - 1 - i : i;
    n.setLoc(NameLoc::get(n.getBuilder().getStringAttr(textOf(n.name, reverse ? "/reverse/" : "/step/", t))));
    State next = step(n.reshape(n.sliceDim(x, 1, t, 1), {batch, gates * hidden}), state);
    Value y = next.h;
    if (Value active = activeAt(t)) { // a sequence without this step keeps its state, and its output is zero
      y = n.keepWhere(active, next.h);
      next.h = n.select(active, next.h, state.h);
      next.c = next.c ? n.select(active, next.c, state.c) : Value();
    }
    all[t] = n.reshape(y, {batch, 1, hidden});
    state = next;
  }
  n.setLoc(whole);
  outputs.push_back(n.concat(all, 1));
  hs.push_back(state.h);
  cs.push_back(state.c);
}

/// [directions, batch, hidden], or with the batch first.
Value Layer::stackStates(ArrayRef<Value> states) {
  SmallVector<Value> parts;
  for (Value state : states)
    parts.push_back(n.reshape(state, batchFirst ? Shape{batch, 1, hidden} : Shape{1, batch, hidden}));
  return n.concat(parts, batchFirst ? 1 : 0);
}

/// [steps, directions, batch, hidden], or [batch, steps, directions, hidden].
Value Layer::stackOutputs() {
  if (directions == 1 && !batchFirst)
    return n.reshape(n.transpose(outputs[0], {1, 0, 2}), {steps, 1, batch, hidden});
  SmallVector<Value> parts;
  for (Value output : outputs)
    parts.push_back(n.reshape(output, {batch, steps, 1, hidden}));
  Value all = n.concat(parts, 2);
  return batchFirst ? all : n.transpose(all, {1, 2, 0, 3});
}

Results Layer::run() {
  for (direction = 0; direction < directions; ++direction)
    runDirection(order == "reverse" || direction == 1);
  Results results{stackOutputs(), stackStates(hs)};
  if (hasCell)
    results.push_back(stackStates(cs));
  return results;
}

//===- The cells ----------------------------------------------------------===//

namespace {
/// Gates i, o, f and c, in this order; peepholes of i, o and f.
struct Lstm final : Layer {
  explicit Lstm(N &n) : Layer(n, 4, {"Sigmoid", "Tanh", "Tanh"}, true), coupled(n.integer("input_forget", 0) != 0) {
    if (n.has(7) && shapeOf(n.in(7)) != ArrayRef<int64_t>({directions, 3 * hidden}))
      fail("its peepholes ", shapeText(shapeOf(n.in(7))), " should be ", shapeText({directions, 3 * hidden}));
  }

  void begin() override {
    peepholes.clear();
    if (!n.has(7))
      return;
    Value all = part(n.in(7), {3 * hidden});
    for (int64_t k = 0; k < 3; ++k)
      peepholes.push_back(rows(n.sliceDim(all, 0, k * hidden, hidden)));
  }
  Value sees(Value x, int64_t peephole, Value c) {
    return peepholes.empty() ? x : n.add(x, n.mul(peepholes[peephole], c));
  }

  State step(Value x, State before) override {
    Value z = n.add(product(before.h, weights), x);
    Value i = activateGate(0, sees(gate(z, 0), 0, before.c));
    Value f = coupled ? n.addConst(n.neg(i), 1) : activateGate(0, sees(gate(z, 2), 2, before.c));
    Value entering = n.mul(i, activateGate(1, gate(z, 3)));
    Value c = n.add(n.mul(f, before.c), entering);
    Value o = activateGate(0, sees(gate(z, 1), 1, c));
    return {n.mul(o, activate(2, c)), c};
  }

  bool coupled;
  SmallVector<Value> peepholes; // [batch, hidden]
};

/// Gates z, r and h, in this order.
struct Gru final : Layer {
  explicit Gru(N &n) : Layer(n, 3, {"Sigmoid", "Tanh"}, false), linearFirst(n.integer("linear_before_reset", 0) != 0) {}

  void begin() override {
    if (!linearFirst) {
      first = n.sliceDim(weights, 0, 0, 2 * hidden);
      last = n.sliceDim(weights, 0, 2 * hidden, hidden);
    }
  }
  Value biasOf(Value bias, Value recurrent) override {
    if (!linearFirst)
      return n.add(bias, recurrent);
    stateBias = rows(n.sliceDim(recurrent, 0, 2 * hidden, hidden));
    Value ofState = n.sliceDim(recurrent, 0, 0, 2 * hidden);
    Value gates = n.add(n.sliceDim(bias, 0, 0, 2 * hidden), ofState);
    return n.concat({gates, n.sliceDim(bias, 0, 2 * hidden, hidden)}, 0);
  }

  State step(Value x, State before) override {
    Value all = product(before.h, linearFirst ? weights : first);
    Value ofInput = gate(x, 0), z = activateGate(0, n.add(gate(all, 0), ofInput));
    ofInput = gate(x, 1);
    Value r = activateGate(0, n.add(gate(all, 1), ofInput));
    Value of = linearFirst ? n.mul(r, n.addMaybe(gate(all, 2), stateBias)) : product(n.mul(r, before.h), last);
    Value h = activateGate(1, n.add(of, gate(x, 2)));
    return {n.add(h, n.mul(z, n.sub(before.h, h))), {}};
  }

  bool linearFirst;
  Value first, last; // weights of z and r, and of h
  Value stateBias;   // of h, inside of the product with r: [batch, hidden]
};

struct Rnn final : Layer {
  explicit Rnn(N &n) : Layer(n, 1, {"Tanh"}, false) {}
  State step(Value x, State before) override { return {activateGate(0, n.add(product(before.h, weights), x)), {}}; }
};
} // namespace

template <typename LayerT> static Results recurrent(N &n) { return LayerT(n).run(); }

llvm::ArrayRef<Operator> divisi::compiler::recurrentOperators() {
  static constexpr Operator rows[] = {
      {"GRU", 7, newest, recurrent<Gru>},
      {"LSTM", 7, newest, recurrent<Lstm>},
      {"RNN", 7, newest, recurrent<Rnn>},
  };
  return rows;
}
