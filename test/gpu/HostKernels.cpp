#include "test/gpu/HostKernels.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// The replacement of an intrinsic of GPUs or of a function of libdevice.
std::string replacementOf(llvm::StringRef name) {
  static const std::map<std::string, std::string> names = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", "emulated_thread"},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", "emulated_block"},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", "emulated_barrier"},
      {"llvm.nvvm.barrier0", "emulated_barrier"},
      {"llvm.nvvm.bar.warp.sync", "emulated_warp_sync"},
      {"llvm.nvvm.shfl.sync.bfly.i32", "emulated_shuffle"},
      {"llvm.nvvm.shfl.sync.bfly.f32", "emulated_shuffle_float"},
      {"llvm.nvvm.ex2.approx.ftz.f32", "exp2f"},
      {"llvm.nvvm.rcp.approx.ftz.f", "approximate_reciprocal"},
  };
  if (name.consume_front("__nv_"))
    return name.str();
  auto it = names.find(name.str());
  if (it == names.end() && name.starts_with("llvm.nvvm."))
    throw std::runtime_error("no emulation of " + name.str());
  return it == names.end() ? "" : it->second;
}

/// Whether threads of a kernel wait for each other.
bool waits(const llvm::Function &kernel) {
  for (const llvm::BasicBlock &block : kernel)
    for (const llvm::Instruction &instruction : block)
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        if (const llvm::Function *callee = call->getCalledFunction();
            callee && callee->getName().starts_with("emulated_"))
          if (callee->getName() != "emulated_thread" && callee->getName() != "emulated_block")
            return true;
  return false;
}

void rewrite(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module)) {
    std::string name = replacementOf(function.getName());
    if (name.empty())
      continue;
    auto callee = module.getOrInsertFunction(name, function.getFunctionType());
    function.replaceAllUsesWith(callee.getCallee());
    function.eraseFromParent();
  }
  std::vector<llvm::Function *> kernels;
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      kernels.push_back(&function);
  auto *pointer = llvm::PointerType::getUnqual(module.getContext());
  for (llvm::Function *kernel : kernels) {
    kernel->setCallingConv(llvm::CallingConv::C);
    kernel->setAttributes({});
    auto *flag = llvm::ConstantInt::get(llvm::Type::getInt8Ty(module.getContext()), waits(*kernel));
    new llvm::GlobalVariable(module, flag->getType(), true, llvm::GlobalValue::ExternalLinkage, flag,
                             kernel->getName() + "_together");
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), {pointer}, false);
    auto *call = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel->getName() + "_call", module);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "", call));
    std::vector<llvm::Value *> arguments;
    for (unsigned i = 0; i < kernel->arg_size(); ++i)
      arguments.push_back(b.CreateLoad(pointer, b.CreateConstGEP1_32(pointer, call->getArg(0), i)));
    b.CreateCall(kernel, arguments);
    b.CreateRetVoid();
  }
}
} // namespace

std::unique_ptr<llvm::Module> divisi::test::makeHostKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context) {
  mlir::registerBuiltinDialectTranslation(*kernels.getContext());
  mlir::registerLLVMDialectTranslation(*kernels.getContext());
  mlir::registerNVVMDialectTranslation(*kernels.getContext());
  auto module = mlir::translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    throw std::runtime_error("translation to LLVM IR failed");
  rewrite(*module);
  return module;
}
