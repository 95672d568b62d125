#include "dialects/Dist/ShardingRule.h"
#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Sync.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "dialects/Dist/DistDialect.cpp.inc"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;

namespace {
/// Prints `#data-_-sum-model` for #dist.shard<"data", _, sum "model">. Aliases are named by content, so that dumps can
/// be compared.
struct Aliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const final {
    auto shard = dyn_cast<ShardAttr>(attr);
    if (!shard)
      return AliasResult::NoAlias;
    auto axes = [&](ArrayAttr list) { // an alias may contain letters, digits and $_-
      if (list.empty())
        os << "_";
      llvm::interleave(
          list, [&](Attribute a) { os << cast<StringAttr>(a).getValue(); }, [&] { os << "$"; });
    };
    llvm::interleave(shard.getDims(), axes, [&] { os << "-"; });
    if (!shard.getPending().empty()) {
      os << (shard.getDims().empty() ? "" : "-") << stringifyReductionKind(shard.getKind()) << "-";
      axes(shard.getPending());
    }
    return AliasResult::FinalAlias;
  }
};
} // namespace

void DistDialect::initialize() {
  registerAttributes();
  registerOperations();
  addInterfaces<Aliases>();
}

/// Whether an operation may have operands and results of sharded types.
static bool knowsShardings(Operation *op) {
  return isa<ShardingRuleInterface, ReshardOp>(op) || op->hasTrait<OpTrait::IsTerminator>();
}

/// Verifies a function with `dist.mesh`: every operation inside with a sharded type must support shardings.
static LogicalResult verifyPlanned(Operation *op, MeshAttr attr) {
  Mesh mesh = toMesh(attr);
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitOpError("'dist.mesh' belongs on a function");
  if (op->hasAttr(names::partitioned))
    return op->emitOpError("is planned or partitioned, not both");
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && shardOf(tensor)) {
      if (failed(localType(tensor, mesh, [&] { return op->emitOpError("argument #") << i << ": "; })))
        return failure();
      if (!shardOf(tensor).getPending().empty())
        return op->emitOpError("argument #") << i << " may not be pending: " << tensor;
    }
  if (function.isExternal())
    return success();
  if (!llvm::hasSingleElement(function.getFunctionBody()) || function.getFunctionBody().front().empty())
    return op->emitOpError("'dist.mesh' belongs on a function of one block");
  for (Value result : function.getFunctionBody().front().back().getOperands())
    if (auto shard = shardOf(result.getType()); shard && !shard.getPending().empty())
      return op->emitOpError("returns a value that is pending: ") << result.getType();
  WalkResult walked = op->walk([&](Operation *inner) {
    auto sharded = [](Type type) { return (bool)shardOf(type); };
    if (knowsShardings(inner) ||
        (llvm::none_of(inner->getOperandTypes(), sharded) && llvm::none_of(inner->getResultTypes(), sharded)))
      return WalkResult::advance();
    inner->emitOpError("meets a sharded tensor, but has no sharding rule");
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

/// A limit far above any pipeline.
static constexpr int64_t mostStages = 65536;

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (attr.getName() == names::mesh || attr.getName() == names::partitioned) {
    auto mesh = dyn_cast<MeshAttr>(attr.getValue());
    if (!mesh)
      return op->emitOpError("'") << attr.getName().getValue() << "' must be a #dist.mesh, got " << attr.getValue();
    return attr.getName() == names::mesh ? verifyPlanned(op, mesh) : success();
  }
  if (attr.getName() == names::stage) {
    auto stage = dyn_cast<IntegerAttr>(attr.getValue());
    if (!stage || !stage.getType().isInteger(64) || stage.getInt() < 0 || stage.getInt() > mostStages)
      return op->emitOpError("'dist.stage' must be the number of a stage, got ") << attr.getValue();
    return success();
  }
  if (attr.getName() == names::stageAxes) {
    if (StageAxes::of(attr.getValue()).empty())
      return op->emitOpError("'dist.stage_axes' must be a list of lists of axes, one for each stage, got ")
             << attr.getValue();
    return success();
  }
  if (attr.getName() == names::sync || attr.getName() == names::syncMesh)
    if (!isa<ModuleOp>(op))
      return op->emitOpError("'") << attr.getName().getValue() << "' belongs on a module";
  if (attr.getName() == names::sync)
    return Sync::parse(attr.getValue(), [&] { return op->emitOpError(); });
  if (attr.getName() == names::syncMesh) {
    auto mesh = dyn_cast<MeshAttr>(attr.getValue());
    if (!mesh || !toMesh(mesh).find(replicaAxis))
      return op->emitOpError("'dist.sync_mesh' must be a #dist.mesh with the axis \"data\", got ") << attr.getValue();
    return success();
  }
  return op->emitOpError("unknown attribute '") << attr.getName().getValue() << "'";
}

MeshAttr dist::meshOf(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto mesh = dyn_cast_or_null<MeshAttr>(op->getDiscardableAttr(names::mesh)))
      return mesh;
  return {};
}

