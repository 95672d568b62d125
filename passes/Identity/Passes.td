#ifndef DIVISI_PASSES_IDENTITY
#define DIVISI_PASSES_IDENTITY

include "mlir/Pass/PassBase.td"

def NameNodesPass : Pass<"name-nodes", "::mlir::ModuleOp"> {
  let summary = "Gives operations without an identity one, derived from the operation at whose location they were made";
  let description = [{
    Input: any module with functions. Output: the same, each operation at a named location with a `graph.node` that is unique in its
    function (dialects/Graph/Nodes.h). Runs after passes that create operations; an operation that has an identity keeps it.
    In a parsed module, locations are derived from the identities first.
  }];
}

def CseAcrossNodesPass : Pass<"cse-across-nodes"> {
  let summary = "Common subexpression elimination that ignores identities";
  let description = [{
    Input: any operation with regions. Runs MLIR's cse, for which operations with different identities are different, without
    the identities. Of equal operations the first one stays, with its identity.
  }];
}

#endif
