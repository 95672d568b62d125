#include "compiler/Jit.h"

#include "codegen/Emit/Places.h"
#include "codegen/Emit/Program.h"
#include "codegen/Kernels/Passes.h"
#include "compiler/Pipeline.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <cmath>
#include <cstdlib>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

JitFunction::~JitFunction() = default;
JitProgram::~JitProgram() = default;

static llvm::Error problem(const llvm::Twine &text) { return llvm::createStringError(text); }

/// The runtime's services that code may call; all other symbols come from the process (the C library).
static llvm::orc::SymbolMap services(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap map;
  auto add = [&](StringRef name, auto *function) {
    map[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
  };
#define DIVISI_ADD(service, ...) add("divisi_" #service, &divisi_##service);
  DIVISI_SERVICES(DIVISI_ADD) DIVISI_CALLS(DIVISI_ADD)
#undef DIVISI_ADD
  return map;
}

/// Finds the program in a new library of the process, with the services that it calls. `add` adds its code to the
/// library.
static llvm::Expected<const DivisiProgram *> load(std::unique_ptr<llvm::orc::LLJIT> &result,
                                                  llvm::function_ref<llvm::Error(llvm::orc::LLJIT &)> add) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machine = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!machine)
    return machine.takeError();
  machine->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(*machine).create();
  if (!jit)
    return jit.takeError();
  auto &library = (*jit)->getMainJITDylib();
  if (auto failed = library.define(llvm::orc::absoluteSymbols(services(**jit))))
    return failed;
  auto process =
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess((*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  library.addGenerator(std::move(*process));
  if (auto failed = add(**jit))
    return failed;
  auto program = (*jit)->lookup("divisi_program");
  if (!program)
    return program.takeError();
  result = std::move(*jit);
  return program->toPtr<const DivisiProgram *>();
}

/// Lowers a module at the level exec like a compiled program, with optimization.
static llvm::Expected<const DivisiProgram *> loadOptimized(ModuleOp module, std::unique_ptr<llvm::orc::LLJIT> &jit) {
  if (failed(codegen::lowerToLlvm(module, {})))
    return problem("lowering failed");
  auto objects = codegen::emitObjects(module, {}, 1);
  if (!objects)
    return objects.takeError();
  return load(jit, [&](llvm::orc::LLJIT &to) -> llvm::Error {
    for (auto &object : *objects)
      if (auto failed = to.addObjectFile(std::move(object)))
        return failed;
    return llvm::Error::success();
  });
}

/// The same without optimization, in less time.
static llvm::Expected<const DivisiProgram *> loadQuickly(ModuleOp module, std::unique_ptr<llvm::orc::LLJIT> &jit) {
  if (failed(codegen::lowerToLlvm(module, {})))
    return problem("lowering failed");
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  auto context = std::make_unique<llvm::LLVMContext>();
  auto code = translateModuleToLLVMIR(module, *context, "divisi");
  if (!code)
    return problem("translation to LLVM IR failed");
  return load(jit, [&](llvm::orc::LLJIT &to) {
    code->setDataLayout(to.getDataLayout());
    return to.addIRModule(llvm::orc::ThreadSafeModule(std::move(code), std::move(context)));
  });
}

/// The bytes of a value that is a constant; empty for others.
static std::vector<char> constantOf(Value value) {
  auto constant = graph::withoutReshape(value).getDefiningOp<graph::ConstantOp>();
  return constant ? codegen::bytesOf(cast<DenseElementsAttr>(constant.getValue())) : std::vector<char>();
}

llvm::Expected<std::unique_ptr<JitFunction>>
JitFunction::compile(ModuleOp module, llvm::function_ref<void(ModuleOp)> look, bool forGpu) {
  auto task = module.lookupSymbol<func::FuncOp>("forward");
  if (!task)
    return problem("expected a function @forward");
  std::unique_ptr<JitFunction> result(new JitFunction);
  task.setName("evaluate");
  PassManager pm(module.getContext());
  addExecPipeline(pm, forGpu);
  if (failed(pm.run(module)))
    return problem("the pipeline failed");
  if (look)
    look(module);
  task = module.lookupSymbol<func::FuncOp>("evaluate");
  for (unsigned i = 0; i < task.getNumArguments(); ++i) {
    auto name = task.getArgAttrOfType<StringAttr>(i, graph::names::input);
    result->inputs.push_back({name ? name.str() : "", task.getArgumentTypes()[i], {}});
    result->inputOffsets.push_back(task.getArgAttrOfType<IntegerAttr>(i, exec::names::offset).getInt());
  }
  Operation *terminator = task.getBody().front().getTerminator();
  for (unsigned i = 0; i < task.getNumResults(); ++i) {
    auto name = task.getResultAttrOfType<StringAttr>(i, graph::names::output);
    result->outputs.push_back({name ? name.str() : "", task.getResultTypes()[i], {}});
    auto offset = task.getResultAttrOfType<IntegerAttr>(i, exec::names::offset);
    result->outputOffsets.push_back(offset ? offset.getInt() : -1);
    result->constants.push_back(constantOf(terminator->getOperand(i)));
  }
  auto program = loadOptimized(module, result->jit);
  if (!program)
    return program.takeError();
  result->program = *program;
  return result;
}

void JitFunction::run(DivisiContext *context) {
  size_t bytes = (program->arena_bytes + DIVISI_ALIGNMENT) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT;
  std::unique_ptr<char, decltype(&std::free)> arena((char *)std::aligned_alloc(DIVISI_ALIGNMENT, bytes), &std::free);
  memset(arena.get(), 0, bytes);
  for (auto [input, offset] : llvm::zip(inputs, inputOffsets))
    llvm::copy(input.bytes, arena.get() + offset);
  program->tasks[0](context, arena.get(), arena.get(), program->constants);
  for (auto [output, offset, constant] : llvm::zip(outputs, outputOffsets, constants)) {
    char *from = arena.get() + offset;
    output.bytes = offset < 0 ? constant : std::vector<char>(from, from + graph::bytesOf(output.type));
  }
}

DivisiTask JitProgram::task(StringRef name) const {
  auto it = llvm::find(names, name);
  return it == names.end() ? nullptr : program->tasks[it - names.begin()];
}

llvm::Expected<std::unique_ptr<JitProgram>> JitProgram::compile(ModuleOp module) {
  std::unique_ptr<JitProgram> result(new JitProgram);
  PassManager pm(module.getContext());
  addExecPipeline(pm, /*forGpu=*/false);
  if (failed(pm.run(module)))
    return problem("the pipeline failed");
  auto place = [](Type type, DictionaryAttr attributes) {
    auto offset = attributes.getAs<IntegerAttr>(exec::names::offset);
    return Place{cast<RankedTensorType>(type), attributes, offset ? offset.getInt() : -1, {}};
  };
  for (auto task : module.getOps<func::FuncOp>()) {
    result->names.push_back(task.getName().str());
    for (unsigned i = 0; i < task.getNumArguments(); ++i) {
      DictionaryAttr attributes = task.getArgAttrDict(i);
      StringAttr name;
      if (auto state = attributes.getAs<DictionaryAttr>(graph::names::state))
        name = state.getAs<StringAttr>("name");
      for (StringRef kind : {graph::names::input, graph::names::scalar})
        if (!name)
          name = attributes.getAs<StringAttr>(kind);
      if (!name)
        continue;
      Place entry = place(task.getArgumentTypes()[i], attributes);
      auto known = result->arguments.try_emplace(name.str(), entry).first->second;
      if (known.type != entry.type || known.attributes.get(dist::names::global) != attributes.get(dist::names::global))
        return problem("'" + name.getValue() + "' does not lie alike in all tasks");
    }
    for (unsigned i = 0; i < task.getNumResults(); ++i)
      if (auto report = task.getResultAttrOfType<DictionaryAttr>(i, graph::names::result)) {
        std::string name = (task.getName() + " " + report.getAs<StringAttr>("kind").getValue()).str();
        if (auto of = report.getAs<StringAttr>("name"))
          name += (" " + of.getValue()).str();
        Place entry = place(task.getResultTypes()[i], task.getResultAttrDict(i));
        entry.constant = constantOf(task.getBody().front().getTerminator()->getOperand(i));
        result->results.emplace(name, std::move(entry));
      }
  }
  auto program = loadQuickly(module, result->jit);
  if (!program)
    return program.takeError();
  result->program = *program;
  return result;
}
