#include "passes/Planning/ParseDump.h"

#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Nesting.h"
#include "passes/Planning/Passes.h"
#include "runtime/include/divisi/file_kind.h"
#include "runtime/include/divisi/suggest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace divisi;

/// More than any dump has, and far less than overflows the stack.
static constexpr int mostNesting = 500;
static constexpr uint64_t mostBytes = UINT64_C(4) << 30;

/// What is wrong with a value's type; "" for types with which programs compute.
static llvm::StringRef problemOf(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type); shaped && !shaped.hasStaticShape())
    return "unknown size";
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : Type();
  auto integer = dyn_cast_or_null<IntegerType>(element);
  const bool isKnown = !tensor || isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(element) ||
                       (integer && !integer.isSigned() && llvm::is_contained({1, 8, 16, 32, 64}, integer.getWidth()));
  return isKnown ? "" : "elements that programs do not have";
}

/// Checks what passes and verifiers rely on: all shapes are static, elements are of the types that programs have, and symbols have names (MLIR reads
/// `@""`, and prints what it does not read).
static LogicalResult checkTypesAndNames(ModuleOp module) {
  auto checked = module.walk([&](Operation *op) {
    auto name = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    auto hasName = [](SymbolRefAttr symbol) {
      auto isEmpty = [](FlatSymbolRefAttr nested) { return nested.getValue().empty(); };
      return WalkResult(success(!symbol.getRootReference().empty() && llvm::none_of(symbol.getNestedReferences(), isEmpty)));
    };
    if ((name && name.empty()) || op->getAttrDictionary().walk(hasName).wasInterrupted())
      return op->emitError("has, or refers to, an empty name"), WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          if (llvm::StringRef problem = problemOf(argument.getType()); !problem.empty())
            return op->emitError("has an argument of ") << problem << ": " << argument.getType(), WalkResult::interrupt();
    for (Value result : op->getResults())
      if (llvm::StringRef problem = problemOf(result.getType()); !problem.empty())
        return op->emitError("has a result of ") << problem << ": " << result.getType(), WalkResult::interrupt();
    return WalkResult::advance();
  });
  return success(!checked.wasInterrupted());
}

static LogicalResult checkArguments(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      return function.emitError("'") << function.getName() << "' has no body: a dump has what all of its functions compute";
    if (failed(divisi::graph::checkArguments(function)))
      return failure();
  }
  return success();
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> divisi::readDump(const std::string &file) {
  llvm::sys::fs::file_status status;
  if (file != "-" && !llvm::sys::fs::status(file, status)) {
    if (status.type() != llvm::sys::fs::file_type::regular_file)
      return llvm::createStringError(llvm::sys::fs::is_directory(status) ? "it is a folder" : "it is not a regular file");
    if (status.getSize() > mostBytes)
      return llvm::createStringError("it is larger than 4 GiB");
  }
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file);
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  return std::move(*buffer);
}

OwningOpRef<ModuleOp> divisi::parseDump(const std::string &file, MLIRContext *context) {
  auto buffer = readDump(file);
  if (!buffer) {
    emitError(UnknownLoc::get(context)) << "could not open input file '" << file << "': " << llvm::toString(buffer.takeError())
                                             << didYouMeanFile(file);
    return nullptr;
  }
  if (FileKind kind = kindOfFile((*buffer)->getBuffer()); kind > FileKind::empty && kind != FileKind::mlir && kind < FileKind::csv) {
    emitError(UnknownLoc::get(context)) << "'" << file << "' is not a dump (.mlir); it looks like " << nameOf(kind);
    return nullptr;
  }
  if (nestsTooDeep((*buffer)->getBuffer(), mostNesting)) {
    emitError(UnknownLoc::get(context)) << "'" << file << "' nests too deep";
    return nullptr;
  }
  if (hasIndexArray((*buffer)->getBuffer())) {
    emitError(UnknownLoc::get(context)) << "'" << file << "' has an array of 'index' or of an alias: expected array<i64: ...>";
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  auto module = parseSourceFile<ModuleOp>(sources, ParserConfig(context, /*verifyAfterParse=*/false));
  if (!module || failed(checkTypesAndNames(*module)) || failed(verify(*module)) || failed(checkArguments(*module)))
    return nullptr;
  divisi::graph::adoptNodes(*module);
  divisi::graph::nameNodes(*module);
  return module;
}

dist::PlanOp planning::parsePlan(OwningOpRef<ModuleOp> &file, const std::string &path, MLIRContext *context) {
  file = parseDump(path, context);
  if (!file)
    return {};
  auto plans = file->getOps<dist::PlanOp>();
  if (!llvm::hasSingleElement(plans)) {
    emitError(UnknownLoc::get(context)) << "expected one dist.plan in '" << path << "'";
    return {};
  }
  dist::PlanOp plan = *plans.begin();
  if (!isReasonable(dist::toMesh(plan.getMesh()))) {
    plan.emitError("a mesh has at most 6 axes and 4096 devices");
    return {};
  }
  if (dist::toMesh(plan.getMesh()).find(dist::stageAxis)) {
    plan.emitError(
        "a plan's mesh is that of one stage: the axis 'stage' belongs into the attribute 'pipeline', as stages = N");
    return {};
  }
  for (NamedAttribute attr : plan->getDiscardableAttrs())
    if (!llvm::is_contained(dist::names::ofPlans, attr.getName().getValue())) {
      plan.emitError("a plan has no '") << attr.getName().getValue() << "': expected " << llvm::join(llvm::ArrayRef(dist::names::ofPlans), ", ");
      return {};
    }
  auto pipeline = plan->getAttrOfType<DictionaryAttr>(dist::names::pipeline);
  auto stages = pipeline ? pipeline.getAs<IntegerAttr>("stages") : IntegerAttr();
  if (auto remats = plan.getOps<dist::RematOp>(); stages && stages.getInt() > 1 && !remats.empty()) {
    (*remats.begin()).emitError("stages recompute segments of their own: 'pipeline' says how many, as remat = N");
    return {};
  }
  for (Operation &op : plan.getBody().front())
    if (!isa<dist::RematOp, dist::PadOp, dist::PadResultOp, dist::PlaceOp, dist::SplitOp>(op)) {
      op.emitError("is no decision of a plan: expected dist.remat, dist.pad, dist.pad_result, dist.place or dist.split");
      return {};
    }
  return plan;
}
