#pragma once
#include "mlir/IR/Location.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>

namespace divisi::compiler {

/// An error in a model, in one line. It can occur at any depth of an operator's handler, so this library, and no other
/// part of the compiler, throws. importOnnx catches all ImportErrors and emits diagnostics.
struct ImportError {
  std::string message;
  std::optional<mlir::Location> loc = std::nullopt; // the node's, set where the node is known
};

template <typename... Parts> std::string textOf(const Parts &...parts) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  (stream << ... << parts);
  return text;
}

template <typename... Parts> [[noreturn]] void fail(const Parts &...parts) { throw ImportError{textOf(parts...)}; }

/// A shape as text: "2x3x4".
inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  return shape.empty() ? "scalar"
                       : llvm::join(llvm::map_range(shape, [](int64_t d) { return std::to_string(d); }), "x");
}

} // namespace divisi::compiler
