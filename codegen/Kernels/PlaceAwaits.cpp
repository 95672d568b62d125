#include "codegen/Kernels/Passes.h"
#include "codegen/Names.h"
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_PLACEAWAITSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// What a collective is, for messages: "all_reduce of fc1.weight, fc1.bias".
std::string describe(exec::CallOp call, StringRef kind) {
  SmallVector<StringRef> names;
  addNames(call.getLoc(), names);
  std::string text = kind.str();
  for (size_t i = 0; i < names.size() && i < 3; ++i)
    text += (i ? ", " : " of ") + names[i].str();
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

/// How many collectives may be under way: each keeps its operands and results in memory.
constexpr size_t mostUnderWay = 4;

struct PlaceAwaitsPass : impl::PlaceAwaitsPassBase<PlaceAwaitsPass> {
  void runOnOperation() final {
    int64_t next = 0; // behind the numbers of messages, which both sides know
    getOperation().walk([&](exec::CallOp call) {
      if (isMessage(call))
        next = std::max(next, call.getParams()[0] + 1);
    });
    for (auto task : getOperation().getOps<func::FuncOp>())
      if (!task.isDeclaration()) {
        SmallVector<exec::CallOp> calls;
        for (auto call : task.getBody().front().getOps<exec::CallOp>())
          if (call.getService() == "divisi_send")
            setName(call);
          else if (call.getService() ==
                   "divisi_receive") // never before somebody needs it: it may depend on what is sent until then
            place(call, call.getParams()[0], nullptr);
          else if (call->hasAttr(exec::names::collective) && !call.getParams().empty())
            calls.push_back(call);
        for (auto [i, call] : llvm::enumerate(calls))
          place(call, next++, i + mostUnderWay < calls.size() ? calls[i + mostUnderWay] : exec::CallOp());
      }
  }

private:
  static bool isMessage(exec::CallOp call) {
    return call.getService() == "divisi_send" || call.getService() == "divisi_receive";
  }
  static void setName(exec::CallOp call) {
    auto kind = call->getAttrOfType<StringAttr>(exec::names::collective);
    call->setAttr(exec::names::collective, StringAttr::get(call.getContext(), describe(call, kind.getValue())));
  }

  /// Before the first user, or before `last` if that comes earlier.
  static void place(exec::CallOp call, int64_t id, Operation *last) {
    SmallVector<int64_t> params(call.getParams());
    params[0] = id;
    call.setParams(params);
    setName(call);
    Operation *first = call->getUsers().empty() ? call->getNextNode() : nullptr;
    for (Operation *user : call->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    if (last && last->isBeforeInBlock(first))
      first = last;
    SmallVector<Value> held(call.getInputs());
    llvm::append_range(held, call.getOutputs());
    OpBuilder builder(first);
    auto await = exec::AwaitOp::create(builder, call.getLoc(), id, held);
    if (auto when = call->getAttr(exec::names::when))
      await->setAttr(exec::names::when, when);
  }
};
} // namespace
} // namespace divisi::codegen
