//===- Tokens.h - texts that are damaged token by token ---------*- C++ -*-===//
#ifndef DIVISI_TEST_FUZZ_COMPILER_TOKENS_H
#define DIVISI_TEST_FUZZ_COMPILER_TOKENS_H

#include "test/fuzz/parsers/Input.h"

namespace divisi::fuzz {

/// Mutates a text in MLIR's syntax, TOML or JSON: mostly tokens, bracketed groups and lines, which are left out, repeated, swapped or
/// replaced by others of the text or by numbers at the edge; else bytes.
size_t mutateTokens(uint8_t *data, size_t size, size_t most, unsigned seed);

} // namespace divisi::fuzz

#endif // DIVISI_TEST_FUZZ_COMPILER_TOKENS_H
