#pragma once
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace divisi::planning {

/// The unit of a cluster's figure. A share is between 0 and 1.
enum class Unit { bytes, bytesPerSecond, flopsPerSecond, seconds, share };

/// Whether the value is possible for a machine: positive, finite, and small enough that sums of times stay finite.
bool inRange(Unit unit, double value);

/// The text of an error: a number, its range, and an example with a unit.
llvm::StringRef expectation(Unit unit);

/// The value of a number with a unit: "80GB", "64GiB", "900GB/s", "25Gb/s" (bits), "989TFLOPS", "5us". Null if the text
/// is no such number or the unit is of another kind; the range is not checked.
std::optional<double> parseQuantity(llvm::StringRef text, Unit unit);

} // namespace divisi::planning
