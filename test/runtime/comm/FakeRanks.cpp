#include "test/runtime/comm/FakeRanks.h"

std::string divisi::test::fakeRanksManifest(int data, int model) {
  using runtime::concat;
  int rows = 4 / data, features = 4 / model;
  auto state = [&](const char *name, const char *role, int offset, const char *rest) {
    return concat(R"({"dtype": "F32", "name": ")", name, R"(", "role": ")", role, R"(", "shape": [)", features,
                  R"(], "global_shape": [4], "split": [[1]], "offset": )", offset, rest, "},\n");
  };
  return concat(
      R"({"abi": 7, "model": "line", "batch": 4, "mesh": [{"name": "data", "size": )", data,
      R"(}, {"name": "model", "size": )", model, R"(}], "weights": {"file": "", "hashes": ""},
 "inputs": [{"name": "x", "dtype": "F32", "shape": [)",
      rows, ", ", features, R"(], "global_shape": [4, 4], "split": [[0], [1]], "offset": 0},
  {"name": "label", "dtype": "I64", "shape": [)",
      rows,
      R"(], "global_shape": [4], "split": [[0]], "offset": 64, "label": true, "padding": -100, "range": [-50, 50]}],
 "state": [)",
      state("w", "parameter", 128, R"(, "init": {"kind": "normal", "scale": 0.5})"),
      state("w.momentum", "moment", 256, R"(, "of": "w")"),
      R"({"name": "bias", "role": "parameter", "dtype": "F32", "shape": [], "offset": 192, "init": {"kind": "uniform", "scale": 1}},
  {"name": "table", "role": "buffer", "dtype": "F32", "shape": [)",
      4 / data, ", ", 6 / model, R"(], "global_shape": [4, 6], "split": [[0], [1]], "offset": 320,
   "init": {"kind": "uniform", "scale": 2}},
  {"name": "divisi.step", "role": "step", "dtype": "I64", "shape": [], "offset": 448},
  {"name": "divisi.seed", "role": "seed", "dtype": "I64", "shape": [], "offset": 512}],
 "scalars": [{"name": "learning_rate", "dtype": "F32", "offset": 576}, {"name": "rows", "dtype": "I64", "offset": 640},
  {"name": "axis_index.data", "dtype": "I64", "offset": 832}, {"name": "axis_index.model", "dtype": "I64", "offset": 896}],
 "results": [{"function": "train", "kind": "loss", "dtype": "F32", "shape": [], "offset": 704},
  {"function": "evaluate", "kind": "loss", "dtype": "F32", "shape": [], "offset": 768}],
 "collectives": [{"id": 0, "name": "all_reduce of the predictions over model"},
  {"id": 1, "name": "all_reduce of the loss over data"},
  {"id": 2, "name": "all_reduce of the gradients over data"}],
 "tasks": ["train", "evaluate"], "tables": {"train": [[[0, 0, 0]]], "evaluate": [[[1, 0, 0]]]},
 "defaults": {"lr": 0.05}})");
}
