#include "codegen/Emit/Calls.h"

#include "codegen/Emit/Services.h"
#include "codegen/Kernels/BatchKernels.h"
#include "codegen/Names.h"
#include "dialects/Dist/Buckets.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/Nodes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// The names of the nodes from which an operation, or the operations inside of it, were made.
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
  // The computation as a text, without places and names.
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Type type : kernel->getOperandTypes())
    out << type << ",";
  for (Operation &op : kernel.getBody().front()) {
    NamedAttrList attributes(op.getAttrDictionary());
    attributes.erase(graph::names::node);
    out << op.getName() << attributes.getDictionary(op.getContext());
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

void shape(step::Work &work, Operation *payload) {
  auto cost = dyn_cast<graph::CostInterface>(payload);
  auto rule = dyn_cast<dist::ShardingRuleInterface>(payload);
  if (!cost || !rule)
    return;
  work.form = cost.getForm();
  work.causal = payload->hasAttr(step::Work::causalAttribute);
  work.images = payload->hasAttr(step::Work::imagesAttribute);
  dist::ShardingRule factors = rule.getShardingRule();
  SmallVector<double> sizes;
  for (const auto &factor : factors.factors)
    sizes.push_back(factor.size);
  work.shapeBy(factors, sizes, graph::tensorType(payload->getResult(0)).getNumElements());
}

double rowSumsOf(exec::KernelOp kernel) {
  double sums = 0;
  for (auto op : kernel.getBody().getOps<graph::CostInterface>())
    if (op.getForm() == graph::Form::reduction) {
      step::Work work;
      shape(work, op);
      sums += work.rowSums;
    }
  return sums;
}

/// Adds a kernel that is launched together with the one before it.
void addTo(ProgramCall &call, exec::KernelOp kernel) {
  ProgramCall more = describe(kernel);
  call.work.flops += kernel.getFlops();
  call.work.bytes += kernel.getBytes();
  call.work.rowSums += rowSumsOf(kernel);
  call.key = keyOfKernel(call.key + more.key);
}

ProgramCall describe(exec::CallOp op, const dist::Mesh &mesh) {
  if (op.getAxes()) {
    ProgramCall call = callOf(op.getPayload(), op.getInputs(), mesh);
    call.id = *op.getId();
    return call;
  }
  if (op.isMessage()) // no key: the time of a message depends on when the other side is ready
    return {op.getPayload()->getName().stripDialect().str(), "", "", (int64_t)*op.getId()};
  auto service = serviceOf(op);
  if (failed(service))
    return {"call"};
  ProgramCall call{StringRef(service->service).drop_front(StringRef("divisi_").size()).str()};
  call.key = call.kind;
  for (int64_t word : service->params)
    call.key += " " + std::to_string(word);
  return call;
}

ProgramCall describe(exec::ItemInterface item, const dist::Mesh &mesh) {
  if (auto kernel = dyn_cast<exec::KernelOp>(*item))
    return describe(kernel);
  if (auto call = dyn_cast<exec::CallOp>(*item))
    return describe(call, mesh);
  if (auto await = dyn_cast<exec::AwaitOp>(*item))
    return {"await", "", "", (int64_t)await.getId()};
  return {"copy", "", "copy " + std::to_string(graph::bytesOf(item->getResult(0).getType()))};
}
} // namespace

ProgramCall codegen::callOf(Operation *collective, ValueRange inputs, const dist::Mesh &mesh) {
  ProgramCall call{dist::collectiveName(collective).str()};
  call.collective = true;
  call.packed = inputs.size() > 1;
  for (auto axis : collective->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>()) {
    call.axes.push_back(*mesh.find(axis.getValue()));
    call.group *= mesh.axes[call.axes.back()].size;
  }
  call.key = call.kind + " of " + std::to_string(call.group) + " ranks:";
  for (Value operand : inputs) {
    call.key += " " + std::to_string(graph::bytesOf(operand.getType()));
    call.work.bytes += graph::bytesOf(operand.getType());
  }
  return call;
}

std::vector<ProgramCall> codegen::callsOf(func::FuncOp task) {
  dist::Mesh mesh;
  if (auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
    mesh = dist::toMesh(attr);
  std::vector<ProgramCall> calls;
  for (auto item : task.getBody().front().getOps<exec::ItemInterface>()) {
    if (item.getWhen())
      continue;
    if (followsInBatch(item)) {
      addTo(calls.back(), cast<exec::KernelOp>(*item));
      continue;
    }
    ProgramCall &call = calls.emplace_back(describe(item, mesh));
    call.name = nameOf(*item);
    if (call.collective)
      continue;
    auto cost = cast<graph::CostInterface>(*item);
    call.work.flops = cost.getFlops();
    call.work.bytes = cost.getBytes();
    if (auto kernel = dyn_cast<exec::KernelOp>(*item))
      call.work.rowSums = rowSumsOf(kernel);
    if (auto library = dyn_cast<exec::CallOp>(*item)) {
      shape(call.work, library.getPayload());
      call.precision = graph::precisionOf(library.getPayload());
      call.operation = library.getPayload()->getName().getStringRef().str();
    }
  }
  return calls;
}
