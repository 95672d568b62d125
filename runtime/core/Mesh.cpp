#include "runtime/core/Mesh.h"

using namespace divisi::runtime;

std::optional<int64_t> Mesh::find(std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == name)
      return static_cast<int64_t>(i);
  return std::nullopt;
}

int64_t Mesh::size() const {
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
  return rank / stride(axis) % axes_[static_cast<size_t>(axis)].size;
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
  int64_t first = rank;
  for (int64_t axis : axes)
    first -= index(rank, axis) * stride(axis);
  std::vector<int> ranks = {static_cast<int>(first)};
  for (int64_t axis : axes) {
    std::vector<int> longer;
    for (int member : ranks)
      for (int64_t i = 0; i < axes_[static_cast<size_t>(axis)].size; ++i)
        longer.push_back(member + static_cast<int>(i * stride(axis)));
    ranks = std::move(longer);
  }
  return ranks;
}
