#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace divisi::graph {

/// Bytes that a GPU's library may use beside operands and results while it computes an operation; also of a part of the
/// operation.
struct Workspace {
  double fixed = 0;
  double perElement = 0; // of the first result
  double perByte = 0;    // of all operands and results
  double most = std::numeric_limits<double>::infinity();

  /// For the elements of the first result, and the bytes of all operands and results.
  int64_t bytes(double elements, double bytes) const {
    return std::ceil(std::min(most, fixed + perElement * elements + perByte * bytes));
  }
};

} // namespace divisi::graph
