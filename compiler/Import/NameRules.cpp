#include "compiler/Import/NameRules.h"

#include "llvm/Support/Regex.h"

#include <cmath>
#include <cstring>

using namespace divisi::compiler;
using llvm::StringRef;

/// A pattern that matches one of these patterns as a whole.
static llvm::Regex oneOf(std::initializer_list<StringRef> patterns) {
  return llvm::Regex(textOf("^(", llvm::join(patterns, "|"), ")$"));
}

/// "bias" of "layers.0.attn.bias".
static StringRef lastComponent(StringRef name) {
  size_t at = name.find_last_of("./:");
  return at == StringRef::npos ? name : name.substr(at + 1);
}

/// The names of PyTorch's operators whose results exporters compute from parameters and constants.
static constexpr StringRef operators =
    "(_to_copy|_unsafe_view|abs|add|alias|arange|bitwise_[a-z]+|cat|ceil|clamp(_min|_max)?|clone|contiguous|cos|cumsum|"
    "detach|detach_|div|empty|eq|exp|expand|eye|fill|flip|floor|full|full_like|ge|getitem|gt|index|index_select|le|"
    "linalg_vector_norm|linspace|log|log_softmax|logical_[a-z]+|lt|masked_fill|matmul|mean|mm|mul|ne|neg|new_full|"
    "new_ones|new_zeros|ones|ones_like|permute|pow|reciprocal|repeat|reshape|rsqrt|rsub|scalar_tensor|"
    "scalar_tensor_default|select|sigmoid|sin|slice|slice_[0-9]+|softmax|softplus|split|sqrt|squeeze|stack|sub|sum|t|"
    "tanh|tensor|to|transpose|tril|triu|unbind|unsqueeze|view|where|zeros|zeros_like)(_[0-9]+)*";

NameRule divisi::compiler::ruleOfName(StringRef name) {
  static const llvm::Regex madeUp = oneOf({"val_[0-9]+", "_val_.*", "onnx::.*", "[0-9]+", "const_.*", "tmp(_[0-9]+)?",
                                           "lifted_tensor_[0-9]+", ".*_folded.*", operators});
  static const llvm::Regex buffer = oneOf({"inv_freq",
                                           "original_inv_freq",
                                           "pe",
                                           "pos_enc",
                                           "positional_encoding",
                                           "position_ids",
                                           "(attn_|attention_|causal_|padding_|src_|tgt_)?masks?",
                                           "masked_bias",
                                           "tril",
                                           "triu",
                                           "betas",
                                           "alphas(_cumprod(_prev)?)?",
                                           "sqrt_(recip_|recipm1_)?(one_minus_)?alphas(_cumprod)?",
                                           "sqrt_(recip|recipm1|one_minus)_.*",
                                           "log_one_minus_.*",
                                           "posterior_.*",
                                           "sigmas",
                                           "timesteps",
                                           "freqs(_cis|_cos|_sin)?",
                                           "(cos|sin)_?(cached?|table)?",
                                           "running_(mean|var)",
                                           "num_batches_tracked",
                                           "pos_weight",
                                           "(class|label|loss)_weights?",
                                           "weight_u",
                                           "_u",
                                           "_v",
                                           "pixel_(mean|std)",
                                           "mel_basis",
                                           "window",
                                           "anchors"});
  static const llvm::Regex parameter =
      oneOf({"weights?", "bias(es)?", "kernel", "gamma", "beta", ".*_(weight|bias)(_?[0-9]+)?",
             "(weight|bias)_(ih|hh)_l[0-9]+(_reverse)?", "original[0-9]*", "weight_(g|v|orig)", ".*tokens?",
             ".*embed(ding)?s?", ".*_table", "logit_scale", "layer_scale.*", "lora_[AB]", "A_log", "dt_bias",
             "[wWbB]([0-9]+|_[A-Za-z0-9_]+)?"});
  if (madeUp.match(name))
    return NameRule::madeUp;
  if (buffer.match(lastComponent(name)))
    return NameRule::buffer;
  return parameter.match(lastComponent(name)) ? NameRule::parameter : NameRule::unknown;
}

bool divisi::compiler::isRearrangement(StringRef name) {
  static const llvm::Regex pattern =
      oneOf({"(t|permute|transpose|view|_unsafe_view|reshape|unsqueeze|squeeze|clone|alias|"
             "detach|contiguous|slice|select|_to_copy)(_[0-9]+)*"});
  return pattern.match(name);
}

//===- Numbers ------------------------------------------------------------===//

