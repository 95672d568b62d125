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

#endif
