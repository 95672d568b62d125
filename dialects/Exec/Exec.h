#pragma once
#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

#include "dialects/Exec/ExecDialect.h.inc"
#include "dialects/Exec/ItemInterface.h.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.h.inc"

namespace divisi::exec {
/// An offset with this bit is relative to the slot of the microbatch that a task works on.
inline constexpr int64_t slotBit = int64_t(1) << 62;
} // namespace divisi::exec

/// Attributes of what belongs to other dialects: graph operations, functions, the module, a schedule.
namespace divisi::exec::names {
inline constexpr llvm::StringLiteral stage = "exec.stage";       // in a kernel: a value that is computed once
inline constexpr llvm::StringLiteral offset = "exec.offset";     // on a task's argument or result: bytes in the arena
inline constexpr llvm::StringLiteral arena = "exec.arena_bytes"; // on the module: the most of any stage
inline constexpr llvm::StringLiteral arenas =
    "exec.arenas";                                         // on the module: arena bytes by stage, if there are several
inline constexpr llvm::StringLiteral slots = "exec.slots"; // on a schedule: the offsets of slots, in rows like its own
} // namespace divisi::exec::names
