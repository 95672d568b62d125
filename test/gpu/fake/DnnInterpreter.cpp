// Operations of cuDNN's graphs by their definitions, in double precision.
#include "test/gpu/fake/DnnGraph.h"
#include "test/gpu/fake/Numbers.h"

#include <cmath>
#include <limits>

using namespace fake;

namespace {
using Values = std::vector<double>; // of a tensor, the last dimension first

Kind kindOf(int type) { return type == Half ? Kind::Half : type == Brain ? Kind::Brain : Kind::Float; }

double rounded(int type, double value) {
  if (type == Int32 || type == Boolean)
    return value;
  float space;
  setNumber(kindOf(type), &space, 0, value);
  return number(kindOf(type), &space, 0);
}

/// The element of `from`, whose dimensions are those of `to` or 1, that belongs to an element of `to`.
int64_t sourceOf(int64_t element, const Tensor &to, const Tensor &from) {
  int64_t at = 0, step = 1;
  for (size_t d = to.dims.size(); d-- > 0; element /= to.dims[d]) {
    at += from.dims[d] == 1 ? 0 : element % to.dims[d] * step;
    step *= from.dims[d];
  }
  return at;
}

double pointwise(int mode, double x, double b, double t) {
  switch (mode) {
  case Add:
    return x + b;
  case Multiply:
    return x * b;
  case Divide:
    return x / b;
  case Subtract:
    return x - b;
  case Exp:
    return std::exp(x);
  case Log:
    return std::log(x);
  case GreaterOrEqual:
    return x >= b;
  case Select:
    return t != 0 ? x : b;
  default:
    return x;
  }
}

Values pointwise(const Operation &o, const std::vector<const Values *> &inputs) {
  Values result((size_t)o.result.elements());
  int64_t step = 1;
  for (size_t d = o.result.dims.size() - 1; o.mode == Index && (int64_t)d > o.axis; --d)
    step *= o.result.dims[d];
  for (int64_t i = 0; i < (int64_t)result.size(); ++i) {
    if (o.mode == Index) {
      result[(size_t)i] = (double)(i / step % o.result.dims[(size_t)o.axis]);
      continue;
    }
    double operands[3] = {0, 0, 0};
    for (size_t k = 0; k < inputs.size(); ++k)
      operands[k] = (*inputs[k])[(size_t)sourceOf(i, o.result, o.inputs[k])];
    result[(size_t)i] = pointwise(o.mode, operands[0], operands[1], operands[2]);
  }
  return result;
}

Values matmul(const Operation &o, const Values &a, const Values &b) {
  size_t row = o.result.dims.size() - 2;
  int64_t m = o.result.dims[row], n = o.result.dims[row + 1], k = o.inputs[0].dims[row + 1];
  Values result((size_t)o.result.elements(), 0);
  for (int64_t i = 0; i < (int64_t)result.size() / n; ++i)
    for (int64_t p = 0; p < k; ++p) {
      double x = a[(size_t)(i * k + p)];
      const double *from = &b[(size_t)((i / m * k + p) * n)];
      double *to = &result[(size_t)(i * n)];
      for (int64_t j = 0; j < n; ++j)
        to[j] += x * from[j];
    }
  return result;
}

Values reduce(const Operation &o, const Values &x) {
  Values result((size_t)o.result.elements(), o.mode == Maximum ? -std::numeric_limits<double>::infinity() : 0);
  for (int64_t i = 0; i < (int64_t)x.size(); ++i) {
    double &to = result[(size_t)sourceOf(i, o.inputs[0], o.result)];
    to = o.mode == Maximum ? std::fmax(to, x[(size_t)i]) : to + x[(size_t)i];
  }
  return result;
}

/// Another view of the same memory.
Values reshape(const Operation &o, const Values &x) {
  Values memory((size_t)(o.inputs[0].offset((int64_t)x.size() - 1) + 1)), result(x.size());
  for (int64_t i = 0; i < (int64_t)x.size(); ++i)
    memory[(size_t)o.inputs[0].offset(i)] = x[(size_t)i];
  for (int64_t i = 0; i < (int64_t)x.size(); ++i)
    result[(size_t)i] = memory[(size_t)o.result.offset(i)];
  return result;
}
} // namespace

void fake::interpret(const Graph &graph, const std::map<int64_t, void *> &memory,
                     const std::map<int64_t, double> &numbers) {
  std::map<int64_t, Values> values;
  auto valuesOf = [&](const Tensor &t) {
    auto [it, fresh] = values.try_emplace(t.id);
    if (fresh && t.byValue)
      it->second = {numbers.at(t.id)};
    else if (fresh) // a virtual tensor was written before
      for (int64_t i = 0; i < t.elements(); ++i)
        it->second.push_back(number(kindOf(t.type), memory.at(t.id), t.offset(i)));
    return &it->second;
  };
  for (const Operation &o : graph.operations) {
    std::vector<const Values *> inputs;
    for (const Tensor &input : o.inputs)
      inputs.push_back(valuesOf(input));
    Values result = o.type == PointwiseOperation   ? pointwise(o, inputs)
                    : o.type == MatmulOperation    ? matmul(o, *inputs[0], *inputs[1])
                    : o.type == ReductionOperation ? reduce(o, *inputs[0])
                                                   : reshape(o, *inputs[0]);
    for (double &value : result)
      value = rounded(o.result.type, value);
    if (!o.result.isVirtual)
      for (int64_t i = 0; i < o.result.elements(); ++i)
        setNumber(kindOf(o.result.type), memory.at(o.result.id), o.result.offset(i), result[(size_t)i]);
    values[o.result.id] = std::move(result);
  }
}
