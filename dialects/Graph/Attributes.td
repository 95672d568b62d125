#ifndef DIVISI_DIALECTS_GRAPH_ATTRIBUTES
#define DIVISI_DIALECTS_GRAPH_ATTRIBUTES

include "dialects/Graph/GraphBase.td"

def Graph_Predicate_ : I32EnumAttr<"Predicate", "comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>, I32EnumAttrCase<"le", 3>,
    I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::divisi::graph";
  let genSpecializedAttr = 0;
}
def Graph_PredicateAttr : EnumAttr<Graph_Dialect, Graph_Predicate_, "predicate">;

def Graph_Combine_ : I32EnumAttr<"Combine", "how an update meets the old value", [
    I32EnumAttrCase<"assign", 0>, I32EnumAttrCase<"add", 1>, I32EnumAttrCase<"mul", 2>, I32EnumAttrCase<"max", 3>,
    I32EnumAttrCase<"min", 4>]> {
  let cppNamespace = "::divisi::graph";
  let genSpecializedAttr = 0;
}
def Graph_CombineAttr : EnumAttr<Graph_Dialect, Graph_Combine_, "combine">;

// As DivisiEpilogue numbers them (divisi/abi.h).
def Graph_Epilogue_ : I32EnumAttr<"Epilogue", "what follows a product in the same call", [
    I32EnumAttrCase<"bias", 0>, I32EnumAttrCase<"relu", 1>, I32EnumAttrCase<"gelu", 2>,
    I32EnumAttrCase<"gelu_grad", 3>, I32EnumAttrCase<"sum_lhs", 4>, I32EnumAttrCase<"sum_rhs", 5>]> {
  let cppNamespace = "::divisi::graph";
  let genSpecializedAttr = 0;
}
def Graph_EpilogueAttr : EnumAttr<Graph_Dialect, Graph_Epilogue_, "epilogue">;

#endif
