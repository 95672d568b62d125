#ifndef DIVISI_DIALECTS_DIST_BASE
#define DIVISI_DIALECTS_DIST_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::divisi::dist";
  let summary = "how tensors lie on a mesh of devices, and communication";
  let description = [{
    The sharding of a tensor is the encoding of its type: `tensor<64x1024xf32, #dist.shard<"data", _>>`. A type without encoding
    is replicated. A function with the attribute `dist.mesh` is planned: its types are global and every operation in it is
    verified against its sharding rule. The partitioner replaces global by local types and dist.reshard by
    collectives, and renames the attribute to `dist.partitioned`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerOperations();
  }];
}

def Dist_ReductionEnum : I32EnumAttr<"ReductionKind", "how partial values are combined", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>]> {
  let cppNamespace = "::divisi::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReductionAttr : EnumAttr<Dist_Dialect, Dist_ReductionEnum, "reduction">;

def Dist_MeshAttr : AttrDef<Dist_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "devices in a grid with named axes";
  let description = [{
    `#dist.mesh<"data" = 2, "model" = 4>`: device numbers are row-major, the last axis is the fastest.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axes, ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_ShardAttr : AttrDef<Dist_Dialect, "Shard", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "shard";
  let summary = "how a tensor lies on a mesh";
  let description = [{
    One entry per dimension, `_` or the axes that it is split over (major to minor: `"data" + "model"`); at the end a pending
    reduction (`sum "model"`), over axes in alphabetical order. A replicated tensor has no sharding.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::ArrayAttr">:$dims, "::divisi::dist::ReductionKind":$kind,
                        "::mlir::ArrayAttr":$pending);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif
