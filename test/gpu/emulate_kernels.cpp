// emulate_kernels EXEC.mlir OUT.o: the kernels for GPUs of a dump at the level exec as an object file for this
// processor.
#include "codegen/Emit/Program.h"
#include "compiler/Pipeline.h"
#include "test/gpu/HostKernels.h"

#include "mlir/Parser/Parser.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace divisi;

int main(int argc, char **argv) {
  if (argc != 3) {
    llvm::errs() << "usage: emulate_kernels EXEC.mlir OUT.o\n";
    return 2;
  }
  DialectRegistry registry;
  compiler::registerAll(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  auto kernels = codegen::lowerToCuda(*module);
  if (failed(kernels))
    return 1;
  llvm::LLVMContext llvmContext;
  auto code = test::makeHostKernels(*kernels->module, llvmContext);
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64", "", {}, llvm::Reloc::PIC_));
  code->setTargetTriple(triple);
  code->setDataLayout(machine->createDataLayout());
  std::error_code failed;
  llvm::raw_fd_ostream out(argv[2], failed);
  if (failed) {
    llvm::errs() << argv[2] << ": " << failed.message() << "\n";
    return 1;
  }
  llvm::legacy::PassManager passes;
  machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile);
  passes.run(*code);
  return 0;
}
