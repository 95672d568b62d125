#include "compiler/Jit.h"

#include "codegen/Emit/Program.h"
#include "codegen/Kernels/Passes.h"
#include "compiler/Pipeline.h"

#include "mlir/Pass/PassManager.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <cstdlib>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

JitFunction::~JitFunction() = default;

static llvm::Error problem(const llvm::Twine &text) { return llvm::createStringError(text); }

/// The services of the runtime that code may call; everything else comes from the process (the C library).
static llvm::orc::SymbolMap services(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap map;
  auto add = [&](StringRef name, auto *function) {
    map[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
  };
  add("divisi_launch", &divisi_launch);
  add("divisi_wants", &divisi_wants);
  add("divisi_copy", &divisi_copy);
  add("divisi_gemm", &divisi_gemm);
  add("divisi_conv_forward", &divisi_conv_forward);
  add("divisi_conv_input_grad", &divisi_conv_input_grad);
  add("divisi_conv_filter_grad", &divisi_conv_filter_grad);
  add("divisi_top_k", &divisi_top_k);
  return map;
}

llvm::Expected<std::unique_ptr<JitFunction>> JitFunction::compile(ModuleOp module) {
  auto task = module.lookupSymbol<func::FuncOp>("forward");
  if (!task)
    return problem("expected a function @forward");
  std::unique_ptr<JitFunction> result(new JitFunction);
  task.setName("evaluate");
  PassManager pm(module.getContext());
  addExecPipeline(pm);
  if (failed(pm.run(module)))
    return problem("the pipeline failed");
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
    Value value = terminator->getOperand(i);
    while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
      value = reshape.getX();
    auto constant = value.getDefiningOp<graph::ConstantOp>();
    result->constants.push_back(constant ? codegen::bytesOf(cast<DenseElementsAttr>(constant.getValue()))
                                         : std::vector<char>());
  }
  if (failed(codegen::lowerToLlvm(module, {})))
    return problem("lowering failed");
  std::string error;
  auto objects = codegen::emitObjects(module, {}, 1, error);
  if (objects.empty())
    return problem(error);
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  auto &library = (*jit)->getMainJITDylib();
  if (auto failed = library.define(llvm::orc::absoluteSymbols(services(**jit))))
    return failed;
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess((*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  library.addGenerator(std::move(*process));
  for (auto &object : objects)
    if (auto failed = (*jit)->addObjectFile(std::move(object)))
      return failed;
  auto program = (*jit)->lookup("divisi_program");
  if (!program)
    return program.takeError();
  result->program = program->toPtr<const DivisiProgram *>();
  result->jit = std::move(*jit);
  return result;
}

void JitFunction::run(DivisiContext *context) {
  size_t bytes = (program->arena_bytes + DIVISI_ALIGNMENT) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT;
  std::unique_ptr<char, decltype(&std::free)> arena((char *)std::aligned_alloc(DIVISI_ALIGNMENT, bytes), &std::free);
  memset(arena.get(), 0, bytes);
  for (auto [input, offset] : llvm::zip(inputs, inputOffsets))
    llvm::copy(input.bytes, arena.get() + offset);
  program->evaluate(context, arena.get());
  for (auto [output, offset, constant] : llvm::zip(outputs, outputOffsets, constants)) {
    char *from = arena.get() + offset;
    output.bytes = offset < 0 ? constant : std::vector<char>(from, from + graph::bytesOf(output.type));
  }
}
