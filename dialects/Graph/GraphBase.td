#ifndef DIVISI_DIALECTS_GRAPH_BASE
#define DIVISI_DIALECTS_GRAPH_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Dist/Documentation.td"
include "dialects/Dist/ShardingRule.td"
include "dialects/Graph/Interfaces.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::divisi::graph";
  let summary = "tensors and named operations of a model and of its training step";
  let description = [{
    Pure value semantics, static shapes. The importer inserts these operations, the training passes add the gradient and
    the update, and code generation removes them. Parameters are function arguments with a name; every operation has
    an identity, the attribute `graph.node`: which operation of which ONNX node it is (dialects/Graph/Nodes.h).

    In the equations `i..` stands for an index of any number of dimensions, and `@` for a matmul. A message of a verifier ends
    with the number of the constraint that does not hold; the types and shapes that an operation's definition or a trait
    demands have MLIR's messages, which have no number. Wherever a constraint speaks of a type, the sharding of the tensor
    (its encoding) is left out: the sharding rule's verifier checks it.
  }];
  let dependentDialects = ["::divisi::dist::DistDialect"];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    // One per family, defined beside its operations.
    void registerAttributes();
    void addAttention();
    void addContraction();
    void addElementwise();
    void addIndexing();
    void addLoss();
    void addNormalization();
    void addPooling();
    void addRandom();
    void addReduction();
    void addShape();
  }];
}

// Every operation is pure, and has a gradient, a sharding rule and a cost. Types are inferred by one function for the
// builder and the verifier; encodings are left to the sharding rule's verifier.
class Graph_Op<string mnemonic, list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleInterface>,
         DeclareOpInterfaceMethods<GradientInterface>], traits)>, Documented {
  let removedBy = "form-kernels, which moves it into an exec.kernel";
  let description = documentation;
}

class Graph_InferredOp<string mnemonic, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat(traits, [InferTypeOpAdaptor])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  code inferred = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange actual) {
      return ::divisi::graph::sameShapes(inferred, actual);
    }
  }];
  let extraClassDeclaration = inferred;
}

// Composite operations: code generation decomposes them into reductions and elementwise operations.
class Graph_Composite<string mnemonic, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat(traits, [CostInterface, DeclareOpInterfaceMethods<DecomposeInterface>])> {
  let removedBy = "decompose";
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getFlopsPerPoint() { return 8; }
  }];
}

#endif
