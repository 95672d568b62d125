#ifndef DIVISI_DIALECTS_DIST_SHARDINGRULE
#define DIVISI_DIALECTS_DIST_SHARDINGRULE

include "mlir/IR/OpBase.td"

def ShardingRuleInterface : OpInterface<"ShardingRuleInterface"> {
  let cppNamespace = "::divisi::dist";
  let description = [{
    Facet 3 of an operation: which factors (independent index dimensions) run through which dimensions of its operands
    and results, and how partial results combine when a contracted factor is split. Fusion asks it, too: a factor that
    runs through the leading dimensions of an operand and a result may be the outer loop of one kernel.
  }];
  let methods = [
    InterfaceMethod<"The rule of this operation.", "::divisi::dist::ShardingRule", "getShardingRule">,
    InterfaceMethod<[{
      Called by the partitioner when the types of operands and results have become local: adapts what depends on the place of
      the local part (indices, element counts). The builder stands before the operation; a returned value replaces the first
      result.
    }], "::mlir::Value", "makeLocal", (ins "::divisi::dist::LocalContext &":$context), "", [{ (void)context; return {}; }]>,
    InterfaceMethod<[{
      Gives a result a type with more elements at the end of some dimensions, whose values do not matter; the others stay.
    }], "void", "growResult", (ins "unsigned":$result, "::mlir::RankedTensorType":$type), "", [{
      $_op->getResult(result).setType(type);
    }]>,
    InterfaceMethod<"Where its result is zero, if it is elementwise.", "::divisi::dist::Zeros", "getZeros", (ins), "", [{
      return ::divisi::dist::Zeros::unknown;
    }]>,
    InterfaceMethod<"The operand for some of whose finite numbers the result is infinite or NaN (log, the divisor of div). -1: none.", "int",
      "getPole", (ins), "", [{ return -1; }]>,
    InterfaceMethod<"The operation's own verifier, which comes after those of its interfaces: rules read what it checks.",
      "::llvm::LogicalResult", "verifyItself", (ins), "", [{ return $_op.verify(); }]>
  ];
  let verify = [{ return ::divisi::dist::verifySharding(::llvm::cast<ShardingRuleInterface>($_op)); }];
}

#endif
