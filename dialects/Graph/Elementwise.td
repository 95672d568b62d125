#ifndef DIVISI_DIALECTS_GRAPH_ELEMENTWISE
#define DIVISI_DIALECTS_GRAPH_ELEMENTWISE

include "dialects/Graph/Attributes.td"

// Elementwise operations take operands of one shape: broadcasting is explicit (graph.broadcast).

class Graph_Elementwise<string mnemonic, string linear, int flops, list<Trait> traits>
    : Op<Graph_Dialect, mnemonic, !listconcat([Pure, ShardingRuleInterface, CostInterface,
         DeclareOpInterfaceMethods<GradientInterface>], traits)>, Documented {
  string zeros = "unknown"; // dist::Zeros
  int pole = -1;            // the operand for some of whose numbers the result is infinite or NaN
  let removedBy = "form-kernels, which moves it into an exec.kernel";
  let description = documentation;
  code facets = [{
    ::divisi::dist::Zeros getZeros() { return ::divisi::dist::Zeros::}] # zeros # [{; }
    int getPole() { return }] # pole # [{; }
    ::divisi::dist::ShardingRule getShardingRule() {
      return ::divisi::dist::ShardingRule::elementwise(*this, ::divisi::dist::Linear::}] # linear # [{);
    }
    int64_t getFlopsPerPoint() { return }] # flops # [{; }
  }];
  let extraClassDeclaration = facets;
}

