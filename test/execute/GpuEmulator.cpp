#include "test/execute/GpuEmulator.h"

#include "test/gpu/EmulatedThreads.h"
#include "test/gpu/HostKernels.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

#include <stdexcept>

using namespace divisi::test;

namespace {
template <typename T> T check(llvm::Expected<T> value) {
  if (!value)
    throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}
void check(llvm::Error error) {
  if (error)
    throw std::runtime_error(llvm::toString(std::move(error)));
}
} // namespace

GpuEmulator::GpuEmulator(const codegen::CudaKernels &given) : CpuLibraries(given) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = makeHostKernels(*given.module, *context);
  auto machine = check(llvm::orc::JITTargetMachineBuilder::detectHost());
  machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  jit = check(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(machine).create());
  llvm::orc::SymbolMap symbols;
  auto add = [&](llvm::StringRef name, auto *function) {
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
  };
  add("emulated_thread", &emulated_thread);
  add("emulated_block", &emulated_block);
  add("emulated_barrier", &emulated_barrier);
  add("emulated_warp_sync", &emulated_warp_sync);
  add("emulated_shuffle", &emulated_shuffle);
  add("emulated_shuffle_float", &emulated_shuffle_float);
  add("approximate_reciprocal", &approximate_reciprocal);
  auto &library = jit->getMainJITDylib();
  check(library.define(llvm::orc::absoluteSymbols(symbols)));
  library.addGenerator(
      check(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(jit->getDataLayout().getGlobalPrefix())));
  module->setDataLayout(jit->getDataLayout());
  module->setTargetTriple(jit->getTargetTriple());
  check(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
}

GpuEmulator::~GpuEmulator() = default;

void GpuEmulator::launch(const DivisiKernel &kernel, void *const *buffers) {
  std::string name = kernel.name;
  auto call = check(jit->lookup(name + "_call"));
  auto together = check(jit->lookup(name + "_together"));
  ++launches;
  const codegen::Launchable &how = launchables.at(name);
  if (!emulated_launch(call.toPtr<void (*)(void *const *)>(), buffers, how.blocks, how.threads,
                       *together.toPtr<const char *>()))
    throw std::runtime_error("threads of a block wait for each other for ever");
}
