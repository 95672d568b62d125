//===- Messages.h - ONNX models that are damaged by fields ------*- C++ -*-===//
#ifndef DIVISI_TEST_FUZZ_COMPILER_MESSAGES_H
#define DIVISI_TEST_FUZZ_COMPILER_MESSAGES_H

#include "test/fuzz/parsers/Input.h"

#include <vector>

namespace divisi::fuzz {

/// Mutates a serialized onnx::ModelProto: mostly fields of its messages, which are left out, repeated, swapped, copied from others of
/// their kind, or get numbers at the edge and names of the model or of `operators`; else bytes.
size_t mutateModel(uint8_t *data, size_t size, size_t most, unsigned seed, const std::vector<std::string> &operators);

/// The first model with some messages of the second.
size_t crossModels(std::string_view first, std::string_view second, uint8_t *out, size_t most, unsigned seed);

} // namespace divisi::fuzz

#endif // DIVISI_TEST_FUZZ_COMPILER_MESSAGES_H
