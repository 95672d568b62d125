#pragma once
#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

#include "dialects/Exec/ExecDialect.h.inc"
#include "dialects/Exec/ItemInterface.h.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.h.inc"

namespace divisi::exec {
/// An offset with this bit is relative to the buffer slot of the task's microbatch.
inline constexpr int64_t slotBit = int64_t(1) << 62;
} // namespace divisi::exec

/// Attributes of operations of other dialects: graph operations, functions, the module, a schedule.
namespace divisi::exec::names {
inline constexpr llvm::StringLiteral stage = "exec.stage";       // in a kernel: a materialized value
inline constexpr llvm::StringLiteral offset = "exec.offset";     // on a task's argument or result: bytes in the arena
inline constexpr llvm::StringLiteral arena = "exec.arena_bytes"; // on the module: the largest of any stage
inline constexpr llvm::StringLiteral arenas =
    "exec.arenas";                                         // on the module: arena bytes by stage, if there are several
inline constexpr llvm::StringLiteral slots = "exec.slots"; // on a schedule: for each row, offsets of buffer slots
} // namespace divisi::exec::names
