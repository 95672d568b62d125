#include "compiler/ProgramMeaning.h"

#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/Nodes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <charconv>
#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

static constexpr llvm::StringLiteral attribute = "graph.program", seal = "dump";

/// A hash of everything in the module: the generic form names values by their position.
static std::string hashOf(ModuleOp module) {
  graph::HiddenNodes hidden(module);
  std::string text;
  llvm::raw_string_ostream out(text);
  for (Operation &op : *module.getBody()) {
    op.print(out, OpPrintingFlags().printGenericOpForm().useLocalScope());
    out << "\n";
  }
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return "sha256:" + llvm::toHex(ArrayRef<uint8_t>(hash).take_front(16), /*LowerCase=*/true);
}

/// The shortest text that parses as this number.
static std::string exactly(double number) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), number).ptr};
}

/// The optimizer with the constants that it uses, and its groups of parameters.
static std::string describeOptimizer(const TrainOptions &train) {
  std::string text = train.optimizer;
  auto add = [&](StringRef name, StringRef value) { text += (" " + name + " " + value).str(); };
  if (const auto *kind = training::findOptimizer(train.optimizer))
    for (const training::OptimizerConstant &constant : kind->constants) {
      if (constant.number)
        add(constant.name, exactly(train.*constant.number));
      else if (train.*constant.isOn)
        text += (" " + constant.name).str();
    }
  if (train.clipNorm != 0)
    add("clip-norm", exactly(train.clipNorm));
  for (const std::string &pattern : std::set(train.noDecay.begin(), train.noDecay.end())) // their order does not matter
    add("no-decay", pattern);
  for (const std::string &pattern : std::set(train.byAdamw.begin(), train.byAdamw.end()))
    add("adamw", pattern);
  if (train.ema > 0)
    add("ema", exactly(train.ema));
  for (const std::string &factor : std::set(train.lrFactors.begin(), train.lrFactors.end()))
    add("lr-factor", factor);
  return text;
}

static std::string describeNumerics(ModuleOp module, const TrainOptions &train) {
  std::string text = train.precision;
  if (train.batchNormGroups > 1 && graph::hasBatchNorm(module))
    text += " with batch norm over each of " + std::to_string(train.batchNormGroups) + " parts of the batch";
  return text;
}

static void set(ModuleOp module, StringRef name, const std::string &text) {
  NamedAttrList parts(module->getAttrOfType<DictionaryAttr>(attribute));
  parts.set(name, StringAttr::get(module.getContext(), text));
  module->setAttr(attribute, parts.getDictionary(module.getContext()));
}

void compiler::noteProgram(ModuleOp module, const TrainOptions &train, const MicrobatchOptions &microbatches) {
  module->removeAttr(attribute);
  set(module, "model", hashOf(module));
  set(module, "optimizer", describeOptimizer(train));
  set(module, "numerics", describeNumerics(module, train));
  noteSchedule(module, microbatches);
}

void compiler::noteSchedule(ModuleOp module, const MicrobatchOptions &microbatches) {
  auto parts = module->getAttrOfType<DictionaryAttr>(attribute);
  auto numerics = parts ? parts.getAs<StringAttr>("numerics") : StringAttr();
  if (!numerics || !microbatches.asynchronous())
    return;
  std::string text = numerics.str() + " in an asynchronous pipeline of " + std::to_string(microbatches.stages) +
                     " stages with " +
                     (microbatches.doubleBuffered() ? "double-buffered" : microbatches.staleness) + " weights";
  if (!microbatches.replicas.empty())
    text += " and replicas " + microbatches.replicasText();
  set(module, "numerics", text);
}

void compiler::noteSync(ModuleOp module, const dist::Sync &sync) {
  static constexpr llvm::StringLiteral name = "synchronisation";
  NamedAttrList parts(module->getAttrOfType<DictionaryAttr>(attribute));
  if (!sync.isApart()) {
    if (parts.erase(name))
      module->setAttr(attribute, parts.getDictionary(module.getContext()));
    return;
  }
  int64_t replicas = 1;
  auto meshAttr = module->getAttrOfType<dist::MeshAttr>(dist::names::syncMesh);
  for (auto function : module.getOps<func::FuncOp>())
    for (StringRef level : {dist::names::mesh, dist::names::partitioned})
      if (auto attr = function->getAttrOfType<dist::MeshAttr>(level))
        meshAttr = attr;
  dist::Mesh mesh = meshAttr ? dist::toMesh(meshAttr) : dist::Mesh();
  if (auto data = mesh.find(dist::replicaAxis))
    replicas = mesh.axes[*data].size;
  set(module, name, sync.text(replicas));
}

void compiler::sealDump(ModuleOp module) {
  if (module->hasAttr(attribute))
    set(module, seal, hashOf(module));
}

void compiler::checkSeal(ModuleOp module) {
  auto parts = module->getAttrOfType<DictionaryAttr>(attribute);
  auto sealed = parts ? parts.getAs<StringAttr>(seal) : StringAttr();
  if (std::string hash = hashOf(module); !sealed || sealed.getValue() != hash)
    set(module, "model", hash);
}

llvm::json::Object compiler::meaningOf(ModuleOp module) {
  llvm::json::Object meaning;
  if (auto parts = module->getAttrOfType<DictionaryAttr>(attribute))
    for (NamedAttribute part : parts)
      if (auto text = dyn_cast<StringAttr>(part.getValue()); text && part.getName() != seal)
        meaning[part.getName().getValue()] = llvm::json::fixUTF8(text.getValue());
  return meaning;
}
