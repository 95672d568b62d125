#include "compiler/RunDefaults.h"

#include "llvm/ADT/StringExtras.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

static constexpr llvm::StringLiteral attribute = "graph.run_defaults", lrName = "lr", scheduleName = "lr_schedule",
                                     warmupName = "warmup_steps";

llvm::ArrayRef<std::string> RunDefaults::schedules() {
  static const std::string names[] = {"constant", "linear", "cosine", "step", "polynomial", "one-cycle", "wsd"};
  return names;
}

void compiler::noteDefaults(ModuleOp module, const RunDefaults &defaults) {
  NamedAttrList parts(module->getAttrOfType<DictionaryAttr>(attribute));
  Builder builder(module.getContext());
  if (defaults.lr)
    parts.set(lrName, builder.getF64FloatAttr(*defaults.lr));
  if (defaults.schedule)
    parts.set(scheduleName, builder.getStringAttr(*defaults.schedule));
  if (defaults.warmupSteps)
    parts.set(warmupName, builder.getI64IntegerAttr(*defaults.warmupSteps));
  if (!parts.empty())
    module->setAttr(attribute, parts.getDictionary(module.getContext()));
}

FailureOr<RunDefaults> compiler::defaultsOf(ModuleOp module) {
  RunDefaults defaults;
  Attribute noted = module->getAttr(attribute);
  if (!noted)
    return defaults;
  bool good = isa<DictionaryAttr>(noted);
  for (NamedAttribute part : good ? cast<DictionaryAttr>(noted).getValue() : ArrayRef<NamedAttribute>()) {
    StringRef name = part.getName().getValue();
    if (auto number = dyn_cast<FloatAttr>(part.getValue()); number && number.getType().isF64() && name == lrName)
      defaults.lr = number.getValueAsDouble();
    else if (auto text = dyn_cast<StringAttr>(part.getValue()); text && name == scheduleName)
      defaults.schedule = text.str();
    else if (auto count = dyn_cast<IntegerAttr>(part.getValue()); count && count.getType().isInteger(64) && name == warmupName)
      defaults.warmupSteps = count.getInt();
    else
      good = false;
  }
  good = good && std::isfinite(defaults.lr.value_or(0)) && defaults.lr.value_or(0) >= 0 &&
         defaults.warmupSteps.value_or(0) >= 0 &&
         llvm::is_contained(RunDefaults::schedules(), defaults.schedule.value_or("constant"));
  if (!good)
    return module.emitError("'") << attribute << "' has the parts lr, a number that is not negative (f64), warmup_steps, "
                                 << "a number that is not negative (i64), and lr_schedule: "
                                 << llvm::join(RunDefaults::schedules(), ", ");
  return defaults;
}
