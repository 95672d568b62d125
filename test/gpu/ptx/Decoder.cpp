#include "test/gpu/ptx/Flow.h"
#include "test/gpu/ptx/Machine.h"
#include "test/gpu/ptx/Table.h"

#include <algorithm>
#include <sstream>

using namespace divisi::test::ptx;

namespace {
using Kind = Operand::Kind;

const Table &table() {
  static const Table known = [] {
    Table made;
    addFloats(made);
    addIntegers(made);
    addPredicates(made);
    addConversions(made);
    return made;
  }();
  return known;
}

std::vector<std::string> wordsOf(const std::string &opcode) {
  std::vector<std::string> words;
  std::istringstream in(opcode);
  for (std::string word; std::getline(in, word, '.');)
    words.push_back(word);
  return words;
}

class Decoder {
public:
  Decoder(const Kernel &kernel, const Text &text) : kernel(kernel), text(text) {}

  Program decode() {
    program.name = kernel.name;
    program.mostThreads = kernel.threads;
    program.parameters = (unsigned)kernel.parameters.size();
    program.constantsBegin = specialEnd;
    placeVariables();
    // Registers come after the constants, whose number is known at the end: first their places from zero.
    for (unsigned bytes : kernel.registers) {
      places.push_back(registersSize);
      registersSize += bytes == 0 ? laneBytes : bytes * warpSize;
    }
    for (const Statement &statement : kernel.statements) {
      now = &statement;
      program.codes.push_back(decodeStatement());
    }
    Code end;
    end.run = passEnd;
    end.line = kernel.line;
    program.codes.push_back(end);
    findMeetings();
    program.registersBegin = program.constantsBegin + (uint32_t)program.constants.size();
    program.registersEnd = program.registersBegin + registersSize;
    for (Code &code : program.codes)
      for (uint32_t *slot : {&code.d, &code.a, &code.b, &code.c, &code.guard, &code.parts[0], &code.parts[1],
                             &code.parts[2], &code.parts[3]})
        if (*slot != Code::none && *slot & isRegister)
          *slot = program.registersBegin + (*slot & ~isRegister);
    return std::move(program);
  }

private:
  static constexpr uint32_t laneBytes = 32, isRegister = 1u << 30;

  [[noreturn]] void fail(const std::string &what) const { throw Error(now->line, now->opcode + ": " + what); }

  void placeVariables() {
    uint64_t at = windowBegin, used = 0;
    auto place = [&](const Variable &variable) {
      at = (at + variable.alignment - 1) / variable.alignment * variable.alignment;
      program.shared.push_back(variable);
      program.sharedAt.push_back(at);
      at += variable.bytes;
      program.sharedEnd = at;
      at += 64; // what lies beyond one variable is in no other
      used += variable.bytes;
    };
    std::ranges::for_each(text.shared, place);
    std::ranges::for_each(kernel.shared, place);
    if (used > 48 << 10)
      throw Error(kernel.line, "more than 48 KiB of shared memory");
    for (const Variable &variable : kernel.local)
      program.localBytes += (variable.bytes + 15) / 16 * 16;
    for (const Statement &statement : kernel.statements)
      if (auto words = wordsOf(statement.opcode); words.size() > 2 && (words[1] == "shared" || words[1] == "global")) {
        unsigned &granule = words[1] == "shared" ? program.sharedGranule : program.globalGranule;
        granule = std::min(granule, bytesOf(words.back()));
      }
  }

  static unsigned bytesOf(const std::string &type) {
    return type.ends_with("8") ? 1 : type.ends_with("16") ? 2 : type.ends_with("32") ? 4 : 8;
  }
  unsigned expectType(const std::string &type) const {
    if (type.size() < 2 || std::string("busf").find(type[0]) == std::string::npos ||
        (type.substr(1) != "8" && type.substr(1) != "16" && type.substr(1) != "32" && type.substr(1) != "64"))
      fail("'" + type + "' is no type that is known");
    return bytesOf(type);
  }

  /// The place of a constant, the same in all lanes.
  uint32_t constant(uint64_t bits, unsigned bytes) {
    if (bytes == 0) { // a predicate
      bits = bits ? ~0ull : 0;
      bytes = 4;
    } else if (bytes < 8) {
      bits &= (1ull << (8 * bytes)) - 1;
    }
    auto [it, isNew] =
        constants.try_emplace({bits, bytes}, program.constantsBegin + (uint32_t)program.constants.size());
    if (isNew)
      for (unsigned lane = 0; lane < warpSize; ++lane)
        for (unsigned i = 0; i < bytes; ++i)
          program.constants.push_back((char)(bits >> (8 * i)));
    return it->second;
  }

  unsigned bytesOf(const Operand &operand) const { return kernel.registers[(size_t)operand.number]; }

  uint64_t addressOf(const std::string &name) const {
    for (size_t i = program.shared.size(); i-- > 0;)
      if (program.shared[i].name == name)
        return program.sharedAt[i];
    uint64_t at = windowBegin;
    for (const Variable &variable : kernel.local) {
      if (variable.name == name)
        return at;
      at += (variable.bytes + 15) / 16 * 16;
    }
    for (const Variable &variable : text.globals)
      if (variable.name == name)
        return (uint64_t)(uintptr_t)variable.contents.data();
    fail("'" + name + "' is not known");
  }

