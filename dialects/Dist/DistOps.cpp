#include "dialects/Dist/Buckets.h"
#include "dialects/Dist/MessageDims.h"
#include "dialects/Dist/Plan.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include "llvm/Support/MathExtras.h"

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistPlan.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistBuckets.cpp.inc"

using namespace mlir;
using namespace divisi::dist;

void DistDialect::registerOperations() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistPlan.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistBuckets.cpp.inc"
      >();
}

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

//===- reshard ------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  auto from = typeOf(getInput()), to = typeOf(getResult());
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return emitOpError("constraint 1: changes more than the sharding: ") << from << " to " << to;
  MeshAttr attr = meshOf(*this);
  if (!attr)
    return emitOpError("constraint 2: is not in a function with a mesh ('dist.mesh')");
  Mesh mesh = toMesh(attr);
  for (auto type : {from, to})
    if (failed(localType(type, mesh, [&] { return emitOpError("constraint 3: "); })))
      return failure();
  Sharding before = toSharding(from, mesh), after = toSharding(to, mesh);
  for (int axis : after.pending)
    if (!llvm::is_contained(before.pending, axis) || before.kind != after.kind)
      return emitOpError("constraint 4: cannot make a value pending over \"") << mesh.axes[axis].name << "\"";
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) { return getInput().getType() == getType() ? getInput() : OpFoldResult(); }

//===- pipelines ----------------------------------------------------------===//

/// The largest number of minibatches in flight in an asynchronous schedule.
static constexpr int64_t mostInFlight = 4096;

LogicalResult ScheduleOp::verify() {
  if (getMicrobatches() < 1)
    return emitOpError("constraint 1: expected at least one microbatch");
  for (Attribute row : getRows()) {
    auto entries = dyn_cast<ArrayAttr>(row);
    if (!entries)
      return emitOpError("constraint 2: expected rows of texts such as \"0.forward 1\"");
    for (Attribute entry : entries) {
      auto text = dyn_cast<StringAttr>(entry);
      auto [task, number] = text ? text.getValue().split(' ') : std::pair<StringRef, StringRef>();
      int64_t microbatch;
      bool isNumber = !task.empty() && !number.getAsInteger(10, microbatch);
      if (!isNumber || (isAsynchronous() ? std::abs(microbatch) > mostInFlight
                                         : microbatch < 0 || microbatch >= (int64_t)getMicrobatches()))
        return emitOpError(
                   "constraint 3: expected a task and the number of a microbatch, such as \"0.forward 1\", got ")
               << entry;
    }
  }
  return success();
}

/// The mesh of the enclosing partitioned function; null if there is none.
static MeshAttr partitionedMesh(Operation *op) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  return function ? function->getAttrOfType<MeshAttr>(names::partitioned) : MeshAttr();
}

/// Verifies the shardings of a message of a value of this rank.
static FailureOr<MessageDims> verifyDims(Operation *op, ArrayAttr dims, RankedTensorType type, StringRef constraints) {
  MeshAttr mesh = partitionedMesh(op);
  int64_t rank = type.getRank();
  if (!mesh)
    return op->emitOpError("constraint ") << constraints << ": is not in a partitioned function ('dist.partitioned')";
  auto parsed = MessageDims::parse(dims, toMesh(mesh));
  int64_t bytes = 16; // of an element, at most
  for (int64_t size : type.getShape())
    if (ShapedType::isDynamic(size) || llvm::MulOverflow(bytes, std::max<int64_t>(1, size), bytes) ||
        llvm::MulOverflow(bytes, std::max<int64_t>(1, toMesh(mesh).devices()), bytes))
      return op->emitOpError("constraint ") << constraints << ": expected sizes that are known, and not as large as those of "
                                            << type;
  if (!parsed || (int64_t)parsed->from.dims.size() != rank)
    return op->emitOpError("constraint ")
           << constraints << ": expected, for each of " << rank
           << " dimensions, the axes of senders and of receivers, such as [[\"data\"], []], got " << dims;
  return *parsed;
}

LogicalResult TransferOp::verify() {
  auto from = typeOf(getInput()), to = typeOf(getResult());
  if (!partitionedMesh(*this))
    return emitOpError("constraint 1: is not in a partitioned function ('dist.partitioned')");
  auto dims = verifyDims(*this, getDims(), from, "2");
  if (failed(dims))
    return failure();
  Mesh mesh = toMesh(partitionedMesh(*this));
  if (from.getElementType() != to.getElementType() ||
      dims->global(from, dims->from, mesh) != dims->global(to, dims->to, mesh))
    return emitOpError("constraint 3: expected shards of one value, got ") << from << " and " << to;
  return success();
}
LogicalResult SendOp::verify() {
  return success(!getDims() || succeeded(verifyDims(*this, *getDims(), typeOf(getInput()), "2")));
}
LogicalResult ReceiveOp::verify() {
  return success(!getDims() || succeeded(verifyDims(*this, *getDims(), typeOf(getResult()), "2")));
}

