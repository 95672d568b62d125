// Operations of cuDNN's graphs by their definitions, in double precision.
#include "test/gpu/fake/DnnGraph.h"
#include "test/gpu/fake/Numbers.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace fake;

namespace {
using Values = std::vector<double>; // of a tensor, the last dimension first

Kind kindOf(int type) {
  return type == Half ? Kind::Half : type == Brain ? Kind::Brain : type == Double ? Kind::Double : Kind::Float;
}

double rounded(int type, double value) {
  if (type == Int32 || type == Boolean)
    return value;
  double space;
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

/// A number with as many bits as TF32 has.
double asTf32(double value) {
  auto bits = std::bit_cast<uint32_t>((float)value);
  return std::bit_cast<float>((bits + 0xfff + ((bits >> 13) & 1)) & ~uint32_t(0x1fff));
}

/// Calls body(element of x, of w, of y) for every multiplication of a convolution.
template <typename Body> void forEachProduct(const Operation &o, const Body &body) {
  const std::vector<int64_t> &x = o.x().dims, &w = o.w().dims, &y = o.y().dims;
  const Windows &c = o.windows;
  size_t spatial = x.size() - 2;
  int64_t ins = 1, outs = 1, taps = 1, perGroup = w[0] / (x[1] / w[1]);
  for (size_t d = 2; d < x.size(); ++d)
    ins *= x[d], outs *= y[d], taps *= w[d];
  for (int64_t out = 0; out < outs; ++out)
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t restOut = out, restTap = tap, in = 0, step = 1;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t at = restOut % y[d + 2] * c.strides[d] - c.low[d] + restTap % w[d + 2] * c.dilations[d];
        restOut /= y[d + 2], restTap /= w[d + 2];
        inside &= at >= 0 && at < x[d + 2];
        in += at * step, step *= x[d + 2];
      }
      for (int64_t n = 0; inside && n < x[0]; ++n)
        for (int64_t to = 0; to < w[0]; ++to)
          for (int64_t from = 0; from < w[1]; ++from)
            body((n * x[1] + to / perGroup * w[1] + from) * ins + in, (to * w[1] + from) * taps + tap,
                 (n * y[1] + to) * outs + out);
    }
}

Values convolution(const Operation &o, Values a, Values b, bool tensorCores) {
  if (tensorCores && o.result.type == Float)
    for (Values *values : {&a, &b})
      for (double &value : *values)
        value = asTf32(value);
  Values result((size_t)o.result.elements(), 0);
  forEachProduct(o, [&](int64_t x, int64_t w, int64_t y) {
    if (o.type == ConvolutionForward)
      result[(size_t)y] += a[(size_t)x] * b[(size_t)w];
    else if (o.type == ConvolutionInputGrad)
      result[(size_t)x] += a[(size_t)w] * b[(size_t)y];
    else
      result[(size_t)w] += a[(size_t)x] * b[(size_t)y];
  });
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
    Values result = o.isConvolution() ? convolution(o, *inputs[0], *inputs[1], graph.engine.has(TensorCore))
                    : o.type == PointwiseOperation ? pointwise(o, inputs)
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