Mesh dist::toMesh(MeshAttr attr) {
  Mesh mesh;
  for (auto [name, size] : llvm::zip(attr.getAxes(), attr.getSizes()))
    mesh.axes.push_back({name.str(), size});
  return mesh;
}

MeshAttr dist::toAttr(const Mesh &mesh, MLIRContext *context) {
  SmallVector<StringAttr> axes;
  SmallVector<int64_t> sizes;
  for (const auto &axis : mesh.axes) {
    axes.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return MeshAttr::get(context, axes, sizes);
}

static Axes positions(ArrayAttr list, const Mesh &mesh) {
  Axes axes;
  for (Attribute axis : list)
    if (auto position = mesh.find(cast<StringAttr>(axis).getValue()))
      axes.push_back(*position);
  return axes;
}

Sharding dist::toSharding(RankedTensorType type, const Mesh &mesh) {
  Sharding sharding(type.getRank());
  auto shard = shardOf(type);
  if (!shard)
    return sharding;
  for (auto [d, axes] : llvm::enumerate(shard.getDims()))
    if (d < sharding.dims.size())
      sharding.dims[d] = positions(axes, mesh);
  sharding.pending = positions(shard.getPending(), mesh);
  llvm::sort(sharding.pending);
  sharding.kind = (Reduction)shard.getKind();
  return sharding;
}

ArrayAttr dist::axisNames(AxesRef axes, const Mesh &mesh, MLIRContext *context) {
  SmallVector<Attribute> names;
  for (int axis : axes)
    names.push_back(StringAttr::get(context, mesh.axes[axis].name));
  return ArrayAttr::get(context, names);
}

RankedTensorType dist::withSharding(RankedTensorType type, const Sharding &sharding, const Mesh &mesh) {
  if (sharding.replicated())
    return RankedTensorType::get(type.getShape(), type.getElementType());
  MLIRContext *context = type.getContext();
  SmallVector<ArrayAttr> dims;
  for (const Axes &axes : sharding.dims)
    dims.push_back(axisNames(axes, mesh, context));
  Axes pending = sharding.pending;
  llvm::sort(pending, [&](int a, int b) { return mesh.axes[a].name < mesh.axes[b].name; });
  auto shard = ShardAttr::get(context, dims, pending.empty() ? ReductionKind::sum : (ReductionKind)sharding.kind,
                              axisNames(pending, mesh, context));
  return RankedTensorType::get(type.getShape(), type.getElementType(), shard);
}

std::string dist::toText(AxesRef axes, const Mesh &mesh) {
  std::string text;
  for (int axis : axes)
    text += (text.empty() ? "\"" : " + \"") + mesh.axes[axis].name + "\"";
  return text.empty() ? "_" : text;
}

FailureOr<RankedTensorType> dist::localType(RankedTensorType type, const Mesh &mesh,
                                            function_ref<InFlightDiagnostic()> error) {
  auto shard = shardOf(type);
  if (!shard)
    return RankedTensorType::get(type.getShape(), type.getElementType());
  if (!type.hasStaticShape())
    return error() << "the size of a sharded tensor must be known: " << type, failure();
  // A type that was built without checks has not been verified before.
  if (failed(shard.verifyEncoding(type.getShape(), type.getElementType(), error)) ||
      failed(ShardAttr::verify(error, shard.getDims(), shard.getKind(), shard.getPending())))
    return failure();
  auto lists = llvm::to_vector(shard.getDims());
  lists.push_back(shard.getPending());
  for (ArrayAttr list : lists)
    for (Attribute axis : list)
      if (!mesh.find(cast<StringAttr>(axis).getValue()))
        return error() << "the mesh has no axis " << axis, failure();
  Sharding sharding = toSharding(type, mesh);
  SmallVector<int64_t> shape(type.getShape());
  for (auto [d, axes] : llvm::enumerate(sharding.dims)) {
    int64_t parts = mesh.parts(axes);
    if (shape[d] % parts)
      return error() << "dimension " << d << " of size " << shape[d] << " does not divide into " << parts
                     << " parts over " << toText(axes, mesh),
             failure();
    shape[d] /= parts;
  }
  return RankedTensorType::get(shape, type.getElementType());
}
