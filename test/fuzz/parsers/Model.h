//===- Model.h - a small program's manifest ---------------------*- C++ -*-===//
#ifndef DIVISI_TEST_FUZZ_PARSERS_MODEL_H
#define DIVISI_TEST_FUZZ_PARSERS_MODEL_H

#include <cstdint>
#include <string_view>

namespace divisi::fuzz {

constexpr uint64_t modelArena = 1024;
constexpr std::string_view model = R"({"abi": 7, "model": "line", "batch": 4, "weights": {"file": "", "hashes": ""},
 "inputs": [{"name": "x", "dtype": "F32", "shape": [4, 3], "offset": 0, "bytes": 48},
            {"name": "y", "dtype": "I64", "shape": [4], "offset": 64, "bytes": 32, "range": [0, 9], "padding": -100}],
 "state": [{"name": "w", "role": "parameter", "dtype": "F32", "shape": [4], "offset": 128, "bytes": 16},
           {"name": "divisi.step", "role": "step", "dtype": "I64", "shape": [], "offset": 192, "bytes": 8},
           {"name": "divisi.seed", "role": "seed", "dtype": "I64", "shape": [], "offset": 256, "bytes": 8}],
 "scalars": [{"name": "learning_rate", "dtype": "F32", "offset": 320}, {"name": "rows", "dtype": "I64", "offset": 384}],
 "results": [{"function": "train", "kind": "loss", "dtype": "F32", "shape": [], "offset": 448}],
 "tasks": ["train"], "tables": {"train": [[[0, 0, 0]]]},
 "defaults": {"lr": 0.05, "lr_schedule": "constant", "warmup_steps": 0, "step_size": 0, "gamma": 0.1}})";

} // namespace divisi::fuzz

#endif // DIVISI_TEST_FUZZ_PARSERS_MODEL_H
