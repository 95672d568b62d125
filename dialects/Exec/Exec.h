#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Exec/ExecDialect.h.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.h.inc"

namespace divisi::exec::names {
inline constexpr llvm::StringLiteral stage = "exec.stage";      // in a kernel: a value that is computed once
inline constexpr llvm::StringLiteral when = "exec.when";        // on an operation: DivisiWhen bits
inline constexpr llvm::StringLiteral collective = "exec.collective"; // on a call: what it is, for people
inline constexpr llvm::StringLiteral offset = "exec.offset";    // on a task's argument or result: bytes in the arena
inline constexpr llvm::StringLiteral arena = "exec.arena_bytes"; // on the module
} // namespace divisi::exec::names
