#include "test/execute/GpuEmulator.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/TargetSelect.h"

#include <stdexcept>
#include <ucontext.h>
#include <vector>

using namespace divisi::test;

namespace {

/// The threads of one block, as fibers.
class Block {
public:
  using Kernel = void (*)(void *const *);

  Block(Kernel kernel, void *const *buffers, int64_t number, int64_t threads)
      : kernel(kernel), buffers(buffers), number(number), fibers(threads) {}

  void run() {
    running = this;
    for (size_t i = 0; i < fibers.size(); ++i)
      prepare(i);
    while (true) {
      bool moved = false, all = true;
      for (current = 0; current < fibers.size(); ++current) {
        if (fibers[current].state != State::ready)
          continue;
        moved = true;
        swapcontext(&scheduler, &fibers[current].context);
      }
      for (const Fiber &fiber : fibers)
        all &= fiber.state == State::done;
      if (all)
        return;
      if (!release() && !moved)
        throw std::runtime_error("threads of a block wait for each other for ever");
    }
  }

  static int32_t thread() { return (int32_t)running->current; }
  static int32_t block() { return (int32_t)running->number; }
  static void barrier() { running->stop(State::atBarrier); }
  static void warpSync(int32_t) { running->stop(State::atWarp); }
  static int32_t shuffle(int32_t, int32_t value, int32_t distance, int32_t) {
    Block &block = *running;
    size_t me = block.current;
    block.fibers[me].value = value;
    block.stop(State::atWarp);
    int32_t other = block.fibers[me ^ (size_t)distance].value;
    block.stop(State::atWarp);
    return other;
  }
  static float shuffleFloat(int32_t mask, float value, int32_t distance, int32_t clamp) {
    return std::bit_cast<float>(shuffle(mask, std::bit_cast<int32_t>(value), distance, clamp));
  }

private:
  static constexpr size_t stackBytes = 1 << 16, warp = 32;
  enum class State { ready, atWarp, atBarrier, done };
  struct Fiber {
    ucontext_t context;
    State state = State::ready;
    int32_t value = 0;
  };

  void prepare(size_t i) {
    if (stacks.size() <= i)
      stacks.push_back(std::make_unique<char[]>(stackBytes));
    ucontext_t &context = fibers[i].context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[i].get();
    context.uc_stack.ss_size = stackBytes;
    context.uc_link = &scheduler;
    makecontext(&context, &Block::enter, 0);
  }
  static void enter() {
    Block &block = *running;
    block.kernel(block.buffers);
    block.fibers[block.current].state = State::done;
  }
  void stop(State state) {
    size_t me = current;
    fibers[me].state = state;
    swapcontext(&fibers[me].context, &scheduler);
  }
  /// Warps whose threads have all come to the same place go on, and so does a block. As on a GPU, threads that have
  /// ended do not take part.
  bool release() {
    bool any = releaseIf(0, fibers.size(), State::atBarrier);
    for (size_t first = 0; first < fibers.size(); first += warp)
      any |= releaseIf(first, std::min(first + warp, fibers.size()), State::atWarp);
    return any;
  }
  bool releaseIf(size_t first, size_t last, State wanted) {
    bool some = false;
    for (size_t i = first; i < last; ++i) {
      some |= fibers[i].state == wanted;
      if (fibers[i].state != wanted && fibers[i].state != State::done)
        return false;
    }
    for (size_t i = first; i < last; ++i)
      if (fibers[i].state == wanted)
        fibers[i].state = State::ready;
    return some;
  }

  static thread_local Block *running;
  static thread_local std::vector<std::unique_ptr<char[]>> stacks; // blocks run one after the other
  Kernel kernel;
  void *const *buffers;
  int64_t number;
  std::vector<Fiber> fibers;
  size_t current = 0;
  ucontext_t scheduler;
};
thread_local Block *Block::running = nullptr;
thread_local std::vector<std::unique_ptr<char[]>> Block::stacks;

/// What an intrinsic of GPUs, or a function of libdevice, is here.
std::string replacementOf(llvm::StringRef name) {
  static const std::map<std::string, std::string> names = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", "emulated_thread"},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", "emulated_block"},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", "emulated_barrier"},
      {"llvm.nvvm.barrier0", "emulated_barrier"},
      {"llvm.nvvm.bar.warp.sync", "emulated_warp_sync"},
      {"llvm.nvvm.shfl.sync.bfly.i32", "emulated_shuffle"},
      {"llvm.nvvm.shfl.sync.bfly.f32", "emulated_shuffle_float"},
  };
  if (name.consume_front("__nv_"))
    return name.str();
  auto it = names.find(name.str());
  if (it == names.end() && name.starts_with("llvm.nvvm."))
    throw std::runtime_error("no emulation of " + name.str());
  return it == names.end() ? "" : it->second;
}

/// Makes kernels functions of this processor: name_call(buffers) is what is called.
void makeHost(llvm::Module &module) {
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

GpuEmulator::GpuEmulator(const codegen::CudaKernels &given) {
  for (const codegen::Launchable &launchable : given.launchables)
    launchables.emplace(launchable.name, launchable);
  mlir::ModuleOp kernels = *given.module;
  mlir::registerBuiltinDialectTranslation(*kernels.getContext());
  mlir::registerLLVMDialectTranslation(*kernels.getContext());
  mlir::registerNVVMDialectTranslation(*kernels.getContext());
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = mlir::translateModuleToLLVMIR(kernels, *context, "kernels");
  if (!module)
    throw std::runtime_error("translation to LLVM IR failed");
  makeHost(*module);
  auto machine = check(llvm::orc::JITTargetMachineBuilder::detectHost());
  machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  jit = check(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(machine).create());
  llvm::orc::SymbolMap symbols;
  auto add = [&](llvm::StringRef name, auto *function) {
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
  };
  add("emulated_thread", &Block::thread);
  add("emulated_block", &Block::block);
  add("emulated_barrier", &Block::barrier);
  add("emulated_warp_sync", &Block::warpSync);
  add("emulated_shuffle", &Block::shuffle);
  add("emulated_shuffle_float", &Block::shuffleFloat);
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
  auto address = check(jit->lookup(std::string(kernel.name) + "_call"));
  ++launches;
  const codegen::Launchable &how = launchables.at(kernel.name);
  for (int64_t block = 0; block < how.blocks; ++block)
    Block(address.toPtr<Block::Kernel>(), buffers, block, how.threads).run();
}

void GpuEmulator::conv(runtime::ConvKind kind, const DivisiConv &params, void *const *buffers) {
  using runtime::ConvKind;
  auto *service = kind == ConvKind::Forward     ? divisi_conv_forward
                  : kind == ConvKind::InputGrad ? divisi_conv_input_grad
                                                : divisi_conv_filter_grad;
  service(&cpu, &params, buffers);
}
