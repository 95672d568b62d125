#include "compiler/PlanFile.h"

#include "passes/Pipelining/CheckSync.h"
#include "passes/Planning/Simulator/Schedule.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

void compiler::writePipeline(ModuleOp module, const MicrobatchOptions &options, const planning::PlanSubject &subject) {
  if (options.stages == 1 && options.microbatches == 1)
    return; // `sync` says it
  MLIRContext *context = module.getContext();
  if (module.getOps<dist::PlanOp>().empty()) {
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    dist::Mesh alone;
    alone.axes.push_back({"data", 1});
    auto written = dist::PlanOp::create(builder, module.getLoc(), dist::planFormat, subject.target, subject.model,
                                        dist::toAttr(alone, context));
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
  if (options.remat > 0)
    pipeline.set("remat", b.getI64IntegerAttr(options.remat));
  if (options.unsplit())
    pipeline.set("staleness", b.getStringAttr(options.staleness));
  pipeline.set("cuts", b.getArrayAttr(cuts));
  if (!options.axes.empty())
    pipeline.set("stage_axes", options.axes.toAttr(context));
  if (!options.replicas.empty())
    pipeline.set("replicas", b.getDenseI64ArrayAttr(options.replicas));
  for (auto written : module.getOps<dist::PlanOp>())
    written->setAttr(dist::names::pipeline, pipeline.getDictionary(context));
}

FailureOr<MicrobatchOptions> compiler::readPipeline(dist::PlanOp plan) {
  MicrobatchOptions options;
  Attribute attr = plan->getAttr(dist::names::pipeline);
  if (!attr)
    return options;
  auto fail = [&](const Twine &what) { return plan.emitError("'pipeline': ") << what; };
  auto dictionary = dyn_cast<DictionaryAttr>(attr);
  if (!dictionary)
    return fail(
        "expected {stages, chunks, microbatches, schedule, cuts} and perhaps {remat, staleness, stage_axes, replicas}");
  std::pair<StringRef, int64_t *> numbers[] = {{"stages", &options.stages},
                                               {"chunks", &options.chunks},
                                               {"microbatches", &options.microbatches},
                                               {"remat", &options.remat}};
  std::pair<StringRef, std::string *> texts[] = {{"schedule", &options.schedule}, {"staleness", &options.staleness}};
  for (auto [name, number] : numbers) {
    auto value = dictionary.getAs<IntegerAttr>(name);
    if (number == &options.remat && !dictionary.contains(name))
      continue;
    if (!value || !value.getType().isInteger(64) || value.getInt() < 1 || value.getInt() > MicrobatchOptions::most)
      return fail("'" + name + "' must be a number from 1 to 65536, such as 2 : i64");
    *number = value.getInt();
  }
  for (auto [name, text] : texts) {
    auto value = dictionary.getAs<StringAttr>(name);
    if (!value && (name == "schedule" || dictionary.contains(name)))
      return fail("'" + name + "' must be a text");
    if (value)
      *text = value.str();
  }
  auto cuts = dictionary.getAs<ArrayAttr>("cuts");
  if (!cuts || !llvm::all_of(cuts, [](Attribute cut) { return isa<StringAttr>(cut); }))
    return fail("'cuts' must be a list of names");
  for (auto cut : cuts.getAsRange<StringAttr>())
    options.cuts.push_back(cut.str());
  if (Attribute axes = dictionary.get("stage_axes")) {
    options.axes = dist::StageAxes::of(axes);
    if (options.axes.empty())
      return fail("'stage_axes' must be a list of lists of axes, one for each stage, such as [[\"data\"], []]");
  }
  if (Attribute replicas = dictionary.get("replicas")) {
    auto counts = dyn_cast<DenseI64ArrayAttr>(replicas);
    if (!counts)
      return fail("'replicas' must be a list of a number for each stage, such as array<i64: 2, 1>");
    options.replicas.assign(counts.asArrayRef().begin(), counts.asArrayRef().end());
  }
  for (NamedAttribute entry : dictionary)
    if (StringRef name = entry.getName(); name != "cuts" && name != "stage_axes" && name != "replicas" &&
                                          llvm::none_of(numbers, [&](auto &known) { return known.first == name; }) &&
                                          llvm::none_of(texts, [&](auto &known) { return known.first == name; }))
      return fail("there is no '" + name + "'");
  if (!planning::pipeline::parseScheduleKind(options.schedule))
    return fail("'schedule' must be one of " + planning::pipeline::scheduleKindNames());
  if (!planning::pipeline::parseStaleness(options.staleness))
    return fail("'staleness' must be one of " + planning::pipeline::stalenessNames());
  if (options.chunks > 1 && options.schedule != "interleaved")
    return fail("'chunks' is 1 unless 'schedule' is interleaved");
  if (options.stages > 4096 || options.stages % options.chunks)
    return fail("'stages' must be at most 4096, and a multiple of 'chunks'");
  if (options.chunks > 1 && options.stages / options.chunks < 2)
    return fail("'stages' counts all chunks of at least two devices: at least twice 'chunks'");
  if (!options.cuts.empty() && (int64_t)options.cuts.size() != options.stages - 1)
    return fail("'cuts' must name the first node of every stage but the first, or nothing");
  if (std::string wrong = options.axes.invalid(options.stages / options.chunks, dist::toMesh(plan.getMesh()));
      !wrong.empty())
    return fail("'stage_axes': " + wrong);
  if (std::string wrong = options.wrongReplicas(dist::toMesh(plan.getMesh())); !wrong.empty())
    return fail(wrong);
  if (options.remat > 0 && (options.stages == 1 || options.unsplit()))
    return fail("'remat' is for stages that split the batch: without stages parts are named by dist.remat");
  if (options.doubleBuffered() && options.microbatches < options.stages)
    return fail("'microbatches' must be at least 'stages' under the schedule pipedream-2bw");
  if (options.unsplit() ? options.microbatches != 1 : options.microbatches < (options.stages > 1 ? 1 : 2))
    return fail(options.unsplit() ? "'microbatches' must be 1 under the schedule pipedream"
                : options.stages > 1   ? "'microbatches' must be at least 1"
                                       : "'microbatches' must be at least 2 where there are no stages");
  return options;
}

bool compiler::isInMicrobatches(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) { return function->hasAttr(graph::names::microbatches); });
}

