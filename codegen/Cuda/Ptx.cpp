#include "codegen/Cuda/Ptx.h"

#include "codegen/Emit/Optimize.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <thread>

using namespace mlir;
using namespace divisi;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

/// Fails if this LLVM has no code generator for GPUs.
static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(int architecture) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string why;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target)
    return llvm::createStringError(why);
  // The first version of PTX that supports the architecture. Below 9.0, all versions have the instructions that are
  // used.
  const char *version = architecture == 120   ? "+ptx87"
                        : architecture == 103 ? "+ptx88"
                        : architecture >= 100 ? "+ptx86"
                                              : "+ptx78";
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, "sm_" + std::to_string(architecture),
                                                                          version, options, std::nullopt, std::nullopt,
                                                                          llvm::CodeGenOptLevel::Aggressive));
}

std::string codegen::findLibdevice() {
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH", ""}) {
    std::string root = *variable ? llvm::sys::Process::GetEnv(variable).value_or("") : "/usr/local/cuda";
    llvm::SmallString<128> path(root);
    llvm::sys::path::append(path, "nvvm", "libdevice", "libdevice.10.bc");
    if (!root.empty() && llvm::sys::fs::exists(path))
      return path.str().str();
  }
  return "";
}

/// Links the functions of libdevice that kernels call.
static llvm::Error linkLibdevice(llvm::Module &module) {
  std::string wanted;
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty())
      wanted = function.getName().str();
  if (wanted.empty())
    return llvm::Error::success();
  std::string path = codegen::findLibdevice();
  if (path.empty())
    return llvm::createStringError("a kernel needs '" + wanted +
                                   "' of the CUDA Toolkit's libdevice.10.bc: install the Toolkit, or set CUDA_HOME to "
                                   "where it is");
  llvm::SMDiagnostic diagnostic;
  auto library = llvm::parseIRFile(path, diagnostic, module.getContext());
  if (!library)
    return llvm::createStringError("cannot read '" + path + "': " + diagnostic.getMessage().str());
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded))
    return llvm::createStringError("cannot link '" + path + "'");
  for (llvm::Function &function : module) {
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
        function.getName() != "__nvvm_reflect")
      return llvm::createStringError("a kernel needs '" + function.getName().str() + "', which '" + path +
                                     "' does not have");
    if (!function.isDeclaration() && function.getName().starts_with("__nv"))
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  return llvm::Error::success();
}

/// Compiles LLVM IR in bitcode to PTX.
static llvm::Expected<std::string> compile(StringRef bitcode, int architecture) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, "kernels"), context);
  if (!module)
    return module.takeError();
  auto found = createMachine(architecture);
  if (!found)
    return found.takeError();
  llvm::TargetMachine *machine = found->get();
  (*module)->setTargetTriple(machine->getTargetTriple());
  (*module)->setDataLayout(machine->createDataLayout());
  if (llvm::Error error = linkLibdevice(**module))
    return error;
  codegen::optimize(**module, *machine, /*forCpu=*/false);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("LLVM cannot write PTX");
  passes.run(**module);
  return std::string(text.begin(), text.end());
}

llvm::Expected<std::vector<std::string>> codegen::emitPtx(ModuleOp kernels, ArrayRef<int> architectures) {
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  registerNVVMDialectTranslation(*kernels.getContext());
  llvm::LLVMContext context;
  auto module = translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return llvm::createStringError("translation of GPU kernels to LLVM IR failed");
  llvm::SmallVector<char, 0> bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(*module, stream);
  std::vector<std::string> texts(architectures.size()), problems(architectures.size());
  std::vector<std::thread> workers; // LLVM contexts are not shared between threads
  for (size_t i = 0; i < texts.size(); ++i)
    workers.emplace_back([&, i] {
      auto text = compile(StringRef(bitcode.data(), bitcode.size()), architectures[i]);
      if (text)
        texts[i] = std::move(*text);
      else
        problems[i] = llvm::toString(text.takeError());
    });
  for (std::thread &worker : workers)
    worker.join();
  for (const std::string &problem : problems)
    if (!problem.empty())
      return llvm::createStringError(problem);
  return texts;
}
