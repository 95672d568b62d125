#include "test/gpu/ptx/Reader.h"

#include <algorithm>
#include <cctype>
#include <optional>

using namespace divisi::test::ptx;

namespace {

/// Bytes of a type such as .b32; 0 for .pred.
std::optional<unsigned> bytesOf(std::string_view type) {
  if (type == ".pred")
    return 0;
  static const std::map<std::string_view, unsigned> kinds = {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
  if (type.size() < 3 || type[0] != '.' || std::string_view("busf").find(type[1]) == type.npos)
    return std::nullopt;
  auto it = kinds.find(type.substr(2));
  return it == kinds.end() ? std::nullopt : std::optional(it->second);
}

class Parser {
public:
  explicit Parser(std::string_view text) : in(text) {}

  Text parseText() {
    Text text;
    while (!in.atEnd()) {
      std::string_view word = in.expectWord();
      if (word == ".version" || word == ".target" || word == ".address_size")
        in.skipLine();
      else if (word == ".global" || word == ".const")
        text.globals.push_back(parseVariable(true));
      else if (word == ".shared")
        text.shared.push_back(parseVariable(false));
      else if (word == ".entry")
        text.kernels.push_back(parseKernel());
      else if (word != ".visible" && word != ".extern" && word != ".weak")
        in.fail("'" + std::string(word) + "' is not known here");
    }
    return text;
  }

private:
  unsigned expectType(std::string_view word) {
    auto bytes = bytesOf(word);
    if (!bytes)
      in.fail("'" + std::string(word) + "' is no type that is known");
    return *bytes;
  }

  /// `.align N .b8 NAME[COUNT] = {...};`
  Variable parseVariable(bool hasContents) {
    Variable variable;
    std::string_view word = in.expectWord();
    unsigned bytes = 0;
    if (word == ".align") {
      variable.alignment = in.number();
      word = in.expectWord();
    }
    bytes = expectType(word);
    variable.alignment = std::max<uint64_t>({variable.alignment, (uint64_t)bytes, 1});
    variable.name = in.expectWord();
    variable.bytes = bytes;
    while (in.take('[')) {
      variable.bytes *= in.number();
      in.expect(']');
    }
    if (hasContents) {
      variable.contents.resize(variable.bytes);
      if (in.take('=')) {
        in.expect('{');
        for (size_t at = 0; !in.take('}'); at += bytes) {
          uint64_t value = in.number();
          if (at + bytes > variable.bytes)
            in.fail("more values than " + variable.name + " has");
          for (unsigned i = 0; i < bytes; ++i)
            variable.contents[at + i] = (char)(value >> (8 * i));
          in.take(',');
        }
      }
    }
    in.expect(';');
    return variable;
  }

  Kernel parseKernel() {
    kernel = {};
    scopes = {{}};
    kernel.line = in.line();
    kernel.name = in.expectWord();
    in.expect('(');
    while (!in.take(')')) {
      std::string_view word = in.expectWord();
      if (word != ".param" || expectType(in.expectWord()) != 8)
        in.fail("parameters other than addresses are not known");
      word = in.expectWord();
      if (word == ".ptr") {
        word = in.expectWord();
        if (word == ".global")
          word = in.expectWord();
        if (word == ".align") {
          in.number();
          word = in.expectWord();
        }
      }
      kernel.parameters.emplace_back(word);
      in.take(',');
    }
    while (!in.take('{')) {
      std::string_view word = in.expectWord();
      if (word == ".maxntid" || word == ".reqntid")
        kernel.threads = (unsigned)in.number();
      else if (word == ".minnctapersm" || word == ".maxnreg")
        in.number();
      else
        in.fail("'" + std::string(word) + "' of a kernel is not known");
    }
    while (!scopes.empty())
      parseStatement();
    return std::move(kernel);
  }

  void parseStatement() {
    if (in.take('{')) {
      scopes.emplace_back();
      return;
    }
    if (in.take('}')) {
      scopes.pop_back();
      return;
    }
    Statement statement;
    statement.line = in.line();
    if (in.take('@')) {
      statement.negated = in.take('!');
      Operand guard = parseOperand();
      if (guard.kind != Operand::Kind::reg || kernel.registers[(size_t)guard.number] != 0)
        in.fail("only a predicate can be a condition");
      statement.guard = guard.number;
    }
    std::string_view word = in.expectWord();
    if (word == ".reg")
      return parseRegisters();
    if (word == ".shared" || word == ".local") {
      (word == ".shared" ? kernel.shared : kernel.local).push_back(parseVariable(false));
      return;
    }
    if (word == ".pragma" || word == ".loc")
      return in.skipLine();
    if (in.take(':')) {
      label = word;
      if (!kernel.labels.emplace(label, kernel.statements.size()).second)
        in.fail("label " + label + " is there twice");
      return;
    }
    statement.opcode = word;
    while (!in.take(';')) {
      statement.operands.push_back(parseOperand());
      if (!in.take(',') && in.peek() != ';')
        in.fail(std::string("expected ';' before '") + in.peek() + "'");
    }
    if (word != ".branchtargets") {
      kernel.statements.push_back(std::move(statement));
      return;
    }
    for (const Operand &operand : statement.operands)
      kernel.targets[label].push_back(operand.name);
    kernel.labels.erase(label);
  }

  /// `.reg .b32 %r<10>;` or `.reg .b16 a, b;`
  void parseRegisters() {
    unsigned bytes = expectType(in.expectWord());
    do {
      std::string name(in.expectWord());
      if (!in.take('<')) {
        add(name, bytes);
        continue;
      }
      uint64_t count = in.number();
      in.expect('>');
      if (count > 1 << 16)
        in.fail("more registers than are known");
      for (uint64_t i = 0; i < count; ++i)
        add(name + std::to_string(i), bytes);
    } while (in.take(','));
    in.expect(';');
  }
  void add(const std::string &name, unsigned bytes) {
    scopes.back()[name] = (int)kernel.registers.size();
    kernel.registers.push_back(bytes);
  }

  Operand parseOperand() {
    using Kind = Operand::Kind;
    Operand operand;
    if (in.take('[')) {
      operand.kind = Kind::address;
      operand.parts.push_back(parseOperand());
      if (in.take('+'))
        operand.offset = (int64_t)in.number();
      in.expect(']');
      return operand;
    }
    if (in.take('{')) {
      operand.kind = Kind::list;
      while (!in.take('}')) {
        operand.parts.push_back(parseOperand());
        in.take(',');
      }
      return operand;
    }
    operand.negated = in.take('!');
    if (in.peek() == '-' || std::isdigit((unsigned char)in.peek()))
      return parseLiteral();
    operand.name = in.expectWord();
    if (operand.name == "_")
      return operand;
    for (size_t i = scopes.size(); i-- > 0;)
      if (auto it = scopes[i].find(operand.name); it != scopes[i].end()) {
        operand.kind = Kind::reg;
        operand.number = it->second;
        return operand;
      }
    operand.kind = operand.name[0] == '%' ? Kind::special : Kind::name;
    return operand;
  }

  Operand parseLiteral() {
    Operand operand;
    operand.kind = Operand::Kind::literal;
    Reader before = in;
    if (std::string_view word = in.word(); word.starts_with("0f") || word.starts_with("0d")) {
      operand.bytes = word[1] == 'f' ? 4 : 8;
      if (word.size() != 2 + 2 * operand.bytes)
        in.fail("'" + std::string(word) + "' is no number");
      operand.bits = std::stoull(std::string(word.substr(2)), nullptr, 16);
      return operand;
    }
    in = before;
    operand.bits = in.number();
    return operand;
  }

  Reader in;
  Kernel kernel;
  std::string label; ///< the last one
  std::vector<std::map<std::string, int>> scopes;
};
} // namespace

Text divisi::test::ptx::parse(std::string_view text) {
  try {
    return Parser(text).parseText();
  } catch (const std::logic_error &error) { // of std::stoull
    throw Error(0, error.what());
  }
}
