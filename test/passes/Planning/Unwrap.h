#pragma once
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace divisi::test {

/// The value; null, with the error's text in `error`, if there is none.
template <typename T> std::optional<T> unwrap(llvm::Expected<T> value, std::string &error) {
  error.clear();
  if (value)
    return std::move(*value);
  error = llvm::toString(value.takeError());
  return std::nullopt;
}

} // namespace divisi::test
