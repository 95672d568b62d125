#include "compiler/Report/Calls.h"

#include "compiler/Report/Lines.h"
#include "compiler/Report/Numbers.h"

using namespace divisi;
using namespace divisi::compiler;
using planning::StepCall;
namespace json = llvm::json;

std::vector<StepCall> compiler::callsOf(const Expectation &program) {
  std::vector<StepCall> result;
  for (auto [call, microseconds, times] : llvm::zip(program.calls, program.microseconds, program.times))
    if (call.kind != "await" && call.kind != "receive" && times > 0)
      result.push_back({call.operation.empty() ? call.kind : call.operation, call.name, call.work.flops, call.work.bytes,
                        microseconds * 1e-6, call.collective || call.kind == "send", times});
  return result;
}

json::Array compiler::describeCalls(const std::vector<StepCall> &calls) {
  json::Array list;
  for (const StepCall &call : calls)
    list.push_back(json::Object{{"kind", call.kind},
                                {"name", json::fixUTF8(call.name)},
                                {"stream", call.communicates ? "communication" : "computation"},
                                {"flops", call.flops},
                                {"bytes", call.bytes},
                                {"ms", call.seconds * 1e3},
                                {"times", call.times}});
  return list;
}

void compiler::printCalls(const json::Array &calls, llvm::raw_ostream &out) {
  out << "\ncalls of a step, in order:\n";
  row(out, {{"us", -9}, {"times", -6}, {"FLOP", -9}, {"bytes", -9}, {"", 1}, {"call", 22}, {"nodes", 0}});
  for (const json::Value &value : calls) {
    const json::Object &call = *value.getAsObject();
    row(out, {{digits(number(call, "ms") * 1e3), -9},
              {std::to_string((int64_t)number(call, "times")), -6},
              {scaled(number(call, "flops"), ""), -9},
              {scaled(number(call, "bytes"), "B"), -9},
              {text(call, "stream") == "communication" ? "|" : "", 1},
              {text(call, "kind"), 22},
              {text(call, "name"), 0}});
  }
}