class Graph_Unary<string mnemonic, string text, string equation, string from, int flops = 1, string linear = "no">
    : Graph_Elementwise<mnemonic, linear, flops, [SameOperandsAndResultType]> {
  string elements = "floats"; // that code generation knows
  let summary = text;
  let semantics = "`result[i..] = " # equation # "`, where x stands for `x[i..]`.";
  let tensors = "`x` and `result`: one shape [d..] and element type, " # elements # ".";
  let constraints = [{
    1. The result has x's type.
    2. The elements are}] # elements # [{ (not verified: code generation knows no others).}];
  let example = [{
    %y = graph.}] # mnemonic # [{ %x : tensor<4x6x}] # !if(!eq(elements, "integers or booleans"), "i1", "f32") # ">";
  let insertedBy = from;
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

class Graph_NumberUnary<string mnemonic, string text, string equation, string from, string linear = "no">
    : Graph_Unary<mnemonic, text, equation, from, 1, linear> {
  let elements = "numbers";
}

def Graph_NegOp : Graph_NumberUnary<"neg", "-x", "-x", "the importer (Neg, NegativeLogLikelihoodLoss) and by gradients", "all">;
def Graph_AbsOp : Graph_NumberUnary<"abs", "absolute value", "|x|",
    "the importer (Abs, Softsign, ReduceL1, LpPool, LpNormalization), gradients of extrema, and make-train with loss scaling"> { let zeros = "all"; }
def Graph_ExpOp : Graph_Unary<"exp", "e^x", "e^x",
    "the importer (Exp, Elu, Celu, Selu, ReduceLogSumExp), gradients, and decompositions of softmax, cross_entropy and attention", 10>;
def Graph_LogOp : Graph_Unary<"log", "natural logarithm", "ln x",
    "the importer (Log, ReduceLogSum, ReduceLogSumExp), gradients of graph.pow, and decompositions of log_softmax, "
    "cross_entropy and attention", 10> { let pole = 0; }
def Graph_SqrtOp : Graph_Unary<"sqrt", "square root", "x^(1/2)",
    "the importer (Sqrt, Pow by 0.5, ReduceL2, LpPool, LpNormalization) and make-train (adam, norms of gradients)", 4> { let zeros = "all"; let pole = 0; }
def Graph_RsqrtOp : Graph_Unary<"rsqrt", "1/sqrt(x)", "x^(-1/2)",
    "the importer (Pow by -0.5, normalizations), gradients, decompositions of norms, and make-train (adam)", 4> { let pole = 0; }
def Graph_ReciprocalOp : Graph_Unary<"reciprocal", "1/x", "1 / x",
    "the importer (Reciprocal, Pow by -1), the gradient of cross_entropy, the decomposition of softmax, and make-train "
    "with loss scaling", 4> { let pole = 0; }
def Graph_TanhOp : Graph_Unary<"tanh", "hyperbolic tangent", "(e^x - e^-x) / (e^x + e^-x)",
    "the importer (Tanh, Mish, Attention), decompositions of gelu and gelu_grad, and make-train (adam)", 12> { let zeros = "all"; }
def Graph_ErfOp : Graph_Unary<"erf", "error function", "2 / sqrt(pi) * integral of e^(-t^2) for t from 0 to x",
    "the importer (Erf) and by decompositions of gelu and gelu_grad", 15> { let zeros = "all"; }
def Graph_SigmoidOp : Graph_Unary<"sigmoid", "1/(1 + e^-x)", "1 / (1 + e^-x)",
    "the importer (Sigmoid, Swish, SwiGLU) and by the gradient of graph.softplus", 12>;
def Graph_SoftplusOp : Graph_Unary<"softplus", "log(1 + e^x), stable for large x", "max(x, 0) + ln(1 + e^-|x|)",
    "the importer (Softplus, Mish, and the loss that --loss=bce adds)", 20>;
def Graph_ReluOp : Graph_NumberUnary<"relu", "max(x, 0)", "max(x, 0)",
    "the importer (Relu, HardSigmoid, HardSwish) and by the decomposition of graph.matmul_epilogue"> { let zeros = "all"; }
def Graph_SinOp : Graph_Unary<"sin", "sine", "sin x", "the importer (Sin) and by the gradient of graph.cos", 12> { let zeros = "all"; }
def Graph_CosOp : Graph_Unary<"cos", "cosine", "cos x", "the importer (Cos) and by the gradient of graph.sin", 12>;
def Graph_TanOp : Graph_Unary<"tan", "tangent", "tan x", "the importer (Tan)", 20> { let zeros = "all"; }
def Graph_AsinOp : Graph_Unary<"asin", "inverse sine", "arcsin x", "the importer (Asin)", 20> { let zeros = "all"; let pole = 0; }
def Graph_AcosOp : Graph_Unary<"acos", "inverse cosine", "arccos x", "the importer (Acos)", 20> { let pole = 0; }
def Graph_AtanOp : Graph_Unary<"atan", "inverse tangent", "arctan x", "the importer (Atan)", 20> { let zeros = "all"; }
def Graph_SinhOp : Graph_Unary<"sinh", "hyperbolic sine", "(e^x - e^-x) / 2",
    "the importer (Sinh) and by the gradient of graph.cosh", 20> { let zeros = "all"; }
def Graph_CoshOp : Graph_Unary<"cosh", "hyperbolic cosine", "(e^x + e^-x) / 2",
    "the importer (Cosh) and by the gradient of graph.sinh", 20>;
def Graph_AsinhOp : Graph_Unary<"asinh", "inverse hyperbolic sine", "ln(x + sqrt(x^2 + 1))", "the importer (Asinh)", 20> { let zeros = "all"; }
def Graph_AcoshOp : Graph_Unary<"acosh", "inverse hyperbolic cosine", "ln(x + sqrt(x^2 - 1))", "the importer (Acosh)", 20> { let pole = 0; }
def Graph_AtanhOp : Graph_Unary<"atanh", "inverse hyperbolic tangent", "ln((1 + x) / (1 - x)) / 2", "the importer (Atanh)", 20> { let zeros = "all"; let pole = 0; }
def Graph_FloorOp : Graph_Unary<"floor", "largest integer not above x", "max {n integer, n <= x}", "the importer (Floor)"> { let zeros = "all"; }
def Graph_CeilOp : Graph_Unary<"ceil", "smallest integer not below x", "min {n integer, n >= x}", "the importer (Ceil)"> { let zeros = "all"; }
def Graph_RoundOp : Graph_Unary<"round", "nearest integer, halves to even", "the n with least |x - n|, of two the even one",
    "the importer (Round)"> { let zeros = "all"; }
def Graph_SignOp : Graph_NumberUnary<"sign", "-1, 0 or 1", "x > 0 ? 1 : x < 0 ? -1 : x",
    "the importer (Sign) and by the gradient of graph.abs"> { let zeros = "all"; }
def Graph_NotOp : Graph_Unary<"not", "bitwise (for booleans: logical) negation", "~x",
    "the importer (Not, BitwiseNot, BitShift) and by expand-top-k"> {
  let elements = "integers or booleans";
}

def Graph_GeluOp : Graph_Elementwise<"gelu", "no", 20, [SameOperandsAndResultType,
                                                        DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let zeros = "all";
  let summary = "x * Phi(x), by erf or by the tanh approximation";
  let semantics = [{
    `result[i..] = x / 2 * (1 + erf(x / sqrt 2))`, with `tanh` `result[i..] = x / 2 * (1 + tanh(sqrt(2 / pi) * (x +
    0.044715 x^3)))`, where x stands for `x[i..]` (Hendrycks and Gimpel, arXiv 1606.08415).}];
  let tensors = [{
    `x` and `result`: one shape [d..] and element type, floats. `tanh`: the approximation. `whole`: decompose leaves the
    operation for fuse-epilogues.}];
  let constraints = [{
    1. The result has x's type.
    2. The elements are floats (not verified: code generation knows no others).}];
  let example = [{
    %y = graph.gelu %x {tanh} : tensor<4x6xf32>}];
  let insertedBy = "the importer (Gelu, and what Raise finds of products with erf or tanh); keep-gelu adds `whole`";
  let removedBy = "decompose; with `whole` by fuse-epilogues or by decompose with `all`, which follows it";
  let arguments = (ins AnyRankedTensor:$x, UnitAttr:$tanh, UnitAttr:$whole);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}
def Graph_GeluGradOp : Graph_Elementwise<"gelu_grad", "no", 24, [SameOperandsAndResultType,
                                                                 DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let zeros = "all";
  let summary = "gradient of graph.gelu with respect to x";
  let semantics = [{
    `result[i..] = gradient[i..] * f'(x[i..])`, where f is graph.gelu with the same attributes. Without `tanh`, `f'(x) =
    Phi(x) + x * phi(x)`, with the distribution function and the density of the standard normal distribution.}];
  let tensors = [{
    `x`, `gradient` and `result`: one shape [d..] and element type, floats. `gradient` is that of graph.gelu's result.
    `tanh` and `whole` are those of graph.gelu.}];
  let constraints = [{
    1. `x`, `gradient` and the result have one type.
    2. The elements are floats (not verified: code generation knows no others).}];
  let example = [{
    %dx = graph.gelu_grad %x, %dy {tanh} : tensor<4x6xf32>}];
  let insertedBy = "make-train (the gradient of graph.gelu) and by the decomposition of graph.matmul_epilogue";
  let removedBy = "decompose; with `whole` by fuse-epilogues or by decompose with `all`, which follows it";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gradient, UnitAttr:$tanh, UnitAttr:$whole);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` type($x)";
  let extraClassDeclaration = facets # [{ bool hasGradient() { return false; } }];
}

class Graph_Predicate<string mnemonic, string text, string equation, string from>
    : Graph_Elementwise<mnemonic, "no", 1, [SameOperandsAndResultShape]> {
  let summary = text;
  let semantics = "`result[i..] = " # equation # "`, where x stands for `x[i..]`.";
  let tensors = "`x`: [d..], floats. `result`: [d..], i1.";
  let constraints = [{
    1. The result has x's shape and the element type i1.
    2. x has floats (not verified: code generation knows no others).}];
  let example = [{
    %b = graph.}] # mnemonic # [{ %x : (tensor<4x6xf32>) -> tensor<4x6xi1>}];
  let insertedBy = from;
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs RankedTensorOf<[I1]>:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}
def Graph_IsNanOp : Graph_Predicate<"is_nan", "whether x is not a number", "x != x", "the importer (IsNaN)">;
def Graph_IsInfOp : Graph_Predicate<"is_inf", "whether x is an infinity", "|x| == infinity",
    "the importer (IsInf, ReduceLogSumExp)">;

def Graph_CastOp : Graph_Elementwise<"cast", "no", 1, [SameOperandsAndResultShape]> {
  let zeros = "all";
  let summary = "conversion of the element type";
  let semantics = [{
    `result[i..] = convert(x[i..])`:

    - to i1: `x != 0`;
    - from floats to integers: the integer part (what the type does not hold is undefined);
    - between integers: the low bits; a wider result is filled with the sign, of i1 and unsigned integers with zeros;
    - to floats: the nearest number, of two the even one.}];
  let tensors = "`x`: [d..] of one element type, `result`: [d..] of another.";
  let constraints = [{
    1. The result has x's shape.}];
  let example = [{
    %y = graph.cast %x : (tensor<4x6xf32>) -> tensor<4x6xbf16>}];
  let insertedBy = [{
    the importer (Cast, CastLike, and where element types differ), reduce-precision, form-attention, split-microbatches,
    fuse-epilogues and gradients}];
  let removedBy = [{
    narrow-contractions, where a contraction takes what was cast, and form-kernels, which moves it into an exec.kernel}];
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Graph_BitcastOp : Graph_Elementwise<"bitcast", "no", 1, [SameOperandsAndResultShape]> {
  let zeros = "all";
  let summary = "the same bits as another element type";
  let semantics = "`bits(result[i..]) = bits(x[i..])`.";
  let tensors = "`x`: [d..] of one element type, `result`: [d..] of another.";
  let constraints = [{
    1. The result has x's shape.
    2. Both element types have one width.}];
  let example = [{
    %y = graph.bitcast %x : (tensor<4x6xf32>) -> tensor<4x6xi32>}];
  let insertedBy = "the importer (BitCast)";
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_StraightThroughOp
    : Graph_Elementwise<"straight_through", "no", 1, [SameOperandsAndResultType,
                                                      DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let zeros = "all";
  let summary = "a value whose gradient goes to another one: the straight-through estimator";
  let semantics = [{
    `result[i..] = value[i..]`. The gradient of the result is that of `x`, and `value` has none (Bengio, Leonard and
    Courville, arXiv 1308.3432).}];
  let tensors = "`x`, `value` and `result`: one shape [d..] and element type, floats.";
  let constraints = [{
    1. `x`, `value` and the result have one type.
    2. The elements are floats (not verified: code generation knows no others).}];
  let example = [{
    %y = graph.straight_through %x, %rounded : tensor<4x6xf32>}];
  let insertedBy = "the importer (DequantizeLinear of what QuantizeLinear computes)";
  let removedBy = "decompose";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` type($x)";
}