LogicalResult compiler::readSplit(ModuleOp module, const dist::Sync &sync, MicrobatchOptions &microbatches) {
  auto plans = module.getOps<dist::PlanOp>();
  auto read = plans.empty() ? FailureOr<MicrobatchOptions>(MicrobatchOptions()) : readPipeline(*plans.begin());
  if (failed(read))
    return failure();
  microbatches = *read;
  microbatches.servedUpdate = sync.servers > 0;
  if (!microbatches.any())
    return (*module.getOps<func::FuncOp>().begin()).emitError("is split into microbatches, but no dist.plan of the module says how they run: write the dump again");
  return success();
}

static constexpr llvm::StringLiteral syncAttribute = "sync";

void compiler::writeSync(ModuleOp module, const dist::Sync &sync) {
  if (auto attr = sync.toAttr(module.getContext()))
    for (auto written : module.getOps<dist::PlanOp>())
      written->setAttr(syncAttribute, attr);
}

LogicalResult compiler::noteReplicas(ModuleOp module, const dist::Sync &sync, const dist::Mesh &mesh) {
  auto attr = sync.toAttr(module.getContext());
  if (!attr)
    return success();
  auto replicasOf = [](const dist::Mesh &of) { return of.axes[*of.find(dist::replicaAxis)].size; };
  if (auto written = module->getAttrOfType<dist::MeshAttr>(dist::names::syncMesh); written && sync.isApart() && levelOf(module) == Level::train)
    if (int64_t made = replicasOf(dist::toMesh(written)); made != replicasOf(mesh))
      return module.emitError("the training step was made for ")
             << made << " replicas that go apart, not for " << replicasOf(mesh) << ": compile the model, or a dump of level graph";
  module->setDiscardableAttr(dist::names::sync, attr);
  module->setDiscardableAttr(dist::names::syncMesh, dist::toAttr(mesh, module.getContext()));
  return success();
}

FailureOr<dist::Sync> compiler::syncOfPlanned(ModuleOp module) {
  auto sync = dist::Sync::of(module);
  if (failed(sync) || failed(pipelining::checkSync(module)))
    return failure();
  for (auto plan : module.getOps<dist::PlanOp>()) {
    auto planned = readSync(plan);
    if (failed(planned))
      return failure();
    if (*planned != *sync)
      return plan.emitError("'sync' is another way to keep replicas in step than the module's 'dist.sync': write the dump again");
  }
  return sync;
}

FailureOr<dist::Sync> compiler::readSync(dist::PlanOp plan) {
  auto sync = dist::Sync::parse(plan->getAttr(syncAttribute), [&] { return plan.emitError(); });
  if (failed(sync) || sync->mode == dist::Sync::Mode::allReduce)
    return sync;
  dist::Mesh mesh = dist::toMesh(plan.getMesh());
  if (auto data = mesh.find(dist::replicaAxis); !data || mesh.axes[*data].size < 2)
    return plan.emitError("'sync': the mesh has no axis 'data' of at least 2 replicas");
  auto pipeline = readPipeline(plan);
  if (failed(pipeline))
    return failure();
  if ((sync->isApart() || sync->servers > 0) &&
      (pipeline->asynchronous() || !pipeline->axes.empty() || !pipeline->replicas.empty()))
    return plan.emitError("'sync': replicas that go apart, and dedicated servers, are not for pipedream, nor for "
                          "stages with different axes or with replicas that take microbatches in turn");
  return sync;
}

void compiler::follow(const MicrobatchOptions &microbatches, TrainOptions &train) {
  train.batchNormGroups = microbatches.microbatches;
  train.markGradients = microbatches.unsplit() || microbatches.whole();
  train.describeRules = microbatches.unsplit() && microbatches.staleness == "predicted";
}

FailureOr<MicrobatchOptions> compiler::follow(dist::PlanOp plan, TrainOptions &train) {
  auto microbatches = readPipeline(plan);
  auto sync = readSync(plan);
  if (failed(microbatches) || failed(sync))
    return failure();
  microbatches->servedUpdate = sync->servers > 0;
  follow(*microbatches, train);
  train.splitProjections = plan->hasAttr(splitProjections) || dist::toMesh(plan.getMesh()).find("model");
  return microbatches;
}
