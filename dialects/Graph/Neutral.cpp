#include "dialects/Graph/Neutral.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace divisi;

Attribute graph::neutralOf(dist::Reduction reduction, Type element) {
  if (reduction == dist::Reduction::sum)
    return Builder(element.getContext()).getZeroAttr(element);
  bool smallest = reduction == dist::Reduction::max;
  if (auto floating = dyn_cast<FloatType>(element))
    return FloatAttr::get(element, APFloat::getInf(floating.getFloatSemantics(), smallest));
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isUnsignedInteger() || width == 1)
    return IntegerAttr::get(element, smallest ? APInt::getMinValue(width) : APInt::getMaxValue(width));
  return IntegerAttr::get(element, smallest ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width));
}