  uint32_t result(const Operand &operand, unsigned bytes) {
    if (operand.kind != Kind::reg || bytesOf(operand) != bytes)
      fail("the result is no register of " + std::to_string(8 * bytes) + " bits");
    return place(operand);
  }
  uint32_t place(const Operand &operand) const { return places[(size_t)operand.number] | isRegister; }

  /// The place of an operand; `larger` registers may be allowed.
  uint32_t source(const Operand &operand, unsigned bytes) {
    static const std::map<std::string, uint32_t> specials = {{"%tid.x", threadSlot},
                                                             {"%ctaid.x", blockSlot},
                                                             {"%ntid.x", threadsSlot},
                                                             {"%nctaid.x", blocksSlot},
                                                             {"%laneid", laneSlot}};
    if (operand.negated)
      fail("a negated operand is not known");
    switch (operand.kind) {
    case Kind::reg:
      if (bytesOf(operand) != bytes)
        fail(operand.name + " has " + std::to_string(8 * bytesOf(operand)) + " bits and not " +
             std::to_string(8 * bytes));
      return place(operand);
    case Kind::literal:
      if (operand.bytes != 0 && operand.bytes != bytes)
        fail("a constant of " + std::to_string(8 * operand.bytes) + " bits");
      return constant(operand.bits, bytes);
    case Kind::name:
      if (bytes != 8)
        fail("an address has 64 bits");
      return constant(addressOf(operand.name), 8);
    case Kind::special:
      if (auto it = specials.find(operand.name); it != specials.end() && bytes == 4)
        return it->second;
      fail("'" + operand.name + "' is not known");
    default:
      fail("an operand of a kind that is not known");
    }
  }

  uint32_t label(const std::string &name) const {
    auto it = kernel.labels.find(name);
    if (it == kernel.labels.end())
      fail("there is no label " + name);
    return (uint32_t)it->second;
  }
  void expectOperands(size_t count) const {
    if (now->operands.size() != count)
      fail(std::to_string(now->operands.size()) + " operands and not " + std::to_string(count));
  }

  Code decodeStatement() {
    Code code;
    code.line = now->line;
    code.statement = now;
    code.negated = now->negated;
    if (now->guard >= 0)
      code.guard = places[(size_t)now->guard] | isRegister;
    std::vector<std::string> words = wordsOf(now->opcode);
    const std::string &op = words[0];
    bool isMoveOfParts =
        op == "mov" && std::ranges::any_of(now->operands, [](const Operand &o) { return o.kind == Kind::list; });
    if (op == "bra" || op == "brx")
      decodeBranch(code, op == "brx");
    else if (op == "ret" || op == "exit")
      code.run = endThread;
    else if (now->opcode == "bar.sync" || now->opcode == "barrier.sync.aligned")
      decodeBarrier(code);
    else if (now->opcode == "bar.warp.sync")
      decodeWarpBarrier(code);
    else if (op == "shfl")
      decodeShuffle(code, words);
    else if (op == "ld" || op == "st")
      decodeAccess(code, words);
    else if (op == "cvt" && now->operands.size() != 3)
      decodeConversionOf(code);
    else if (isMoveOfParts)
      decodeParts(code, expectType(words.back()));
    else
      decodeFromTable(code);
    return code;
  }

  void decodeBranch(Code &code, bool byIndex) {
    code.run = byIndex ? branchByIndex : branch;
    expectOperands(byIndex ? 2 : 1);
    if (!byIndex) {
      code.targets = {label(now->operands[0].name)};
      return;
    }
    code.a = source(now->operands[0], 4);
    auto it = kernel.targets.find(now->operands[1].name);
    if (it == kernel.targets.end() || now->guard >= 0)
      fail("targets that are not known, or a condition");
    for (const std::string &name : it->second)
      code.targets.push_back(label(name));
  }
  void decodeBarrier(Code &code) {
    expectOperands(1);
    if (now->operands[0].kind != Kind::literal || now->operands[0].bits != 0)
      fail("only barrier 0 is known");
    code.run = barrier;
  }
  void decodeWarpBarrier(Code &code) {
    expectOperands(1);
    code.run = warpBarrier;
    code.a = source(now->operands[0], 4);
  }
  void decodeShuffle(Code &code, const std::vector<std::string> &words) {
    expectOperands(5);
    code.run = words.size() == 4 && words[1] == "sync" && words[3] == "b32" ? shuffleOf(words[2]) : nullptr;
    if (!code.run)
      fail("not known");
    code.d = result(now->operands[0], 4);
    code.a = source(now->operands[1], 4);
    code.b = source(now->operands[2], 4);
    code.c = source(now->operands[3], 4);
    code.parts[0] = source(now->operands[4], 4);
  }

