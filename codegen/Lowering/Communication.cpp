#include "codegen/Lowering/Families.h"
#include "dialects/Dist/Buckets.h"
#include "dialects/Dist/MessageDims.h"
#include "divisi/abi.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::dist;
using graph::tensorType;

namespace {

/// The tensor's extents as [outer, dimension, inner].
DivisiPart partOf(RankedTensorType type, int64_t dim) {
  auto shape = type.getShape();
  return {llvm::product_of(shape.take_front(dim)), shape[dim], 1, 1, llvm::product_of(shape.drop_front(dim + 1))};
}

/// The parameter block of a collective; its id is an attribute of the call.
FailureOr<LibraryCall> collective(Operation *op, int64_t kind, ArrayAttr axes, ArrayRef<DivisiPart> parts,
                                  int64_t reduction = 0, int64_t backward = 0, int64_t shift = 0) {
  Type element = tensorType(op->getOperand(0)).getElementType();
  auto type = typeCode(element);
  auto task = op->getParentOfType<func::FuncOp>();
  auto attr = task ? task->getAttrOfType<MeshAttr>(dist::names::partitioned) : MeshAttr();
  if (!type)
    return op->emitError("'") << op->getName() << "' cannot communicate elements of type " << element;
  if (!attr || axes.size() > DIVISI_MAX_AXES)
    return op->emitError("'") << op->getName() << "' is not in a partitioned function, or has too many axes";
  Mesh mesh = toMesh(attr);
  LibraryCall call{"divisi_collective", {0, kind, reduction, *type, backward, shift, (int64_t)axes.size()}};
  for (auto axis : axes.getAsRange<StringAttr>())
    call.params.push_back(*mesh.find(axis.getValue()));
  call.params.append(DIVISI_MAX_AXES - axes.size(), 0);
  call.params.push_back(parts.size());
  for (const DivisiPart &part : parts)
    call.params.append({part.outer, part.first, part.middle, part.second, part.inner});
  return call;
}

struct AllReduce : LibraryInterface::ExternalModel<AllReduce, AllReduceOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto reduce = cast<AllReduceOp>(op);
    SmallVector<DivisiPart> parts;
    for (Value input : reduce.getInputs())
      parts.push_back({1, tensorType(input).getNumElements(), 1, 1, 1});
    return collective(op, DIVISI_ALL_REDUCE, reduce.getAxes(), parts, (int64_t)reduce.getKind());
  }
};

struct AllGather : LibraryInterface::ExternalModel<AllGather, AllGatherOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto gather = cast<AllGatherOp>(op);
    return collective(op, DIVISI_ALL_GATHER, gather.getAxes(), partOf(tensorType(gather.getInput()), gather.getDim()));
  }
};

struct ReduceScatter : LibraryInterface::ExternalModel<ReduceScatter, ReduceScatterOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto scatter = cast<ReduceScatterOp>(op);
    return collective(op, DIVISI_REDUCE_SCATTER, scatter.getAxes(),
                      partOf(tensorType(scatter.getInput()), scatter.getDim()), (int64_t)scatter.getKind());
  }
};

/// The parts of a bucket of these, one for each operand.
SmallVector<DivisiPart> partsOf(ValueRange inputs, ArrayRef<int64_t> dims) {
  SmallVector<DivisiPart> parts;
  for (auto [input, dim] : llvm::zip(inputs, dims))
    parts.push_back(partOf(tensorType(input), dim));
  return parts;
}

struct AllGathers : LibraryInterface::ExternalModel<AllGathers, AllGathersOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto gathers = cast<AllGathersOp>(op);
    return collective(op, DIVISI_ALL_GATHER, gathers.getAxes(), partsOf(gathers.getInputs(), gathers.getDims()));
  }
};

struct ReduceScatters : LibraryInterface::ExternalModel<ReduceScatters, ReduceScattersOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto scatters = cast<ReduceScattersOp>(op);
    return collective(op, DIVISI_REDUCE_SCATTER, scatters.getAxes(), partsOf(scatters.getInputs(), scatters.getDims()),
                      (int64_t)scatters.getKind());
  }
};

