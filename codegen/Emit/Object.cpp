#include "codegen/Emit/Optimize.h"
#include "codegen/Emit/Program.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/SplitModule.h"

#include <thread>

using namespace mlir;
using namespace divisi::codegen;

/// Registers the host's code generator once; registration is not thread-safe.
static void initializeTarget() {
  static const bool done = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)done;
}

bool divisi::codegen::isKnownCpu(StringRef cpu) {
  if (cpu == "native")
    return true;
  initializeTarget();
  std::string error;
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target ? target->createMCSubtargetInfo(triple, "", "") : nullptr);
  return subtarget && subtarget->isCPUStringValid(cpu);
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const CpuTarget &target) {
  initializeTarget();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string why;
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!found)
    return llvm::createStringError(why);
  bool native = target.cpu == "native";
  std::string cpu = native ? llvm::sys::getHostCPUName().str() : target.cpu, features;
  if (native)
    for (const auto &[name, on] : llvm::sys::getHostCPUFeatures())
      features += (features.empty() ? "" : ",") + std::string(on ? "+" : "-") + name.str();
  // Wide vectors are faster in kernels that stream through memory.
  features += (features.empty() ? "" : ",") + std::string("-prefer-256-bit");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  auto *machine = found->createTargetMachine(triple, cpu, features, options, llvm::Reloc::PIC_, std::nullopt,
                                             llvm::CodeGenOptLevel::Default);
  return std::unique_ptr<llvm::TargetMachine>(machine);
}

/// An object file; null if the target cannot write one.
static std::unique_ptr<llvm::MemoryBuffer> compile(llvm::Module &module, llvm::TargetMachine &machine) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", machine.getTargetCPU());
      function.addFnAttr("target-features", machine.getTargetFeatureString());
      function.addFnAttr("prefer-vector-width", "512");
    }
  optimize(module, machine, /*forCpu=*/true);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return nullptr;
  passes.run(module);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), "divisi.o", false);
}

llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
divisi::codegen::emitObjects(ModuleOp module, const CpuTarget &target, unsigned threads, StringRef suffix) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto whole = translateModuleToLLVMIR(module, context, "divisi");
  if (!whole)
    return llvm::createStringError("translation to LLVM IR failed");
  if (!suffix.empty()) // internal names, too: a module that is split exports them to its other part
    for (llvm::GlobalValue &value : whole->global_values())
      if (!value.isDeclaration())
        value.setName((value.getName() + suffix).str());
  whole->setTargetTriple((*machine)->getTargetTriple());
  whole->setDataLayout((*machine)->createDataLayout());
  // LLVM contexts are not shared between threads: each part of the module goes to its own context as bitcode.
  std::vector<llvm::SmallVector<char, 0>> pieces;
  llvm::SplitModule(*whole, std::max(1u, threads), [&](std::unique_ptr<llvm::Module> piece) {
    llvm::raw_svector_ostream stream(pieces.emplace_back());
    llvm::WriteBitcodeToFile(*piece, stream);
  });
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> objects(pieces.size());
  std::vector<std::thread> workers;
  for (size_t i = 0; i < pieces.size(); ++i)
    workers.emplace_back([&, i] {
      llvm::LLVMContext own;
      auto ownMachine = llvm::cantFail(createTargetMachine(target)); // created successfully before
      llvm::MemoryBufferRef bitcode(StringRef(pieces[i].data(), pieces[i].size()), "piece");
      auto piece = llvm::parseBitcodeFile(bitcode, own);
      if (!piece)
        return llvm::consumeError(piece.takeError());
      objects[i] = compile(**piece, *ownMachine);
    });
  for (std::thread &worker : workers)
    worker.join();
  if (llvm::is_contained(objects, nullptr))
    return llvm::createStringError("code generation failed");
  return objects;
}