class Graph_Binary<string mnemonic, string text, string equation, string from, string linear = "no", int flops = 1>
    : Graph_Elementwise<mnemonic, linear, flops, [SameOperandsAndResultType]> {
  string elements = "numbers"; // that code generation knows
  let summary = text;
  let semantics = "`result[i..] = " # equation # "`, where x stands for `lhs[i..]` and y for `rhs[i..]`.";
  let tensors = "`lhs`, `rhs` and `result`: one shape [d..] and element type, " # elements # ".";
  let constraints = [{
    1. `lhs`, `rhs` and the result have one type.
    2. The elements are}] # elements # [{ (not verified: code generation knows no others).}];
  let example = [{
    %z = graph.}] # mnemonic # [{ %x, %y : tensor<4x6x}] # !if(!eq(elements, "numbers"), "f32", "i64") # ">";
  let insertedBy = from;
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}
class Graph_Bits<string mnemonic, string text, string equation, string from>
    : Graph_Binary<mnemonic, text, equation, from> {
  let elements = "integers or booleans";
}

def Graph_AddOp : Graph_Binary<"add", "lhs + rhs", "x + y",
    "the importer (Add, Sum, Mean, and operators made of it), gradients (the sum over a value's uses) and decompositions", "all">;
def Graph_SubOp : Graph_Binary<"sub", "lhs - rhs", "x - y",
    "the importer (Sub, and operators made of it), gradients and decompositions", "all">;
