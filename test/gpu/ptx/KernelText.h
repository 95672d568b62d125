#pragma once
#include "test/gpu/ptx/Interpreter.h"

#include <bit>
#include <string>
#include <vector>

namespace divisi::test::ptx {

/// A kernel `test` of some parameters, with registers of all kinds and `body`, which begins in line 7.
inline std::string kernelText(unsigned parameters, const std::string &body, const std::string &variables = "") {
  std::string text = ".version 7.8\n.target sm_90\n.address_size 64\n" + variables + "\n.visible .entry test(";
  for (unsigned i = 0; i < parameters; ++i)
    text += (i ? ", .param .u64 .ptr .align 64 p" : ".param .u64 .ptr .align 64 p") + std::to_string(i);
  return text + ") .maxntid 1024 {\n.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n" + body +
         "\nret;\n}\n";
}

/// Loads the thread's element of `bytes` of parameter `number` into a register, and the reverse. %r0 is the thread's
/// number in its block; %rd7 and %rd8 are changed.
inline std::string addressText(unsigned number, unsigned bytes) {
  return "ld.param.b64 %rd8, [p" + std::to_string(number) + "]; mul.wide.u32 %rd7, %r0, " + std::to_string(bytes) +
         "; add.s64 %rd8, %rd8, %rd7; ";
}
inline std::string loadText(unsigned number, const std::string &name, unsigned bytes) {
  return addressText(number, bytes) + "ld.global.b" + std::to_string(8 * bytes) + " " + name + ", [%rd8];\n";
}
inline std::string storeText(unsigned number, const std::string &name, unsigned bytes) {
  return addressText(number, bytes) + "st.global.b" + std::to_string(8 * bytes) + " [%rd8], " + name + ";\n";
}

/// Runs `test` with the vectors as its parameters, which are all that it may access.
template <typename... T>
std::string launch(const std::string &text, unsigned blocks, unsigned threads, std::vector<T> &...vectors) {
  std::vector<uint64_t> arguments = {(uint64_t)(uintptr_t)vectors.data()...};
  std::vector<Memory::Range> ranges;
  (ranges.push_back({(uint64_t)(uintptr_t)vectors.data(), (uint64_t)(uintptr_t)(vectors.data() + vectors.size())}),
   ...);
  return Module(text).launch("test", blocks, threads, arguments, Memory(std::move(ranges)));
}

} // namespace divisi::test::ptx
