#ifndef DIVISI_DIALECTS_GRAPH_ELEMENTWISE
#define DIVISI_DIALECTS_GRAPH_ELEMENTWISE

include "dialects/Graph/Attributes.td"

// Elementwise operations take operands of one shape: broadcasting is explicit (graph.broadcast).

class Graph_Elementwise<string mnemonic, string linear, int flops, list<Trait> traits>
    : Op<Graph_Dialect, mnemonic, !listconcat([Pure, ShardingRuleInterface, CostInterface,
         DeclareOpInterfaceMethods<GradientInterface>], traits)> {
  code facets = [{
    ::divisi::dist::ShardingRule getShardingRule() {
      return ::divisi::dist::ShardingRule::elementwise(*this, ::divisi::dist::Linear::}] # linear # [{);
    }
    int64_t getFlopsPerPoint() { return }] # flops # [{; }
  }];
  let extraClassDeclaration = facets;
}

class Graph_Unary<string mnemonic, string text, int flops = 1, string linear = "no">
    : Graph_Elementwise<mnemonic, linear, flops, [SameOperandsAndResultType]> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Graph_NegOp : Graph_Unary<"neg", "-x", 1, "all">;
def Graph_AbsOp : Graph_Unary<"abs", "absolute value">;
def Graph_ExpOp : Graph_Unary<"exp", "e^x", 10>;
def Graph_LogOp : Graph_Unary<"log", "natural logarithm", 10>;
def Graph_SqrtOp : Graph_Unary<"sqrt", "square root", 4>;
def Graph_RsqrtOp : Graph_Unary<"rsqrt", "1/sqrt(x)", 4>;
def Graph_ReciprocalOp : Graph_Unary<"reciprocal", "1/x", 4>;
def Graph_TanhOp : Graph_Unary<"tanh", "hyperbolic tangent", 12>;
def Graph_ErfOp : Graph_Unary<"erf", "error function", 15>;
def Graph_SigmoidOp : Graph_Unary<"sigmoid", "1/(1 + e^-x)", 12>;
def Graph_SoftplusOp : Graph_Unary<"softplus", "log(1 + e^x), stable for large x", 20>;
def Graph_ReluOp : Graph_Unary<"relu", "max(x, 0)">;
def Graph_SinOp : Graph_Unary<"sin", "sine", 12>;
def Graph_CosOp : Graph_Unary<"cos", "cosine", 12>;
def Graph_TanOp : Graph_Unary<"tan", "tangent", 20>;
def Graph_AsinOp : Graph_Unary<"asin", "inverse sine", 20>;
def Graph_AcosOp : Graph_Unary<"acos", "inverse cosine", 20>;
def Graph_AtanOp : Graph_Unary<"atan", "inverse tangent", 20>;
def Graph_SinhOp : Graph_Unary<"sinh", "hyperbolic sine", 20>;
def Graph_CoshOp : Graph_Unary<"cosh", "hyperbolic cosine", 20>;
def Graph_AsinhOp : Graph_Unary<"asinh", "inverse hyperbolic sine", 20>;
def Graph_AcoshOp : Graph_Unary<"acosh", "inverse hyperbolic cosine", 20>;
def Graph_AtanhOp : Graph_Unary<"atanh", "inverse hyperbolic tangent", 20>;
def Graph_FloorOp : Graph_Unary<"floor", "largest integer not above x">;
def Graph_CeilOp : Graph_Unary<"ceil", "smallest integer not below x">;
def Graph_RoundOp : Graph_Unary<"round", "nearest integer, halves to even">;
def Graph_SignOp : Graph_Unary<"sign", "-1, 0 or 1">;
def Graph_NotOp : Graph_Unary<"not", "bitwise (for booleans: logical) negation">;

def Graph_GeluOp : Graph_Elementwise<"gelu", "no", 20, [SameOperandsAndResultType,
                                                        DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let summary = "x * Phi(x), by erf or by the tanh approximation";
  let description = [{
    Hendrycks and Gimpel, arXiv 1606.08415. With `whole` it stays one operation until fuse-epilogues has seen it (keep-gelu).
  }];
  let arguments = (ins AnyRankedTensor:$x, UnitAttr:$tanh, UnitAttr:$whole);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}
def Graph_GeluGradOp : Graph_Elementwise<"gelu_grad", "no", 24, [SameOperandsAndResultType,
                                                                 DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let summary = "gradient of graph.gelu with respect to x";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gradient, UnitAttr:$tanh, UnitAttr:$whole);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` type($x)";
  let extraClassDeclaration = facets # [{ bool hasGradient() { return false; } }];
}

class Graph_Predicate<string mnemonic, string text>
    : Graph_Elementwise<mnemonic, "no", 1, [SameOperandsAndResultShape]> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs RankedTensorOf<[I1]>:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}
def Graph_IsNanOp : Graph_Predicate<"is_nan", "whether x is not a number">;
def Graph_IsInfOp : Graph_Predicate<"is_inf", "whether x is an infinity">;

def Graph_CastOp : Graph_Elementwise<"cast", "no", 1, [SameOperandsAndResultShape]> {
  let summary = "conversion of the element type";
  let description = [{
    Floats to integers truncate, anything to a boolean compares with zero. Between floats a value is rounded to nearest.
  }];
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

class Graph_Binary<string mnemonic, string text, string linear = "no", int flops = 1>
    : Graph_Elementwise<mnemonic, linear, flops, [SameOperandsAndResultType]> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}
def Graph_AddOp : Graph_Binary<"add", "lhs + rhs", "all">;
def Graph_SubOp : Graph_Binary<"sub", "lhs - rhs", "all">;
def Graph_MulOp : Graph_Binary<"mul", "lhs * rhs">;
def Graph_DivOp : Graph_Binary<"div", "lhs / rhs; integers truncate", "no", 4>;
def Graph_RemOp : Graph_Binary<"rem", "remainder with the sign of lhs", "no", 10>;
def Graph_PowOp : Graph_Binary<"pow", "lhs to the power of rhs", "no", 25>;
def Graph_MaxOp : Graph_Binary<"max", "the larger; NaN if either is">;
def Graph_MinOp : Graph_Binary<"min", "the smaller; NaN if either is">;
def Graph_AndOp : Graph_Binary<"and", "bitwise and">;
def Graph_OrOp : Graph_Binary<"or", "bitwise or">;
def Graph_XorOp : Graph_Binary<"xor", "bitwise exclusive or">;
def Graph_ShiftLeftOp : Graph_Binary<"shift_left", "lhs << rhs, zero if no bits remain">;
def Graph_ShiftRightOp : Graph_Binary<"shift_right", "lhs >> rhs; signed numbers keep their sign">;

def Graph_CompareOp : Graph_Elementwise<"compare", "no", 1, [SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "elementwise comparison; a comparison with NaN is false, but for ne";
  let arguments = (ins Graph_PredicateAttr:$predicate, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs RankedTensorOf<[I1]>:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Graph_SelectOp : Graph_Elementwise<"select", "no", 1, [SameOperandsAndResultShape,
                                       AllTypesMatch<["lhs", "rhs", "result"]>]> {
  let summary = "condition ? lhs : rhs";
  let arguments = (ins RankedTensorOf<[I1]>:$condition, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

#endif