//===- collectives --------------------------------------------------------===//

/// The number of devices of the group; fails with an error at the operation.
static FailureOr<int64_t> groupSize(Operation *op, ArrayAttr axes) {
  MeshAttr attr = partitionedMesh(op);
  if (!attr)
    return op->emitOpError("constraint 1: is not in a partitioned function ('dist.partitioned')");
  Mesh mesh = toMesh(attr);
  Axes list;
  for (auto axis : axes.getAsRange<StringAttr>()) {
    auto position = mesh.find(axis.getValue());
    if (!position || llvm::is_contained(list, *position))
      return op->emitOpError("constraint 2: the mesh has no axis ") << axis << ", or it is named twice";
    list.push_back(*position);
  }
  if (list.empty())
    return op->emitOpError("constraint 2: needs at least one axis");
  return mesh.parts(list);
}

/// Verifies that `to` is `from` with dimension `dim` multiplied by `times` and divided by `by`.
static LogicalResult verifyScaled(Operation *op, RankedTensorType from, RankedTensorType to, int64_t dim, int64_t times,
                                  int64_t by) {
  SmallVector<int64_t> shape(from.getShape());
  if (dim < 0 || dim >= from.getRank())
    return op->emitOpError("constraint 3: dim ") << dim << " is out of range for " << from;
  if (shape[dim] % by)
    return op->emitOpError("constraint 5: dimension ")
           << dim << " of " << from << " does not divide into " << by << " parts";
  shape[dim] = shape[dim] * times / by;
  if (ArrayRef<int64_t>(shape) != to.getShape() || from.getElementType() != to.getElementType())
    return op->emitOpError("constraint 4: expected a result of shape ")
           << RankedTensorType::get(shape, from.getElementType()) << ", got " << to;
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (getInputs().empty() || getInputs().size() != getResults().size())
    return emitOpError("constraint 3: expected as many results as operands, at least one");
  for (auto [in, out] : llvm::zip(getInputs(), getResults()))
    if (in.getType() != out.getType() || typeOf(in).getElementType() != typeOf(getInputs()[0]).getElementType())
      return emitOpError("constraint 4: expected results of the operands' types, and one element type");
  return success(succeeded(groupSize(*this, getAxes())));
}
LogicalResult AllGatherOp::verify() {
  auto size = groupSize(*this, getAxes());
  return failed(size) ? failure() : verifyScaled(*this, typeOf(getInput()), typeOf(getResult()), getDim(), *size, 1);
}
LogicalResult ReduceScatterOp::verify() {
  auto size = groupSize(*this, getAxes());
  return failed(size) ? failure() : verifyScaled(*this, typeOf(getInput()), typeOf(getResult()), getDim(), 1, *size);
}

/// Verifies that each result is its operand with its dimension multiplied by `times` and divided by `by`.
static LogicalResult verifyBucket(Operation *op, ArrayRef<int64_t> dims, int64_t times, int64_t by) {
  if (dims.empty() || op->getNumOperands() != dims.size() || op->getNumResults() != dims.size())
    return op->emitOpError("constraint 3: expected as many results and dims as operands, at least one");
  for (auto [in, out, dim] : llvm::zip(op->getOperands(), op->getResults(), dims)) {
    if (typeOf(in).getElementType() != typeOf(op->getOperand(0)).getElementType())
      return op->emitOpError("constraint 3: expected operands of one element type");
    if (failed(verifyScaled(op, typeOf(in), typeOf(out), dim, times, by)))
      return failure();
  }
  return success();
}
LogicalResult AllGathersOp::verify() {
  auto size = groupSize(*this, getAxes());
  return failed(size) ? failure() : verifyBucket(*this, getDims(), *size, 1);
}
LogicalResult ReduceScattersOp::verify() {
  auto size = groupSize(*this, getAxes());
  return failed(size) ? failure() : verifyBucket(*this, getDims(), 1, *size);
}
LogicalResult AllToAllOp::verify() {
  auto size = groupSize(*this, getAxes());
  if (failed(size))
    return failure();
  auto from = typeOf(getInput());
  int64_t gathered = getGatherDim();
  if (gathered < 0 || gathered >= from.getRank() || gathered == (int64_t)getSplitDim())
    return emitOpError("constraint 3: expected two different dimensions of ") << from;
  SmallVector<int64_t> shape(from.getShape());
  shape[gathered] *= *size;
  return verifyScaled(*this, RankedTensorType::get(shape, from.getElementType()), typeOf(getResult()), getSplitDim(), 1,
                      *size);
}
LogicalResult PermuteOp::verify() {
  if (getInput().getType() != getResult().getType())
    return emitOpError("constraint 3: expected a result of the operand's type");
  return success(succeeded(groupSize(*this, getAxes())));
}
