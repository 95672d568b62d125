#include "test/runtime/comm/FakeStages.h"

#include <sstream>

using divisi::runtime::concat;

namespace divisi::test {
namespace {
/// Writes the entries of a list, one for each stage that has the tensor.
class Entries {
public:
  Entries(int stages, int data) : stages(stages), data(data) {}
  /// `rest` are the members beside the offset; `{rows}` stands for a rank's rows of a microbatch.
  Entries &add(int64_t FakeLayout::*offset, std::string rest) {
    for (size_t at; (at = rest.find("{rows}")) != std::string::npos;)
      rest.replace(at, 6, std::to_string(2 / data));
    for (int stage = 0; stage < stages; ++stage)
      if (int64_t place = (stage == 0 ? fakeWhole : fakeSecond).*offset; place >= 0 && has(offset, stage)) {
        text += concat(text.empty() ? "" : ",\n  ", "{", rest, R"(, "offset": )", place);
        text += stages > 1 ? concat(R"(, "stage": )", stage, "}") : "}";
      }
    return *this;
  }
  std::string text;

private:
  /// The first of two stages does not have tensors that only the second one uses.
  bool has(int64_t FakeLayout::*offset, int stage) const {
    using L = FakeLayout;
    bool ofSecond = offset == &L::label || offset == &L::scale || offset == &L::bias || offset == &L::rows ||
                    offset == &L::loss || offset == &L::evalLoss;
    return stages == 1 || stage == 1 || !ofSecond;
  }
  int stages, data;
};
} // namespace

std::string fakeStagesManifest(int stages, int data) {
  using L = FakeLayout;
  Entries inputs(stages, data), state(stages, data), scalars(stages, data), results(stages, data);
  inputs
      .add(&L::x, R"("name": "x", "dtype": "F32", "shape": [4, {rows}, 3], "global_shape": [4, 2, 3],
   "split": [[], [1], []], "microbatches": 4)")
      .add(&L::label, R"("name": "label", "dtype": "I64", "shape": [4, {rows}], "global_shape": [4, 2],
   "split": [[], [1]], "microbatches": 4, "label": true, "padding": -100, "range": [-50, 50])");
  state
      .add(&L::w, R"("name": "w", "role": "parameter", "dtype": "F32", "shape": [3],
   "init": {"kind": "normal", "scale": 0.5})")
      .add(&L::momentum, R"("name": "w.momentum", "role": "moment", "of": "w", "dtype": "F32", "shape": [3])")
      .add(&L::scale, R"("name": "scale", "role": "parameter", "dtype": "F32", "shape": [],
   "init": {"kind": "constant", "scale": 1.5})")
      .add(&L::bias, R"("name": "bias", "role": "parameter", "dtype": "F32", "shape": [],
   "init": {"kind": "uniform", "scale": 1})")
      .add(&L::table, R"("name": "table", "role": "parameter", "trainable": false, "dtype": "F32", "shape": [2],
   "init": {"kind": "uniform", "scale": 0.5})")
      .add(&L::step, R"("name": "divisi.step", "role": "step", "dtype": "I64", "shape": [])")
      .add(&L::seed, R"("name": "divisi.seed", "role": "seed", "dtype": "I64", "shape": [])");
  scalars.add(&L::rate, R"("name": "learning_rate", "dtype": "F32")")
      .add(&L::rows, R"("name": "rows", "dtype": "I64")")
      .add(&L::microbatch, R"("name": "microbatch", "dtype": "I64")")
      .add(&L::axis, R"("name": "axis_index.stage", "dtype": "I64")");
  results.add(&L::loss, R"("function": "train", "kind": "loss", "dtype": "F32")")
      .add(&L::norm, R"("function": "train", "kind": "grad_norm", "name": "w", "dtype": "F32", "when": 1)")
      .add(&L::evalLoss, R"("function": "evaluate", "kind": "loss", "dtype": "F32")");
  // Buffer slots of 128 bytes in turn; the last microbatches of the first stage run their backward tasks one after
  // another.
  auto slot = [](const FakeLayout &l, int m) { return l.slots + m % 2 * 128; };
  auto row = [&](int task, int m, const FakeLayout &l) { return concat("[", task, ", ", m, ", ", slot(l, m), "]"); };
  const FakeLayout &a = fakeWhole, &b = stages == 1 ? fakeWhole : fakeSecond;
  std::string train, evaluate;
  if (stages == 1) {
    for (int m = 0; m < 4; ++m) {
      train += row(0, m, a) + ", " + row(1, m, a) + ", " + row(2, m, a) + ", ";
      evaluate += row(0, m, a) + ", " + row(5, m, a) + ", ";
    }
    train = concat("[", train, "[3, 0, 0], [4, 0, 0]]");
    evaluate = concat("[", evaluate, "[6, 0, 0]]");
  } else {
    train = concat("[", row(0, 0, a), ", ", row(0, 1, a), ", ", row(2, 0, a), ", ", row(0, 2, a), ", ", row(2, 1, a),
                   ", ", row(0, 3, a), ", ", row(2, 2, a), ", ", row(2, 3, a), ", [3, 0, 0]], [");
    evaluate = "[";
    std::string second;
    for (int m = 0; m < 4; ++m) {
      train += row(1, m, b) + ", ";
      evaluate += row(0, m, a) + (m < 3 ? ", " : "], [");
      second += row(5, m, b) + ", ";
    }
    train += "[4, 0, 0]]";
    evaluate += second + "[6, 0, 0]]";
  }
  return concat(R"({"abi": 7, "model": "line", "batch": 8, "weights": {"file": "", "hashes": ""},
 "mesh": [{"name": "stage", "size": )",
                stages, R"(}, {"name": "data", "size": )", data, R"(}],
 "stages": [{"arena": )",
                fakeWhole.arena, stages > 1 ? concat("}, {\"arena\": ", fakeSecond.arena) : "", R"(}],
 "inputs": [)",
                inputs.text, "],\n \"state\": [", state.text, "],\n \"scalars\": [", scalars.text,
                "],\n \"results\": [", results.text, R"(],
 "tasks": ["forward", "middle", "backward", "updateFirst", "updateSecond", "evaluate", "evaluated"],
 "tables": {"train": [)",
                train, R"(], "evaluate": [)", evaluate, R"(]},
 "collectives": [{"id": 0, "name": "send of the features forward"}, {"id": 1, "name": "send of the gradients back"},
  {"id": 2, "name": "all_reduce of the gradient of w"}, {"id": 3, "name": "all_reduce of the gradients"},
  {"id": 4, "name": "all_reduce of the loss"}, {"id": 5, "name": "all_reduce of the evaluation's loss"}],
 "calls": [{"task": 0, "kind": "send", "id": 0, "name": "features"},
  {"task": 1, "kind": "receive", "id": 0}, {"task": 1, "kind": "await", "id": 0}, {"task": 1, "kind": "send", "id": 1},
  {"task": 2, "kind": "receive", "id": 1, "name": "gradients"}, {"task": 2, "kind": "await", "id": 1},
  {"task": 3, "kind": "all_reduce", "id": 2}, {"task": 3, "kind": "await", "id": 2},
  {"task": 4, "kind": "all_reduce", "id": 3}, {"task": 4, "kind": "await", "id": 3},
  {"task": 4, "kind": "all_reduce", "id": 4}, {"task": 4, "kind": "await", "id": 4}],
 "defaults": {"lr": 0.05}})");
}
} // namespace divisi::test