/// The value of an element of a floating-point tensor.
static double elementAt(const TensorData &data, int64_t index) {
  mlir::Type element = data.type.getElementType();
  int64_t width = (data.type.getElementTypeBitWidth() + 7) / 8;
  uint64_t bits = 0;
  std::memcpy(&bits, data.bytes.data() + index * width, width);
  const auto &semantics = mlir::cast<mlir::FloatType>(element).getFloatSemantics();
  llvm::APFloat value(semantics, llvm::APInt(width * 8, bits));
  bool lossy;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToDouble();
}

/// Whether the elements are there and few enough to be looked at. Larger tensors are weights: 8,192 x 8,192.
static bool mayBeRead(const TensorData &data) {
  constexpr int64_t mostElements = 1 << 26;
  return !data.missing && mlir::isa<mlir::FloatType>(data.type.getElementType()) &&
         data.type.getNumElements() <= mostElements;
}

/// A sine and a cosine of the same angle have squares that sum to one. Rows of zeros (a class token's) are allowed.
static bool isSinusoidAlong(const TensorData &data, int64_t axis) {
  auto shape = data.type.getShape();
  const int64_t size = shape[axis];
  int64_t inner = 1;
  for (int64_t extent : shape.drop_front(axis + 1))
    inner *= extent;
  if (size < 4 || size % 2 != 0 || data.type.getNumElements() < 2 * size)
    return false;
  const double half = 0.5 * (double)size, tolerance = 2e-3 * half;
  int64_t rows = 0;
  for (int64_t row = 0, count = data.type.getNumElements() / size; row < count; ++row) {
    double squares = 0, most = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double value = elementAt(data, (row / inner * size + i) * inner + row % inner);
      squares += value * value;
      most = std::max(most, std::abs(value));
    }
    if (!(most <= 1.001) || !(squares == 0 || std::abs(squares - half) <= tolerance))
      return false;
    rows += squares != 0;
  }
  return rows > 1;
}

bool divisi::compiler::isSinusoid(const TensorData &data) {
  const int64_t rank = data.type.getRank();
  return rank >= 2 && mayBeRead(data) && !isSplat(data) &&
         (isSinusoidAlong(data, rank - 1) || (rank >= 3 && isSinusoidAlong(data, 1)));
}

bool divisi::compiler::isRepeatedFilter(const TensorData &data) {
  if (!mayBeRead(data) || data.bytes.empty() || data.type.getRank() < 3 || data.type.getShape()[0] < 2 || isSplat(data))
    return false;
  const size_t slice = data.bytes.size() / data.type.getShape()[0];
  for (size_t at = slice; at < data.bytes.size(); at += slice)
    if (std::memcmp(data.bytes.data(), data.bytes.data() + at, slice))
      return false;
  return true;
}

std::string divisi::compiler::maskContent(const TensorData &data) {
  if (!mayBeRead(data) || isSplat(data))
    return "";
  /// The largest value that masks a score when it is added.
  constexpr double barely = -1e4;
  bool zero = false, one = false, low = false;
  for (int64_t i = 0, count = data.type.getNumElements(); i < count; ++i) {
    double value = elementAt(data, i);
    zero |= value == 0;
    one |= value == 1;
    low |= value <= barely;
    if (value != 0 && value != 1 && !(value <= barely))
      return "";
  }
  if (zero && one && !low)
    return "only 0 and 1";
  return zero && low && !one ? "only 0 and -inf" : "";
}

bool divisi::compiler::isSplat(const TensorData &data) {
  if (data.missing || data.bytes.empty())
    return false;
  size_t width = (data.type.getElementTypeBitWidth() + 7) / 8;
  for (size_t at = width; at < data.bytes.size(); at += width)
    if (std::memcmp(data.bytes.data(), data.bytes.data() + at, width))
      return false;
  return true;
}

bool divisi::compiler::isTransposeOf(const TensorData &matrix, const TensorData &other) {
  auto shape = matrix.type.getShape();
  if (matrix.missing || other.missing || shape.size() != 2 ||
      other.type.getElementType() != matrix.type.getElementType() ||
      other.type.getShape() != llvm::ArrayRef<int64_t>{shape[1], shape[0]})
    return false;
  size_t width = (matrix.type.getElementTypeBitWidth() + 7) / 8;
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      if (std::memcmp(matrix.bytes.data() + (i * shape[1] + j) * width, other.bytes.data() + (j * shape[0] + i) * width,
                      width))
        return false;
  return true;
}
