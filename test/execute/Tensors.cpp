#include "test/execute/Tensors.h"

#include "dialects/Graph/Graph.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::test;

/// Calls body with a pointer to the first element.
template <typename Pointer, typename Body> static void withElements(Pointer bytes, Type element, const Body &body) {
  if (element.isF32())
    return body((float *)bytes);
  if (element.isF64())
    return body((double *)bytes);
  if (element.isInteger(64))
    return body((int64_t *)bytes);
  if (element.isInteger(32))
    return body((int32_t *)bytes);
  body((int8_t *)bytes);
}

Bytes test::randomBytes(Draw &draw, RankedTensorType type, double low, double high) {
  Bytes bytes(graph::bytesOf(type));
  bool integer = type.getElementType().isInteger();
  withElements(bytes.data(), type.getElementType(), [&](auto *elements) {
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      double x = low + (high - low) * draw.unit();
      elements[i] = (std::remove_pointer_t<decltype(elements)>)(integer ? std::floor(x) : x);
    }
  });
  return bytes;
}

Bytes test::randomArgument(Draw &draw, RankedTensorType type) {
  Type element = type.getElementType();
  return randomBytes(draw, type, element.isInteger() ? 0 : -1, element.isInteger(1) ? 2 : element.isInteger() ? 3 : 1);
}

static std::vector<double> toDoubles(const Bytes &bytes, Type element) {
  std::vector<double> result(bytes.size() / graph::bytesOfElement(element));
  withElements(bytes.data(), element, [&](auto *elements) { result.assign(elements, elements + result.size()); });
  return result;
}

std::string test::difference(const Bytes &expected, const Bytes &got, Type element, double tolerance) {
  constexpr double noise = 2e-6;
  if (expected.size() != got.size())
    return "sizes differ";
  auto a = toDoubles(expected, element), b = toDoubles(got, element);
  double largest = 0;
  for (double x : a)
    if (std::isfinite(x))
      largest = std::max(largest, std::abs(x));
  double allowed = element.isInteger() ? 0 : tolerance * largest + noise;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= allowed) && a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])))
      return llvm::formatv("element {0} of {1}: {2:e8} instead of {3:e8} (allowed: {4:e1})", i, a.size(), b[i], a[i],
                           allowed);
  return "";
}
