#include "dialects/Dist/MessageDims.h"

using namespace mlir;
using namespace divisi::dist;

/// Adds the axes of one side of a dimension; false if they are none, or one is there already.
static bool addDim(Attribute attr, const Mesh &mesh, Sharding &side) {
  auto list = dyn_cast<ArrayAttr>(attr);
  Axes axes;
  for (Attribute entry : list ? list.getValue() : ArrayRef<Attribute>()) {
    auto name = dyn_cast<StringAttr>(entry);
    auto axis = name && name.getValue() != stageAxis ? mesh.find(name.getValue()) : std::nullopt;
    if (!axis || side.splits(*axis) || llvm::is_contained(axes, *axis))
      return false;
    axes.push_back(*axis);
  }
  side.dims.push_back(axes);
  return list != nullptr;
}

std::optional<MessageDims> MessageDims::parse(ArrayAttr attr, const Mesh &mesh) {
  MessageDims result;
  for (Attribute entry : attr) {
    auto sides = dyn_cast<ArrayAttr>(entry);
    if (!sides || sides.size() != 2 || !addDim(sides[0], mesh, result.from) || !addDim(sides[1], mesh, result.to))
      return std::nullopt;
  }
  return result;
}

ArrayAttr MessageDims::toAttr(const Mesh &mesh, MLIRContext *context) const {
  Builder b(context);
  SmallVector<Attribute> entries;
  for (auto [sent, received] : llvm::zip(from.dims, to.dims))
    entries.push_back(b.getArrayAttr({axisNames(sent, mesh, context), axisNames(received, mesh, context)}));
  return b.getArrayAttr(entries);
}

SmallVector<int64_t> MessageDims::global(RankedTensorType local, const Sharding &side, const Mesh &mesh) {
  SmallVector<int64_t> shape(local.getShape());
  for (auto [size, axes] : llvm::zip(shape, side.dims))
    size *= mesh.parts(axes);
  return shape;
}
