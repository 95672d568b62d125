#include "dialects/Graph/SampleRows.h"

using namespace mlir;
using namespace divisi;

Value graph::meanOfSampleRows(GraphBuilder &b, Value each, Value samples, int64_t batch, double inner) {
  ArrayRef<int64_t> shape = shapeOf(each);
  if (batch == 0 || shape[0] % batch != 0)
    return b.scale(b.sumAll(each), 1 / std::max(1.0, (double)shape[0] * inner));
  Value rows = samples;
  if (const int64_t ofSample = shape[0] / batch; ofSample != 1)
    rows = b.mul(rows, b.splatLike(rows, (double)ofSample));
  Value count = b.broadcast(rows, shape, {});
  Value counts = b.compare(Predicate::lt, b.iota(shape, 0), count);
  Value sum = b.sumAll(b.keepWhere(counts, each));
  return b.div(sum, b.scale(b.cast(rows, tensorType(each).getElementType()), inner));
}

double graph::elementsOfRow(Value each) {
  ArrayRef<int64_t> shape = shapeOf(each);
  return shape[0] ? (double)tensorType(each).getNumElements() / (double)shape[0] : 1;
}
