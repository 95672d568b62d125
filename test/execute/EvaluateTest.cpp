// Constants of every operation, evaluated during compilation, compared with the compiled CPU path.
#include "codegen/Evaluate.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "runtime/core/Context.h"
#include "test/codegen/Samples.h"
#include "test/execute/JitContext.h"
#include "test/execute/Tensors.h"

#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;

namespace {

/// The sample as @forward, which returns the operation's first result.
OwningOpRef<ModuleOp> forwardOf(const Sample &sample, MLIRContext &context) {
  auto module = parseSourceString<ModuleOp>("func.func @forward(" + sample.arguments + ") {\n" + sample.operation + "\nreturn\n}", &context);
  if (!module)
    return {};
  auto function = module->lookupSymbol<func::FuncOp>("forward");
  Block &block = function.getBody().front();
  Value result = block.front().getResult(0);
  block.getTerminator()->setOperands(result);
  function.setType(FunctionType::get(&context, function.getArgumentTypes(), result.getType()));
  return module;
}

/// Replaces the arguments by constants with these bytes.
DenseElementsAttr evaluated(ModuleOp module, ArrayRef<Bytes> arguments, int64_t budget) {
  auto function = module.lookupSymbol<func::FuncOp>("forward");
  Block &block = function.getBody().front();
  Operation *op = &block.front();
  OpBuilder builder(op);
  for (auto [argument, bytes] : llvm::zip(block.getArguments(), arguments)) {
    auto type = cast<RankedTensorType>(argument.getType());
    DenseElementsAttr value;
    if (type.getElementType().isInteger(1))
      value = DenseElementsAttr::get(type, ArrayRef((const bool *)bytes.data(), bytes.size()));
    else
      value = DenseElementsAttr::getFromRawBuffer(type, bytes);
    argument.replaceAllUsesWith(graph::ConstantOp::create(builder, op->getLoc(), value));
  }
  auto found = codegen::evaluate(op->getResult(0), budget);
  return failed(found) ? DenseElementsAttr() : *found;
}

Bytes bytesOf(DenseElementsAttr value) {
  if (value.getElementType().isInteger(1)) {
    Bytes bytes;
    for (bool bit : value.getValues<bool>())
      bytes.push_back(bit);
    return bytes;
  }
  ArrayRef<char> raw = value.getRawData();
  Bytes bytes;
  for (int64_t i = 0; i < (value.isSplat() ? value.getNumElements() : 1); ++i)
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  return bytes;
}

TEST(EvaluateTest, ValuesOfEveryOperationAreThoseOfPrograms) {
  JitContext context;
  DivisiContext runtime{runtime::configureThreads(1)};
  std::set<std::string> compared, left;
  for (const Sample &sample : samples()) {
    SCOPED_TRACE(sample.operation);
    auto module = forwardOf(sample, context);
    ASSERT_TRUE(module);
    Operation &op = module->lookupSymbol<func::FuncOp>("forward").getBody().front().front();
    if (!isa<codegen::LoopInterface, codegen::SerialInterface>(op) || isa<graph::RandomnessInterface>(op))
      continue;
    std::string name = op.getName().stripDialect().str(), text;
    llvm::raw_string_ostream(text) << *module;
    Draw draw(1);
    std::vector<Bytes> arguments;
    for (Type type : op.getParentOfType<func::FuncOp>().getArgumentTypes())
      arguments.push_back(randomArgument(draw, cast<RankedTensorType>(type)));
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    DenseElementsAttr value = evaluated(*module, arguments, 1 << 22);
    if (!value) {
      left.insert(name);
      continue;
    }
    EXPECT_FALSE(evaluated(*forwardOf(sample, context), arguments, 10)) << "more than ten scalar operations";
    auto compiled = context.compile(text, false);
    if (!compiled) {
      llvm::consumeError(compiled.takeError()); // an operation that other passes replace
      continue;
    }
    for (auto [input, bytes] : llvm::zip_equal((*compiled)->inputs, arguments))
      input.bytes = bytes;
    (*compiled)->run(&runtime);
    EXPECT_EQ(difference((*compiled)->outputs[0].bytes, bytesOf(value), type.getElementType(), 1e-6), "");
    compared.insert(name);
  }
  EXPECT_GT(compared.size(), 60u);
  EXPECT_EQ(left, (std::set<std::string>{"log", "rsqrt", "sqrt"})); // of negative numbers
}
} // namespace
