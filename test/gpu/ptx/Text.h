#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// PTX as it is written: kernels, their variables and statements, names resolved to registers.
namespace divisi::test::ptx {

/// What is wrong with a text, or with what a kernel does, and in which line.
struct Error : std::runtime_error {
  Error(int line, const std::string &what) : std::runtime_error(what), line(line) {}
  int line;
};

struct Operand {
  enum class Kind {
    reg,     ///< `number` in Kernel::registers; `negated` of predicates
    literal, ///< `bits`; `bytes` where the text says how many: 0f... and 0d...
    name,    ///< of a variable, a parameter or a label
    special, ///< such as %tid.x
    address, ///< parts[0] + offset
    list,    ///< {parts}
    sink,    ///< _
  };
  Kind kind = Kind::sink;
  int number = -1;
  bool negated = false;
  uint64_t bits = 0;
  unsigned bytes = 0;
  std::string name;
  int64_t offset = 0;
  std::vector<Operand> parts;
};

struct Statement {
  std::string opcode;
  int guard = -1; ///< a predicate's register
  bool negated = false;
  std::vector<Operand> operands;
  int line = 0;
};

struct Variable {
  std::string name;
  uint64_t bytes = 0, alignment = 1;
  std::vector<char> contents = {}; ///< of .global and .const
};

struct Kernel {
  std::string name;
  int line = 0;
  unsigned threads = 1024; ///< at most
  std::vector<std::string> parameters;
  std::vector<unsigned> registers; ///< bytes of each; 0: a predicate
  std::vector<Variable> shared, local;
  std::vector<Statement> statements;
  std::map<std::string, size_t> labels;                    ///< the statement that follows
  std::map<std::string, std::vector<std::string>> targets; ///< .branchtargets
};

struct Text {
  std::vector<Variable> globals, shared;
  std::vector<Kernel> kernels;
};

/// Throws an Error where the text is not what the interpreter knows.
Text parse(std::string_view text);

} // namespace divisi::test::ptx
