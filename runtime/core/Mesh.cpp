#include "runtime/core/Mesh.h"

#include <algorithm>

using namespace divisi::runtime;

Mesh::Mesh(std::vector<Axis> axes, const std::vector<std::vector<int64_t>> &without) : axes_(std::move(axes)) {
  std::optional<int64_t> stage = stageAxis();
  if (!stage || std::all_of(without.begin(), without.end(), [](const auto &list) { return list.empty(); }))
    return;
  lacking = without;
  int64_t count = placeCount();
  ranks.resize(static_cast<size_t>(count));
  for (int64_t place = 0; place < count; ++place) {
    int64_t stands = place;
    auto of = static_cast<size_t>(place / stride(*stage) % axes_[static_cast<size_t>(*stage)].size);
    for (int64_t axis : lacking[of])
      stands -= place / stride(axis) % axes_[static_cast<size_t>(axis)].size * stride(axis);
    if (stands == place)
      places.push_back(place);
    // The representative of a position precedes it.
    ranks[static_cast<size_t>(place)] =
        stands == place ? static_cast<int64_t>(places.size()) - 1 : ranks[static_cast<size_t>(stands)];
  }
}

std::optional<int64_t> Mesh::find(std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == name)
      return static_cast<int64_t>(i);
  return std::nullopt;
}

int64_t Mesh::size() const { return places.empty() ? placeCount() : static_cast<int64_t>(places.size()); }

int64_t Mesh::placeCount() const {
  int64_t product = 1;
  for (const Axis &axis : axes_)
    product *= axis.size;
  return product;
}

int64_t Mesh::stride(int64_t axis) const {
  int64_t product = 1;
  for (auto i = static_cast<size_t>(axis) + 1; i < axes_.size(); ++i)
    product *= axes_[i].size;
  return product;
}

int64_t Mesh::index(int64_t rank, int64_t axis) const {
  return placeOf(rank) / stride(axis) % axes_[static_cast<size_t>(axis)].size;
}

int64_t Mesh::index(int64_t rank, std::span<const int64_t> axes) const {
  int64_t result = 0;
  for (int64_t axis : axes)
    result = result * axes_[static_cast<size_t>(axis)].size + index(rank, axis);
  return result;
}

int64_t Mesh::count(std::span<const int64_t> axes) const {
  int64_t product = 1;
  for (int64_t axis : axes)
    product *= axes_[static_cast<size_t>(axis)].size;
  return product;
}

std::vector<int> Mesh::group(int64_t rank, std::span<const int64_t> axes) const {
  int64_t first = placeOf(rank);
  for (int64_t axis : axes)
    first -= index(rank, axis) * stride(axis);
  std::vector<int64_t> members = {first};
  for (int64_t axis : axes) {
    std::vector<int64_t> longer;
    for (int64_t member : members)
      for (int64_t i = 0; i < axes_[static_cast<size_t>(axis)].size; ++i)
        longer.push_back(member + i * stride(axis));
    members = std::move(longer);
  }
  std::vector<int> result;
  for (int64_t member : members)
    if (int at = rankAtPlace(member); !isNarrow() || std::find(result.begin(), result.end(), at) == result.end())
      result.push_back(at);
  return result;
}

bool Mesh::has(int64_t stage, int64_t axis) const {
  if (lacking.empty())
    return true;
  const std::vector<int64_t> &list = lacking[static_cast<size_t>(stage)];
  return std::find(list.begin(), list.end(), axis) == list.end();
}

int Mesh::rankAt(std::span<const int64_t> indices) const {
  int64_t place = 0;
  for (size_t axis = 0; axis < axes_.size(); ++axis)
    place = place * axes_[axis].size + indices[axis];
  return rankAtPlace(place);
}

int Mesh::inStage(int64_t rank, int64_t stage) const {
  std::optional<int64_t> axis = stageAxis();
  return axis ? rankAtPlace(placeOf(rank) + (stage - index(rank, *axis)) * stride(*axis)) : static_cast<int>(rank);
}

int Mesh::inTurn(int64_t rank, int64_t stage, int64_t microbatch) const {
  std::optional<int64_t> axis = stageAxis();
  if (!axis)
    return static_cast<int>(rank);
  int64_t place = placeOf(rank) + (stage - index(rank, *axis)) * stride(*axis);
  for (std::optional<int64_t> turn : {turnsOf(index(rank, *axis)), turnsOf(stage)})
    if (turn)
      place -= place / stride(*turn) % axes_[static_cast<size_t>(*turn)].size * stride(*turn);
  if (std::optional<int64_t> turn = turnsOf(stage))
    place += microbatch % replicasOf(stage) * stride(*turn);
  return rankAtPlace(place);
}
