#include "dialects/Dist/Dist.h"

#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

#include "dialects/Dist/DistEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"

using namespace mlir;
using namespace divisi::dist;

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
}

//===- #dist.mesh ---------------------------------------------------------===//

/// The largest number of devices of a mesh: far more than any machine has, and small enough that products do not
/// overflow.
static constexpr int64_t mostDevices = 1 << 20;

Attribute MeshAttr::parse(AsmParser &p, Type) {
  SMLoc loc = p.getCurrentLocation();
  SmallVector<StringAttr> axes;
  SmallVector<int64_t> sizes;
  auto one = [&]() -> ParseResult {
    std::string name;
    if (p.parseString(&name) || p.parseEqual() || p.parseInteger(sizes.emplace_back()))
      return failure();
    axes.push_back(StringAttr::get(p.getContext(), name));
    return success();
  };
  if (p.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, one))
    return {};
  return p.getChecked<MeshAttr>(loc, p.getContext(), axes, sizes);
}

void MeshAttr::print(AsmPrinter &p) const {
  p << "<";
  llvm::interleaveComma(llvm::zip(getAxes(), getSizes()), p.getStream(),
                        [&](auto pair) { p << std::get<0>(pair) << " = " << std::get<1>(pair); });
  p << ">";
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> error, ArrayRef<StringAttr> axes,
                               ArrayRef<int64_t> sizes) {
  if (axes.empty() || axes.size() != sizes.size())
    return error() << "a mesh needs at least one axis, each with a size";
  if (axes.size() > Axes::most)
    return error() << "a mesh has at most " << Axes::most << " axes, got " << axes.size();
  int64_t devices = 1;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis.getValue().empty() || llvm::is_contained(axes.take_front(i), axis))
      return error() << "axis " << axis << " of the mesh is repeated or has no name";
    if (sizes[i] < 1 || sizes[i] > mostDevices || (devices *= sizes[i]) > mostDevices)
      return error() << "axis " << axis << " of the mesh has the size " << sizes[i] << ", expected 1 to " << mostDevices
                     << " devices in all";
  }
  return success();
}

//===- #dist.shard --------------------------------------------------------===//

static ParseResult parseAxes(AsmParser &p, SmallVectorImpl<Attribute> &axes) {
  do {
    std::string name;
    if (p.parseString(&name))
      return failure();
    axes.push_back(StringAttr::get(p.getContext(), name));
  } while (succeeded(p.parseOptionalPlus()));
  return success();
}

Attribute ShardAttr::parse(AsmParser &p, Type) {
  SMLoc loc = p.getCurrentLocation();
  SmallVector<ArrayAttr> dims;
  SmallVector<Attribute> pending;
  ReductionKind kind = ReductionKind::sum;
  auto one = [&]() -> ParseResult {
    if (!pending.empty())
      return p.emitError(p.getCurrentLocation(), "the pending reduction comes last");
    SmallVector<Attribute> axes;
    StringRef word;
    if (succeeded(p.parseOptionalKeyword(&word)) && word != "_") {
      auto known = symbolizeReductionKind(word);
      if (!known)
        return p.emitError(loc, "expected '_', an axis, or a reduction, got '") << word << "'";
      kind = *known;
      return parseAxes(p, pending);
    }
    if (word != "_" && parseAxes(p, axes))
      return failure();
    dims.push_back(ArrayAttr::get(p.getContext(), axes));
    return success();
  };
  if (p.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, one))
    return {};
  return p.getChecked<ShardAttr>(loc, p.getContext(), dims, kind, ArrayAttr::get(p.getContext(), pending));
}

void ShardAttr::print(AsmPrinter &p) const {
  auto axes = [&](ArrayAttr list) {
    llvm::interleave(
        list, [&](Attribute a) { p << a; }, [&] { p << " + "; });
  };
  p << "<";
  llvm::interleaveComma(getDims(), p.getStream(), [&](ArrayAttr d) {
    if (d.empty())
      p << "_";
    else
      axes(d);
  });
  if (!getPending().empty()) {
    p << (getDims().empty() ? "" : ", ") << stringifyReductionKind(getKind()) << " ";
    axes(getPending());
  }
  p << ">";
}

LogicalResult ShardAttr::verify(function_ref<InFlightDiagnostic()> error, ArrayRef<ArrayAttr> dims, ReductionKind,
                                ArrayAttr pending) {
  SmallVector<Attribute> used;
  auto all = llvm::to_vector(dims);
  all.push_back(pending);
  for (ArrayAttr list : all)
    for (Attribute axis : list) {
      if (!isa<StringAttr>(axis))
        return error() << "an axis is a string, got " << axis;
      if (llvm::is_contained(used, axis))
        return error() << "axis " << axis << " is used twice in one sharding";
      used.push_back(axis);
    }
  if (used.empty())
    return error() << "a replicated tensor has no sharding: leave it out";
  auto byName = [](Attribute a, Attribute b) {
    return cast<StringAttr>(a).getValue() < cast<StringAttr>(b).getValue();
  };
  if (!llvm::is_sorted(pending.getValue(), byName))
    return error() << "pending axes must be in alphabetical order: one sharding, one spelling";
  return success();
}

LogicalResult ShardAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, function_ref<InFlightDiagnostic()> error) const {
  if (shape.size() != getDims().size())
    return error() << "sharding of " << getDims().size() << " dimensions on a tensor of rank " << shape.size();
  return success();
}
