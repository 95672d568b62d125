#include "dialects/Dist/StageAxes.h"

#include "dialects/Dist/Dist.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;

static constexpr llvm::StringLiteral noAxis = "none";

StageAxes StageAxes::parse(StringRef text) {
  StageAxes result;
  for (StringRef entry : llvm::split(text, ',')) {
    std::vector<std::string> &list = result.lists.emplace_back();
    if (entry.trim() != noAxis)
      for (StringRef name : llvm::split(entry, '+'))
        list.push_back(name.trim().str());
  }
  return result;
}

std::string StageAxes::invalid(int64_t stages, const Mesh &mesh) const {
  if (lists.empty())
    return "";
  auto inner = llvm::make_filter_range(mesh.axes, [](const Mesh::Axis &axis) { return axis.name != stageAxis; });
  std::string example = inner.empty() ? "data" : (*inner.begin()).name;
  if ((int64_t)lists.size() != stages)
    return "expected the axes of " + std::to_string(stages) + " stages, or none for a stage of one device, such as " +
           example + ",none; got " + std::to_string(lists.size());
  for (const auto &list : lists)
    for (auto [i, name] : llvm::enumerate(list)) {
      if (name == stageAxis || !mesh.find(name))
        return "the mesh of a stage has no axis '" + name + "': expected the axes of each stage, or none, such as " +
               example + ",none";
      if (std::find(list.begin(), list.begin() + i, name) != list.begin() + i)
        return "the axis '" + name + "' is named twice for a stage";
    }
  for (const Mesh::Axis &axis : inner)
    if (llvm::none_of(lists, [&](const auto &list) { return llvm::is_contained(list, axis.name); }))
      return "no stage has the axis '" + axis.name + "' of the mesh: leave it out there";
  return "";
}

StageAxes StageAxes::of(Attribute attr) {
  StageAxes result;
  auto entries = dyn_cast_or_null<ArrayAttr>(attr);
  if (!entries)
    return {};
  for (Attribute entry : entries) {
    std::vector<std::string> &list = result.lists.emplace_back();
    auto names = dyn_cast<ArrayAttr>(entry);
    if (!names || !llvm::all_of(names, [](Attribute name) { return isa<StringAttr>(name); }))
      return {};
    for (auto name : names.getAsRange<StringAttr>())
      list.push_back(name.str());
  }
  return result;
}

StageAxes StageAxes::of(Operation *function) { return of(function->getDiscardableAttr(names::stageAxes)); }

bool StageAxes::has(int64_t stage, StringRef axis) const {
  return lists.empty() || llvm::is_contained(lists[stage % lists.size()], axis.str());
}

Axes StageAxes::lacking(int64_t stage, const Mesh &mesh) const {
  Axes result;
  for (auto [position, axis] : llvm::enumerate(mesh.axes))
    if (axis.name != stageAxis && !has(stage, axis.name))
      result.push_back(position);
  return result;
}

int64_t StageAxes::devices(int64_t stage, const Mesh &mesh) const {
  int64_t product = 1;
  for (const Mesh::Axis &axis : mesh.axes)
    if (axis.name != stageAxis && has(stage, axis.name))
      product *= axis.size;
  return product;
}

int64_t StageAxes::devicesBefore(int64_t stage, const Mesh &mesh) const {
  int64_t sum = 0;
  for (int64_t before = 0; before < stage; ++before)
    sum += devices(before, mesh);
  return sum;
}

static constexpr llvm::StringLiteral turnAxis = "turn";

bool StageAxes::isTurn(StringRef axis) {
  return axis.consume_front(turnAxis) && llvm::all_of(axis, [](char c) { return llvm::isDigit(c); });
}

StageAxes StageAxes::withTurns(ArrayRef<int64_t> replicas, Mesh &mesh) const {
  StageAxes result;
  std::vector<Mesh::Axis> turns;
  for (auto [stage, count] : llvm::enumerate(replicas)) {
    std::vector<std::string> &list = result.lists.emplace_back();
    if (count > 1) {
      auto known = llvm::find_if(turns, [count = count](const Mesh::Axis &axis) { return axis.size == count; });
      if (known == turns.end()) {
        std::string number = turns.empty() ? "" : std::to_string(turns.size() + 1);
        known = turns.insert(known, {turnAxis.str() + number, count});
      }
      list.push_back(known->name);
    }
    for (const Mesh::Axis &axis : mesh.axes)
      if (has(stage, axis.name))
        list.push_back(axis.name);
  }
  mesh.axes.insert(mesh.axes.begin(), turns.begin(), turns.end());
  return result;
}

bool StageAxes::takesTurns() const {
  return llvm::any_of(lists, [](const auto &list) { return llvm::any_of(list, isTurn); });
}

std::optional<int> StageAxes::turnsOf(int64_t stage, const Mesh &mesh) const {
  for (auto [position, axis] : llvm::enumerate(mesh.axes))
    if (isTurn(axis.name) && has(stage, axis.name))
      return position;
  return std::nullopt;
}

std::string StageAxes::text() const {
  std::string result;
  for (const auto &list : lists)
    result += (result.empty() ? "" : ",") + (list.empty() ? noAxis.str() : llvm::join(list, "+"));
  return result;
}

ArrayAttr StageAxes::toAttr(MLIRContext *context) const {
  Builder b(context);
  SmallVector<Attribute> entries;
  for (const auto &list : lists)
    entries.push_back(b.getStrArrayAttr(SmallVector<StringRef>(list.begin(), list.end())));
  return b.getArrayAttr(entries);
}
