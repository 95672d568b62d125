#ifndef DIVISI_PASSES_IDENTITY
#define DIVISI_PASSES_IDENTITY

include "mlir/Pass/PassBase.td"

def NameNodesPass : Pass<"name-nodes", "::mlir::ModuleOp"> {
  let summary = "Gives operations without an identity one, derived from the operation at whose location they were made";
  let description = [{
    Input: any module with functions. Output: the same, each operation at a named location with a `graph.node` that is unique in its
    function (dialects/Graph/Nodes.h). Stands behind passes that make operations; what has an identity keeps it. Locations of
    a parsed module are first made of its identities.
  }];
}

def CseAcrossNodesPass : Pass<"cse-across-nodes"> {
  let summary = "MLIR's cse, for operations that differ in their identity alone, too";
  let description = [{
    Input: any operation with regions. Of equal operations the first stays, with its identity.
  }];
}

#endif
