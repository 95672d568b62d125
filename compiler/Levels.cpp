#include "compiler/Levels.h"

#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

static const LevelInfo levels[] = {
    {Level::graph, "graph", "the model's tensors and named operations, static shapes, loss"},
    {Level::train, "train", "the training step and the evaluation, pure functions over one state"},
    {Level::planned, "planned", "for several devices: every type carries its sharding"},
    {Level::dist, "dist", "for several devices: local shapes, explicit collectives"},
    {Level::exec, "exec", "tasks over buffers at fixed offsets: fused kernels and library calls"},
    {Level::llvm, "llvm", "host code and kernels in the LLVM dialect"},
};

ArrayRef<LevelInfo> compiler::allLevels() { return levels; }

std::optional<Level> compiler::levelByName(StringRef name) {
  for (const LevelInfo &info : levels)
    if (info.name == name)
      return info.level;
  return std::nullopt;
}

Level compiler::levelOf(ModuleOp module) {
  if (!module.getOps<LLVM::LLVMFuncOp>().empty())
    return Level::llvm;
  if (module->hasAttr(exec::names::arena))
    return Level::exec;
  if (!module.getOps<dist::ScheduleOp>().empty())
    return Level::dist;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(dist::names::mesh) || function->hasAttr(dist::names::partitioned))
      return function->hasAttr(dist::names::mesh) ? Level::planned : Level::dist;
  return module.lookupSymbol("train") ? Level::train : Level::graph;
}