def Graph_MulOp : Graph_Binary<"mul", "lhs * rhs", "x * y",
    "the importer (Mul, and operators made of it), gradients and decompositions"> { let zeros = "any"; }
def Graph_DivOp : Graph_Binary<"div", "lhs / rhs; integers truncate",
    "x / y, of integers its integer part, and 0 if y = 0 or x / y overflows",
    "the importer (Div, Mean, and operators made of it) and by gradients", "no", 4> { let pole = 1; }
def Graph_RemOp : Graph_Binary<"rem", "remainder with the sign of lhs", "x - y * trunc(x / y), of integers 0 if y = 0",
    "the importer (Mod, indices of MaxPool)", "no", 10> { let pole = 1; }
def Graph_PowOp : Graph_Binary<"pow", "lhs to the power of rhs", "x^y",
    "the importer (Pow, LpPool, LRN) and by its own gradient", "no", 25> { let pole = 0; }
def Graph_MaxOp : Graph_Binary<"max", "the larger; NaN if either is", "max(x, y)",
    "the importer (Max, Clip), make-train with loss scaling, and split-tasks"> { let zeros = "all"; }
def Graph_MinOp : Graph_Binary<"min", "the smaller; NaN if either is", "min(x, y)",
    "the importer (Min, Clip), make-train (clipping, loss scaling), and split-tasks"> { let zeros = "all"; }
