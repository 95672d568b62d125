#include "codegen/Emit/CheckCalls.h"

#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"
#include "divisi/abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstring>

using namespace mlir;
using namespace divisi;

namespace {
/// Bytes of each buffer of a call, of inputs and then results.
using Sizes = std::optional<SmallVector<int64_t>>;

/// A size that is made of parameters; invalid once it overflows or something negative goes in.
class Size {
public:
  Size(int64_t value) : value(value), valid(value >= 0) {}
  friend Size operator*(Size a, Size b) { return a.combined(b, llvm::MulOverflow<int64_t>); }
  friend Size operator+(Size a, Size b) { return a.combined(b, llvm::AddOverflow<int64_t>); }
  bool isValid() const { return valid; }
  int64_t get() const { return value; }

private:
  Size combined(Size other, int64_t (*combine)(int64_t, int64_t, int64_t &)) const;
  int64_t value;
  bool valid;
};

Size Size::combined(Size other, int64_t (*combine)(int64_t, int64_t, int64_t &)) const {
  Size result = 0;
  bool overflows = combine(value, other.value, result.value) != 0;
  result.valid = valid && other.valid && !overflows;
  return result;
}

Sizes all(ArrayRef<Size> sizes) {
  SmallVector<int64_t> bytes;
  for (const Size &size : sizes) {
    if (!size.isValid())
      return std::nullopt;
    bytes.push_back(size.get());
  }
  return bytes;
}

constexpr int64_t widths[] = {4, 8, 2, 2, 8, 4, 2, 1, 1}; // by DivisiType

/// Of a type that libraries compute in; otherwise invalid.
Size widthOf(int64_t type) { return type >= DIVISI_F32 && type <= DIVISI_F16 ? widths[type] : -1; }

/// Elements from the first to the last of matrices.
Size extentOf(const DivisiGemm &g, int64_t rows, int64_t columns, int64_t ld, int64_t outer, int64_t inner) {
  if (g.batch0 == 0 || g.batch1 == 0 || rows == 0 || columns == 0)
    return 0;
  return Size(g.batch0 - 1) * outer + Size(g.batch1 - 1) * inner + Size(rows - 1) * (rows > 1 ? ld : 0) + columns;
}

Sizes sizesOf(const DivisiGemm &g) {
  Size width = widthOf(g.type);
  return all({extentOf(g, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.lda, g.a0, g.a1) * width,
              extentOf(g, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.ldb, g.b0, g.b1) * width,
              extentOf(g, g.m, g.n, g.ldc, g.c0, g.c1) * widthOf(g.result_type)});
}

Sizes sizesOf(const DivisiGemmEpilogue &p) {
  if (p.epilogue < DIVISI_EPILOGUE_BIAS || p.epilogue > DIVISI_EPILOGUE_SUM_B)
    return std::nullopt;
  Size width = widthOf(p.type), whole = Size(p.m) * p.n * width;
  bool isGradient = p.epilogue == DIVISI_EPILOGUE_RELU_GRAD || p.epilogue == DIVISI_EPILOGUE_GELU_GRAD;
  bool bits = p.epilogue == DIVISI_EPILOGUE_RELU || p.epilogue == DIVISI_EPILOGUE_RELU_GRAD;
  bool sumsA = p.epilogue == DIVISI_EPILOGUE_SUM_A, sumsB = p.epilogue == DIVISI_EPILOGUE_SUM_B;
  bool fits = p.has_operand ? !sumsA && !sumsB : p.epilogue != DIVISI_EPILOGUE_BIAS && !isGradient;
  fits &= p.has_second ? p.epilogue != DIVISI_EPILOGUE_BIAS : !sumsA && !sumsB;
  if (!fits)
    return std::nullopt;
  Size saved = bits ? Size(p.m) * (p.n / 8) : whole;
  SmallVector<Size> sizes = {Size(p.m) * p.k * width, Size(p.k) * p.n * width};
  if (p.has_operand)
    sizes.push_back(isGradient ? saved : Size(p.n) * width);
  sizes.push_back(whole);
  if (p.has_second)
    sizes.push_back(sumsA ? Size(p.m) * width : isGradient || sumsB ? Size(p.n) * width : saved);
  return all(sizes);
}

/// `kind`: of the service, 0 to 2: forward, input_grad, filter_grad.
Sizes sizesOf(const DivisiConv &c, int kind) {
  constexpr int64_t most = 1 << 30; // of a number along a spatial dimension
  if (c.spatial < 1 || c.spatial > 3 || c.groups < 1 || c.in_channels % c.groups != 0 || c.out_channels % c.groups != 0)
    return std::nullopt;
  Size width = widthOf(c.type), x = Size(c.batch) * c.in_channels * width, y = Size(c.batch) * c.out_channels * width,
       w = Size(c.out_channels) * (c.in_channels / c.groups) * width;
  for (int64_t d = 0; d < c.spatial; ++d) {
    for (int64_t number : {c.in[d], c.out[d], c.kernel[d], c.stride[d], c.dilation[d], c.pad_low[d], c.pad_high[d]})
      if (std::abs(number) > most)
        return std::nullopt;
    if (c.stride[d] < 1 || c.dilation[d] < 1)
      return std::nullopt;
    int64_t window = c.dilation[d] * (c.kernel[d] - 1) + 1, padded = c.in[d] + c.pad_low[d] + c.pad_high[d];
    if (c.out[d] != (padded < window ? 0 : (padded - window) / c.stride[d] + 1))
      return std::nullopt;
    x = x * c.in[d], y = y * c.out[d], w = w * c.kernel[d];
  }
  return kind == 0 ? all({x, w, y}) : kind == 1 ? all({y, w, x}) : all({x, y, w});
}

Sizes sizesOf(const DivisiAttention &a, bool isGradient) {
  auto isOneOr = [](int64_t size, int64_t whole) { return size == 1 || size == whole; };
  if (a.has_bias &&
      !(isOneOr(a.bias_batch, a.batch) && isOneOr(a.bias_heads, a.heads) && isOneOr(a.bias_queries, a.queries)))
    return std::nullopt;
  Size width = widthOf(a.type), rows = Size(a.batch) * a.heads, q = rows * a.queries * a.depth * width,
       k = rows * a.keys * a.depth * width;
  SmallVector<Size> sizes = {q, k, k};
  if (a.has_bias)
    sizes.push_back(Size(a.bias_batch) * a.bias_heads * a.bias_queries * a.keys * 4);
  sizes.append({q, rows * a.queries * 4});
  if (isGradient)
    sizes.append({q, q, k, k});
  return all(sizes);
}

Sizes sizesOf(const DivisiTopK &t) {
  bool fits = t.k <= t.extent && t.kind >= 0 && t.kind <= 2 && llvm::is_contained({1, 2, 4, 8}, t.width);
  Size runs = Size(t.outer) * t.inner;
  return fits ? all({runs * t.extent * t.width, runs * t.k * t.width, runs * t.k * 8}) : std::nullopt;
}

/// A collective's parts, of elements of so many bytes each.
Sizes sizesOfCollective(ArrayRef<int64_t> params, const dist::Mesh &mesh) {
  constexpr size_t head = offsetof(DivisiCollective, parts) / sizeof(int64_t),
                   words = sizeof(DivisiPart) / sizeof(int64_t);
  int64_t kind = params[1], type = params[3], axes = params[6], n = 1;
  if (params[head - 1] < 1 || axes < 0 || axes > DIVISI_MAX_AXES || type < 0 || type > DIVISI_U8 ||
      kind < DIVISI_ALL_REDUCE || kind > DIVISI_PERMUTE || params.size() != head + words * (size_t)params[head - 1])
    return std::nullopt;
  for (int64_t axis : params.slice(7, axes)) {
    if (axis < 0 || axis >= (int64_t)mesh.axes.size())
      return std::nullopt;
    n *= mesh.axes[axis].size;
  }
  SmallVector<Size> operands, results;
  for (ArrayRef<int64_t> rest = params.drop_front(head); !rest.empty(); rest = rest.drop_front(words)) {
    DivisiPart part;
    std::memcpy(&part, rest.data(), sizeof part);
    Size size = Size(part.outer) * part.first * part.middle * part.second * part.inner * widths[type];
    bool scatters = kind == DIVISI_REDUCE_SCATTER;
    if (!size.isValid() || (scatters && part.first % n != 0))
      return std::nullopt;
    operands.push_back(size);
    results.push_back(kind == DIVISI_ALL_GATHER ? size * n : scatters ? Size(size.get() / n) : size);
  }
  operands.append(results);
  return all(operands);
}

template <typename Block> std::optional<Block> blockOf(ArrayRef<int64_t> params) {
  Block block;
  if (params.size() * sizeof(int64_t) != sizeof block)
    return std::nullopt;
  std::memcpy(&block, params.data(), sizeof block);
  return block;
}

/// `isKnown` becomes false for services that there are not.
Sizes sizesOf(exec::CallOp call, const dist::Mesh &mesh, bool &isKnown) {
  StringRef service = call.getService();
  ArrayRef<int64_t> params = call.getParams();
  auto of = [&](auto block, auto... more) -> Sizes { return block ? sizesOf(*block, more...) : std::nullopt; };
  if (service == "divisi_gemm")
    return of(blockOf<DivisiGemm>(params));
  if (service == "divisi_gemm_epilogue")
    return of(blockOf<DivisiGemmEpilogue>(params));
  if (service == "divisi_attention" || service == "divisi_attention_grad")
    return of(blockOf<DivisiAttention>(params), service == "divisi_attention_grad");
  if (service == "divisi_top_k")
    return of(blockOf<DivisiTopK>(params));
  const StringRef convolutions[] = {"divisi_conv_forward", "divisi_conv_input_grad", "divisi_conv_filter_grad"};
  if (const auto *it = llvm::find(convolutions, service); it != std::end(convolutions))
    return of(blockOf<DivisiConv>(params), (int)(it - convolutions));
  if (service == "divisi_collective") {
    constexpr size_t head = offsetof(DivisiCollective, parts) / sizeof(int64_t);
    return params.size() >= head ? sizesOfCollective(params, mesh) : std::nullopt;
  }
  if (service == "divisi_send" || service == "divisi_receive") {
    auto block = blockOf<DivisiTransfer>(params);
    return block ? all({block->bytes}) : std::nullopt;
  }
  isKnown = false;
  return std::nullopt;
}

LogicalResult check(exec::CallOp call, const dist::Mesh &mesh) {
  bool isKnown = true;
  Sizes sizes = sizesOf(call, mesh, isKnown);
  if (!isKnown)
    return call.emitOpError("calls a service that there is not: '") << call.getService() << "'";
  if (!sizes)
    return call.emitOpError("has parameters that no '") << call.getService() << "' can have";
  SmallVector<Value> buffers(call.getInputs());
  llvm::append_range(buffers, call.getOutputs().drop_back(call->hasAttr(exec::names::workspace)));
  size_t inputs = call.getInputs().size();
  if (buffers.size() != sizes->size())
    return call.emitOpError("expected ") << sizes->size() << " operands and results, got " << buffers.size();
  for (auto [i, buffer] : llvm::enumerate(buffers))
    if (graph::bytesOf(buffer.getType()) < (*sizes)[i])
      return call.emitOpError("has parameters for ")
             << (*sizes)[i] << " bytes in " << (i < inputs ? "operand " : "result ") << (i < inputs ? i : i - inputs)
             << ", which has " << graph::bytesOf(buffer.getType());
  return success();
}
} // namespace

LogicalResult codegen::checkCalls(ModuleOp module) {
  for (auto task : module.getOps<func::FuncOp>()) {
    dist::Mesh mesh;
    if (auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
      mesh = dist::toMesh(attr);
    auto checked = task.walk(
        [&](exec::CallOp call) { return failed(check(call, mesh)) ? WalkResult::interrupt() : WalkResult::advance(); });
    if (checked.wasInterrupted())
      return failure();
  }
  return success();
}