  void decodeAccess(Code &code, const std::vector<std::string> &words) {
    static const std::map<std::string, Space> spaces = {
        {"global", Space::global}, {"shared", Space::shared}, {"local", Space::local}, {"param", Space::parameter}};
    expectOperands(2);
    bool writes = words[0] == "st";
    auto space = words.size() < 3 ? spaces.end() : spaces.find(words[1]);
    if (space == spaces.end())
      fail("addresses of a kind that is not known");
    for (size_t i = 2; i + 1 < words.size(); ++i)
      if (words[i] == "v2" || words[i] == "v4")
        code.count = words[i] == "v2" ? 2 : 4;
      else if (words[i] != "nc" && !words[i].starts_with("L1::") && !words[i].starts_with("L2::"))
        fail("'" + words[i] + "' is not known");
    code.isConstant = std::ranges::find(words, "nc") != words.end();
    code.bytes = (uint8_t)expectType(words.back());
    const Operand &address = now->operands[writes ? 0 : 1], &value = now->operands[writes ? 1 : 0];
    if (address.kind != Kind::address)
      fail("there is no address");
    std::vector<Operand> parts = value.kind == Kind::list ? value.parts : std::vector{value};
    if (parts.size() != code.count)
      fail(std::to_string(parts.size()) + " registers");
    // Constants are stored as what they are.
    unsigned registerBytes = std::max<unsigned>(code.bytes, 2);
    for (const Operand &part : parts)
      if (part.kind == Kind::reg)
        registerBytes = std::max(registerBytes, bytesOf(part));
    for (size_t i = 0; i < parts.size(); ++i)
      code.parts[i] = writes ? source(parts[i], registerBytes) : result(parts[i], registerBytes);
    code.run = accessOf(space->second, writes, words.back()[0] == 's', code.bytes, registerBytes);
    code.offset = address.offset;
    if (space->second != Space::parameter) {
      (writes ? code.d : code.a) = source(address.parts[0], 8);
      return;
    }
    auto name = std::ranges::find(kernel.parameters, address.parts[0].name);
    if (name == kernel.parameters.end() || address.offset != 0 || code.bytes != 8 || writes)
      fail("only whole parameters can be read");
    code.offset = name - kernel.parameters.begin();
    code.d = code.parts[0];
  }

  void decodeConversionOf(Code &code) {
    expectOperands(2);
    if (!decodeConversion(now->opcode, code))
      fail("not known");
    const Operand &to = now->operands[0], &from = now->operands[1];
    if (to.kind != Kind::reg || from.kind != Kind::reg || bytesOf(to) < std::max(code.parts[2], 2u) ||
        bytesOf(from) < std::max(code.parts[0], 2u))
      fail("the registers do not have the size of the numbers");
    code.to = (uint8_t)bytesOf(to);
    code.from = (uint8_t)bytesOf(from);
    code.d = place(to);
    code.a = place(from);
  }

  void decodeParts(Code &code, unsigned whole) {
    expectOperands(2);
    bool packs = now->operands[1].kind == Kind::list;
    const std::vector<Operand> &parts = now->operands[packs ? 1 : 0].parts;
    code.count = (uint8_t)std::min<size_t>(parts.size(), 5);
    unsigned bytes = whole / std::max<unsigned>(code.count, 1);
    code.run = packs ? packOf(whole, bytes) : unpackOf(whole, bytes);
    if (!code.run || code.count > 4)
      fail("not known");
    for (size_t i = 0; i < parts.size(); ++i)
      code.parts[i] = packs                         ? source(parts[i], bytes)
                      : parts[i].kind == Kind::sink ? Code::none
                                                    : result(parts[i], bytes);
    (packs ? code.d : code.a) = packs ? result(now->operands[0], whole) : source(now->operands[1], whole);
  }

  void decodeFromTable(Code &code) {
    auto it = table().find(now->opcode);
    if (it == table().end())
      fail("not known");
    const auto &[run, bytes] = it->second;
    expectOperands(bytes.size());
    code.run = run;
    code.d = result(now->operands[0], bytes[0]);
    uint32_t *slots[] = {&code.a, &code.b, &code.c};
    for (size_t i = 1; i < bytes.size(); ++i)
      *slots[i - 1] = source(now->operands[i], bytes[i]);
  }

  void findMeetings() {
    std::vector<std::vector<uint32_t>> successors(program.codes.size());
    for (uint32_t i = 0; i < program.codes.size(); ++i) {
      const Code &code = program.codes[i];
      successors[i] = code.targets;
      bool ends = code.run == endThread || code.run == passEnd || code.run == branch || code.run == branchByIndex;
      if (!ends || (code.guard != Code::none && code.run != passEnd))
        successors[i].push_back(i + 1);
    }
    std::vector<uint32_t> meet = immediatePostDominators(successors);
    for (uint32_t i = 0; i < program.codes.size(); ++i)
      program.codes[i].meet = meet[i] == program.codes.size() ? nowhere : meet[i];
  }

  const Kernel &kernel;
  const Text &text;
  const Statement *now = nullptr;
  Program program;
  std::vector<uint32_t> places; ///< of registers, from the first one
  uint32_t registersSize = 0;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants;
};
} // namespace

Program divisi::test::ptx::decode(const Kernel &kernel, const Text &text) { return Decoder(kernel, text).decode(); }
