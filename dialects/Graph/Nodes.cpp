#include "dialects/Graph/Nodes.h"

#include "dialects/Graph/Arguments.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

static StringAttr attributeOf(Operation *op) { return op->getAttrOfType<StringAttr>(names::node); }

/// The prefix of identities of operations at a location: the identity or role that the location holds, or a path and a
/// colon; empty if the location names nothing.
static std::string originOf(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return (name.getName().getValue() + ":").str();
  auto fused = dyn_cast<FusedLoc>(loc);
  if (!fused)
    return "";
  if (auto held = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
    return held.str();
  for (Location part : fused.getLocations())
    if (std::string origin = originOf(part); !origin.empty())
      return origin;
  return "";
}

/// Adds an identity or a role to a location.
static Location holding(StringAttr text, Location loc) {
  auto fused = dyn_cast<FusedLoc>(loc);
  if (fused && isa_and_nonnull<StringAttr>(fused.getMetadata()))
    loc = fused.getLocations().front();
  return FusedLoc::get({loc}, text, text.getContext());
}

static std::string below(StringRef origin, const Twine &part) {
  return (origin + (origin.ends_with(":") ? "" : ".") + part).str();
}

/// Whether the text that a location holds is an identity, as opposed to a role.
static bool isIdentity(StringRef text) {
  StringRef local = text.rsplit(':').second;
  size_t dot = local.rfind('.');
  StringRef last = dot == StringRef::npos ? local : local.substr(dot + 1);
  return !last.empty() && llvm::all_of(last, llvm::isDigit);
}

StringRef graph::nodeOf(Operation *op) {
  StringAttr node = attributeOf(op);
  return node ? node.getValue() : "";
}

std::string graph::pathOf(Operation *op) {
  if (StringAttr node = attributeOf(op))
    return node.getValue().rsplit(':').first.str();
  return pathOf(op->getLoc());
}

std::string graph::pathOf(Location loc) { return StringRef(originOf(loc)).rsplit(':').first.str(); }

Location graph::withRole(Location loc, StringRef role) {
  std::string origin = originOf(loc);
  return origin.empty() ? loc : holding(StringAttr::get(loc.getContext(), below(origin, role)), loc);
}

/// The identity of a constant's first user in its block, as the origin of the constant's identity; empty if there is no
/// user.
static std::string originOfConstant(Operation *constant) {
  Operation *first = nullptr;
  for (Operation *user : constant->getUsers())
    if (user->getBlock() == constant->getBlock() && attributeOf(user) && (!first || user->isBeforeInBlock(first)))
      first = user;
  return first ? below(nodeOf(first), "constant") : "";
}

void graph::nameNodes(Operation *function) {
  struct Derived {
    Operation *op;
    std::string origin;
  };
  llvm::DenseSet<StringAttr> taken;
  SmallVector<Derived> derived;
  SmallVector<Operation *> constants;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Operations that contain others (kernels, calls) have no identity of their own.
    if (!isa_and_present<GraphDialect, dist::DistDialect>(op->getDialect()))
      return;
    StringAttr node = attributeOf(op);
    if (node && taken.insert(node).second)
      return;
    std::string origin = originOf(op->getLoc());
    if (origin.empty() && node)
      origin = node.str();
    if (!origin.empty())
      derived.push_back({op, std::move(origin)});
    else if (matchPattern(op, m_Constant()))
      constants.push_back(op);
  });
  llvm::StringMap<Operation *> last;
  llvm::StringMap<int64_t> numbers;
  auto name = [&](Operation *op, StringRef origin) {
    auto text = [&](const Twine &identity) { return StringAttr::get(op->getContext(), identity); };
    StringAttr node = text(origin);
    if (!isIdentity(origin) || last.lookup(origin) != op || !taken.insert(node).second)
      do
        node = text(below(origin, Twine(numbers[origin]++)));
      while (!taken.insert(node).second);
    op->setAttr(names::node, node);
    op->setLoc(holding(node, op->getLoc()));
  };
  for (const Derived &entry : derived)
    last[entry.origin] = entry.op;
  for (const Derived &entry : derived)
    name(entry.op, entry.origin);
  for (Operation *op : constants)
    if (std::string origin = originOfConstant(op); !origin.empty())
      name(op, origin);
}

void graph::nameNodes(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    nameNodes(function);
}

/// Whether a location is only a position in a text.
static bool isParsed(Location loc) { return isa<FileLineColRange, UnknownLoc>(loc); }

void graph::adoptNodes(ModuleOp module) {
  auto named = [&](StringRef path, Location loc) {
    return NameLoc::get(StringAttr::get(module.getContext(), path), loc);
  };
  module.walk([&](Operation *op) {
    if (StringAttr node = attributeOf(op); node && isParsed(op->getLoc()))
      op->setLoc(holding(node, named(node.getValue().rsplit(':').first, op->getLoc())));
  });
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (StringRef name = nameOfArgument(argument); !name.empty() && isParsed(argument.getLoc()))
        argument.setLoc(named(name, argument.getLoc()));
}

Operation *graph::readerOf(Operation *op) {
  Operation *first = op;
  for (Operation *user : op->getUsers())
    if (!user->hasTrait<OpTrait::IsTerminator>() && (first == op || user->isBeforeInBlock(first)))
      first = user;
  return first;
}

HiddenNodes::HiddenNodes(Operation *root) : root(root) {
  root->walk([&](Operation *op) {
    DictionaryAttr before = op->getDiscardableAttrDictionary();
    if (op->removeDiscardableAttr(names::node))
      attributes[op] = before;
  });
}

HiddenNodes::~HiddenNodes() {
  root->walk([&](Operation *op) {
    if (DictionaryAttr before = attributes.lookup(op))
      op->setDiscardableAttrs(before);
  });
}
