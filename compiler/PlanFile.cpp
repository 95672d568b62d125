#include "compiler/PlanFile.h"

#include "passes/Planning/Simulator/Schedule.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

void compiler::writePipeline(ModuleOp module, const MicrobatchOptions &options, const std::string &hash) {
  MLIRContext *context = module.getContext();
  if (module.getOps<dist::PlanOp>().empty()) {
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    dist::Mesh alone;
    alone.axes.push_back({"data", 1});
    auto written = dist::PlanOp::create(builder, module.getLoc(), hash, dist::toAttr(alone, context));
    written.getBody().emplaceBlock();
  }
  Builder b(context);
  SmallVector<Attribute> cuts;
  for (const std::string &name : options.cuts)
    cuts.push_back(b.getStringAttr(name));
  NamedAttrList pipeline;
  pipeline.set("stages", b.getI64IntegerAttr(options.stages));
  pipeline.set("chunks", b.getI64IntegerAttr(options.chunks));
  pipeline.set("microbatches", b.getI64IntegerAttr(options.microbatches));
  pipeline.set("schedule", b.getStringAttr(options.schedule));
  if (options.asynchronous())
    pipeline.set("staleness", b.getStringAttr(options.staleness));
  pipeline.set("cuts", b.getArrayAttr(cuts));
  for (auto written : module.getOps<dist::PlanOp>())
    written->setAttr(dist::names::pipeline, pipeline.getDictionary(context));
}

FailureOr<MicrobatchOptions> compiler::readPipeline(dist::PlanOp plan) {
  MicrobatchOptions options;
  Attribute attr = plan->getAttr(dist::names::pipeline);
  if (!attr)
    return options;
  auto dictionary = dyn_cast<DictionaryAttr>(attr);
  auto number = [&](StringRef name) {
    auto value = dictionary ? dictionary.getAs<IntegerAttr>(name) : IntegerAttr();
    return value && value.getType().isInteger(64) ? value.getInt() : 0;
  };
  auto text = [&](StringRef name) { return dictionary ? dictionary.getAs<StringAttr>(name) : StringAttr(); };
  auto cuts = dictionary ? dictionary.getAs<ArrayAttr>("cuts") : ArrayAttr();
  options.microbatches = number("microbatches");
  options.stages = number("stages");
  options.chunks = number("chunks");
  if (auto schedule = text("schedule"))
    options.schedule = schedule.str();
  if (auto staleness = text("staleness"))
    options.staleness = staleness.str();
  for (Attribute name : cuts ? cuts.getValue() : ArrayRef<Attribute>())
    options.cuts.push_back(isa<StringAttr>(name) ? cast<StringAttr>(name).str() : "");
  bool valid = cuts && text("schedule") && planning::pipeline::parseScheduleKind(options.schedule) &&
               planning::pipeline::parseStaleness(options.staleness) && options.microbatches > 0 && options.microbatches <= 65536 &&
               options.stages > 0 && options.stages <= 4096 && options.chunks > 0 && options.stages % options.chunks == 0 &&
               (options.asynchronous() ? options.microbatches == 1 : options.microbatches > 1);
  if (!valid)
    return plan.emitError("'pipeline' must have stages, chunks, microbatches (at least 2, of pipedream 1), schedule and cuts");
  return options;
}
