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

namespace divisi::exec {
/// An offset with this bit is relative to the slot of the microbatch that a task works on.
inline constexpr int64_t slotBit = int64_t(1) << 62;
} // namespace divisi::exec

namespace divisi::exec::names {
inline constexpr llvm::StringLiteral stage = "exec.stage";           // in a kernel: a value that is computed once
inline constexpr llvm::StringLiteral when = "exec.when";             // on an operation: DivisiWhen bits
inline constexpr llvm::StringLiteral batch = "exec.batch";           // on kernels in a row: those launched at once
inline constexpr llvm::StringLiteral collective = "exec.collective"; // on a call: what it is, for people
inline constexpr llvm::StringLiteral workspace = "exec.workspace";   // on a call: the last result is its workspace
inline constexpr llvm::StringLiteral offset = "exec.offset";     // on a task's argument or result: bytes in the arena
inline constexpr llvm::StringLiteral arena = "exec.arena_bytes"; // on the module: the most of any stage
inline constexpr llvm::StringLiteral arenas =
    "exec.arenas";                                         // on the module: arena bytes by stage, if there are several
inline constexpr llvm::StringLiteral slots = "exec.slots"; // on a schedule: the offsets of slots, in rows like its own
} // namespace divisi::exec::names
