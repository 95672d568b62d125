#pragma once
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace divisi::planning {

/// What a figure of a cluster is measured in. A share is a part of 1.
enum class Unit { bytes, bytesPerSecond, flopsPerSecond, seconds, share };

/// Whether the figure may be one of a machine: positive, finite, and small enough that sums of times stay finite.
bool inRange(Unit unit, double value);

/// What an error asks for: a number, its range, and an example of text with a unit.
llvm::StringRef expectation(Unit unit);

/// A number and its unit: "80GB", "64GiB", "900GB/s", "25Gb/s" (bits), "989TFLOPS", "5us". Nothing if it is not of this
/// unit; the range is not checked.
std::optional<double> parseQuantity(llvm::StringRef text, Unit unit);

} // namespace divisi::planning