struct AllToAll : LibraryInterface::ExternalModel<AllToAll, AllToAllOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto exchange = cast<AllToAllOp>(op);
    int64_t gathered = exchange.getGatherDim(), split = exchange.getSplitDim();
    bool backward = gathered > split;
    int64_t first = std::min(gathered, split), second = std::max(gathered, split);
    auto shape = tensorType(exchange.getInput()).getShape();
    DivisiPart part = {llvm::product_of(shape.take_front(first)), shape[first],
                       llvm::product_of(shape.slice(first + 1, second - first - 1)), shape[second],
                       llvm::product_of(shape.drop_front(second + 1))};
    return collective(op, DIVISI_ALL_TO_ALL, exchange.getAxes(), part, 0, backward);
  }
};

struct Permute : LibraryInterface::ExternalModel<Permute, PermuteOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto permute = cast<PermuteOp>(op);
    DivisiPart part = {1, tensorType(permute.getInput()).getNumElements(), 1, 1, 1};
    return collective(op, DIVISI_PERMUTE, permute.getAxes(), part, 0, 0, permute.getShift());
  }
};

/// The parameter block of a message. Dimensions that neither side shards are joined.
template <typename OpT> FailureOr<LibraryCall> message(OpT op, StringRef service, RankedTensorType type, bool sends) {
  LibraryCall call{service.str(), {(int64_t)op.getId(), (int64_t)op.getStage(), graph::bytesOf(type), 0}};
  if (!op.getDims())
    return call;
  auto task = op->template getParentOfType<func::FuncOp>();
  Mesh mesh = toMesh(task->template getAttrOfType<MeshAttr>(dist::names::partitioned)); // (verified)
  MessageDims dims = *MessageDims::parse(*op.getDims(), mesh);
  auto extents = MessageDims::global(type, sends ? dims.from : dims.to, mesh);
  extents.push_back(graph::bytesOf(RankedTensorType::get({1}, type.getElementType())));
  struct Dim {
    int64_t extent;
    Axes from, to;
    bool isWhole() const { return from.empty() && to.empty(); }
  };
  SmallVector<Dim> joined;
  for (auto [d, extent] : llvm::enumerate(extents)) {
    bool isLast = d == dims.from.dims.size(); // the bytes of an element
    Dim dim = isLast ? Dim{extent, {}, {}} : Dim{extent, dims.from.dims[d], dims.to.dims[d]};
    if (!joined.empty() && (isLast || (dim.isWhole() && joined.back().isWhole())))
      joined.back().extent *= extent;
    else
      joined.push_back(dim);
  }
  call.params.back() = joined.size();
  for (const Dim &dim : joined) {
    call.params.push_back(dim.extent);
    for (const Axes *axes : {&dim.from, &dim.to}) {
      if (axes->size() > DIVISI_MAX_AXES)
        return op->emitOpError("has a dimension of more than ") << DIVISI_MAX_AXES << " axes";
      call.params.push_back(axes->size());
      call.params.append(axes->begin(), axes->end());
      call.params.append(DIVISI_MAX_AXES - axes->size(), 0);
    }
  }
  return call;
}

struct Send : LibraryInterface::ExternalModel<Send, SendOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    return message(cast<SendOp>(op), "divisi_send", tensorType(op->getOperand(0)), true);
  }
};

struct Receive : LibraryInterface::ExternalModel<Receive, ReceiveOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    return message(cast<ReceiveOp>(op), "divisi_receive", tensorType(op->getResult(0)), false);
  }
};
} // namespace

void codegen::attachCommunication(MLIRContext *context) {
  AllReduceOp::attachInterface<AllReduce>(*context);
  AllGatherOp::attachInterface<AllGather>(*context);
  ReduceScatterOp::attachInterface<ReduceScatter>(*context);
  AllGathersOp::attachInterface<AllGathers>(*context);
  ReduceScattersOp::attachInterface<ReduceScatters>(*context);
  AllToAllOp::attachInterface<AllToAll>(*context);
  PermuteOp::attachInterface<Permute>(*context);
  SendOp::attachInterface<Send>(*context);
  ReceiveOp::attachInterface<Receive>(*context);
}
