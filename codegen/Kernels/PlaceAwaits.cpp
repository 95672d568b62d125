#include "codegen/Kernels/Passes.h"
#include "codegen/Names.h"
#include "dialects/Dist/Buckets.h"
#include "dialects/Exec/Exec.h"
#include "step/Buckets.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_PLACEAWAITSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// Describes a collective or message for diagnostics: "all_reduce of fc1.weight, fc1.bias".
std::string describe(exec::CallOp call) {
  SmallVector<StringRef> names;
  addNames(call.getLoc(), names);
  std::string text = dist::collectiveName(call.getPayload()).str();
  for (size_t i = 0; i < names.size() && i < 3; ++i)
    text += (i ? ", " : " of ") + names[i].str();
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

struct PlaceAwaitsPass : impl::PlaceAwaitsPassBase<PlaceAwaitsPass> {
  void runOnOperation() final {
    int64_t next = 0; // after the ids of messages, which sender and receiver share
    getOperation().walk([&](exec::CallOp call) {
      if (!call.communicates())
        return;
      call.setLabel(describe(call));
      if (IntegerAttr id = call.getMessageId()) {
        call.setIdAttr(id);
        next = std::max(next, id.getInt() + 1);
      }
    });
    for (auto task : getOperation().getOps<func::FuncOp>())
      if (!task.isDeclaration()) {
        SmallVector<exec::CallOp> collectives;
        for (auto call : task.getBody().front().getOps<exec::CallOp>())
          // A receive is awaited before its first use only: it may depend on messages that this device sends before.
          if (isa<dist::ReceiveOp>(call.getPayload()))
            place(call, nullptr);
          else if (call.communicates() && !call.isMessage())
            collectives.push_back(call);
        for (auto [i, call] : llvm::enumerate(collectives)) {
          call.setId(next++);
          place(call, i + step::mostUnderWay < collectives.size() ? collectives[i + step::mostUnderWay] : exec::CallOp());
        }
      }
  }

private:
  /// Inserts an await before the first user, or before `last` if that is earlier.
  static void place(exec::CallOp call, Operation *last) {
    Operation *first = call->getUsers().empty() ? call->getNextNode() : nullptr;
    for (Operation *user : call->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    if (last && last->isBeforeInBlock(first))
      first = last;
    SmallVector<Value> held(call.getInputs());
    llvm::append_range(held, call.getOutputs());
    OpBuilder builder(first);
    exec::AwaitOp::create(builder, call.getLoc(), *call.getId(), held, call.getWhenAttr());
  }
};
} // namespace
} // namespace divisi::codegen