def Graph_AndOp : Graph_Bits<"and", "bitwise and", "x & y",
    "the importer (And, BitwiseAnd, IsInf, Mod), decompositions of cross_entropy, partition (graph.gather) and expand-top-k">;
def Graph_OrOp : Graph_Bits<"or", "bitwise or", "x | y", "the importer (Or, BitwiseOr) and by expand-top-k">;
def Graph_XorOp : Graph_Bits<"xor", "bitwise exclusive or", "x ^ y", "the importer (Xor, BitwiseXor, Mod, checks of indices)">;
def Graph_ShiftLeftOp : Graph_Bits<"shift_left", "lhs << rhs, zero if no bits remain",
    "x * 2^y modulo 2^w for w bits, and 0 unless 0 <= y < w", "the importer (BitShift, checks of indices)">;
def Graph_ShiftRightOp : Graph_Bits<"shift_right", "lhs >> rhs; signed numbers keep their sign",
    "floor(x / 2^y), and if not 0 <= y < w for w bits: x < 0 ? -1 : 0", "the importer (BitShift, checks of indices)">;

def Graph_CompareOp : Graph_Elementwise<"compare", "no", 1, [SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "elementwise comparison; a comparison with NaN is false, but for ne";
  let semantics = [{
    `result[i..] = lhs[i..] P rhs[i..]`, where P is =, !=, <, <=, > or >= as `predicate` says. With a NaN the result is
    true for `ne` and false for the others. Booleans: false < true.}];
  let tensors = [{
    `lhs` and `rhs`: one shape [d..] and element type. `result`: [d..], i1. `predicate`: eq, ne, lt, le, gt or ge.}];
  let constraints = [{
    1. `lhs` and `rhs` have one type.
    2. The result has their shape and the element type i1.}];
  let example = [{
    %b = graph.compare lt %x, %y : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>}];
  let insertedBy = [{
    the importer (Equal, Greater, Less and their kin, operators with conditions), gradients and decompositions}];
  let arguments = (ins Graph_PredicateAttr:$predicate, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs RankedTensorOf<[I1]>:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Graph_SelectOp : Graph_Elementwise<"select", "no", 1, [SameOperandsAndResultShape,
                                       AllTypesMatch<["lhs", "rhs", "result"]>]> {
  let zeros = "all";
  let summary = "condition ? lhs : rhs";
  let semantics = [{
    `result[i..] = condition[i..] ? lhs[i..] : rhs[i..]`; what is not chosen has no influence, also if it is a NaN.}];
  let tensors = "`condition`: [d..], i1. `lhs`, `rhs` and `result`: [d..] of one element type.";
  let constraints = [{
    1. All tensors have one shape.
    2. `lhs`, `rhs` and the result have one type.}];
  let example = [{
    %z = graph.select %c, %x, %y : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "the importer (Where, operators with conditions), gradients, decompositions and split-tasks";
  let arguments = (ins RankedTensorOf<[I1]>:$condition, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

#endif
