//===- Input.h - bytes of a fuzzer as what a parser takes -------*- C++ -*-===//
#ifndef DIVISI_TEST_FUZZ_PARSERS_INPUT_H
#define DIVISI_TEST_FUZZ_PARSERS_INPUT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// libFuzzer's own mutation, for mutators that know the format.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

namespace divisi::fuzz {

inline std::string_view text(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

/// A file in memory with these bytes; the path of the previous one becomes invalid.
std::string fileOf(std::string_view bytes);

/// A temporary folder of this process, in memory if the system supports it; it is removed at the end.
const std::string &temporary();

/// Replaces the text file at `path`.
void write(const std::string &path, std::string_view bytes);

/// Mutates JSON text: its bytes, or the text at a random place between delimiters, which is replaced by keywords of
/// formats.
size_t mutateJson(uint8_t *data, size_t size, size_t most, unsigned seed);

/// Uses the data: sums the bytes, so that sanitizers see them read.
void use(const char *data, size_t size);

} // namespace divisi::fuzz

#endif // DIVISI_TEST_FUZZ_PARSERS_INPUT_H
