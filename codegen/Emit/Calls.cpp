#include "codegen/Emit/Calls.h"

#include "codegen/Kernels/BatchKernels.h"
#include "codegen/Names.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"
#include "divisi/abi.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// The nodes that an operation, or what is inside of it, comes from.
std::string nameOf(Operation &op) {
  SmallVector<StringRef> names;
  op.walk([&](Operation *inner) { addNames(inner->getLoc(), names); });
  return llvm::join(ArrayRef<StringRef>(names).take_front(3), " ");
}

std::string keyOfKernel(StringRef text) {
  return "kernel " + llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, 16);
}

ProgramCall describe(exec::KernelOp kernel) {
  ProgramCall call{"kernel"};
  for (Operation &op : kernel.getBody().front())
    if (auto cost = dyn_cast<graph::CostInterface>(op))
      call.flops += cost.getFlops();
  // What it computes, without places and names.
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Type type : kernel->getOperandTypes())
    out << type << ",";
  for (Operation &op : kernel.getBody().front()) {
    out << op.getName() << op.getAttrDictionary();
    for (Type type : op.getResultTypes())
      out << type;
    for (Value operand : op.getOperands()) {
      Operation *producer = operand.getDefiningOp();
      out << (producer ? numbers.lookup(producer) : -1 - (int64_t)cast<BlockArgument>(operand).getArgNumber()) << ",";
    }
    numbers.try_emplace(&op, numbers.size());
  }
  call.key = keyOfKernel(text);
  return call;
}

/// A kernel that is launched with the one before it.
void addTo(ProgramCall &call, exec::KernelOp kernel) {
  ProgramCall more = describe(kernel);
  call.flops += more.flops;
  call.bytes += graph::bytesOfTypes(kernel);
  call.key = keyOfKernel(call.key + more.key);
}

const char *kindOf(int64_t collective) {
  static constexpr const char *names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"};
  return collective >= 0 && collective < 5 ? names[collective] : "collective";
}

ProgramCall describe(exec::CallOp op, const dist::Mesh &mesh) {
  ArrayRef<int64_t> params = op.getParams();
  ProgramCall call{op.getService().str()};
  if (StringRef(call.kind).starts_with("divisi_"))
    call.kind = call.kind.substr(7);
  if (call.kind == "collective") {
    // As DivisiCollective has them: id, kind, reduction, type, backward, shift, axis_count, axes, part_count, parts.
    call.collective = true;
    call.id = params[0];
    call.kind = kindOf(params[1]);
    for (int64_t axis : params.slice(7, params[6]))
      call.group *= mesh.axes[axis].size;
    call.key = call.kind + " of " + std::to_string(call.group) + " ranks:";
    for (Value operand : op->getOperands())
      call.key += " " + std::to_string(graph::bytesOf(operand.getType()));
    return call;
  }
  if (call.kind == "send" || call.kind == "receive") { // as DivisiTransfer has it: id, stage, bytes
    call.id = params[0]; // (no key: what a message takes depends on when the other side is ready)
    return call;
  }
  call.key = call.kind;
  for (int64_t word : params)
    call.key += " " + std::to_string(word);
  if (call.kind == "gemm") {
    call.flops = 2.0 * params[0] * params[1] * params[2] * params[3] * params[4];
  } else if (call.kind == "gemm_epilogue") {
    call.flops = 2.0 * params[0] * params[1] * params[2];
  } else if (StringRef(call.kind).starts_with("conv")) {
    DivisiConv conv;
    std::memcpy(&conv, params.data(), std::min(sizeof conv, params.size() * sizeof(int64_t)));
    call.flops = 2.0 * conv.batch * conv.out_channels * conv.in_channels / std::max<int64_t>(1, conv.groups);
    for (int64_t d = 0; d < conv.spatial; ++d)
      call.flops *= (double)conv.out[d] * conv.kernel[d];
  }
  return call;
}
} // namespace

std::vector<ProgramCall> codegen::callsOf(func::FuncOp task) {
  dist::Mesh mesh;
  if (auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
    mesh = dist::toMesh(attr);
  std::vector<ProgramCall> calls;
  for (Operation &op : task.getBody().front()) {
    if (op.hasAttr(exec::names::when) || !isa<exec::KernelOp, exec::CallOp, exec::CopyOp, exec::AwaitOp>(op))
      continue;
    if (followsInBatch(&op)) {
      addTo(calls.back(), cast<exec::KernelOp>(op));
      continue;
    }
    ProgramCall call;
    if (auto kernel = dyn_cast<exec::KernelOp>(op))
      call = describe(kernel);
    else if (auto service = dyn_cast<exec::CallOp>(op))
      call = describe(service, mesh);
    else if (auto await = dyn_cast<exec::AwaitOp>(op))
      call = {"await", "", "", (int64_t)await.getId()};
    else
      call = {"copy", "", "copy " + std::to_string(graph::bytesOf(op.getResult(0).getType()))};
    call.name = nameOf(op);
    if (call.kind != "await") {
      for (Type type : op.getOperandTypes())
        call.bytes += graph::bytesOf(type);
      if (!call.collective)
        for (Value result : op.getResults().drop_back(op.hasAttr(exec::names::workspace)))
          call.bytes += graph::bytesOf(result.getType());
    }
    calls.push_back(std::move(call));
  }
  return calls;
}
