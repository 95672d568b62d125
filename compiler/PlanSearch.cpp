#include "compiler/PlanSearch.h"
#include "compiler/Profile/Database.h"

#include "passes/Planning/Strategy.h"
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

llvm::Error PlanSearch::run() {
  first.asynchronous = request.asynchronous;
  if (!request.file.empty())
    return price();
  if (llvm::Error error = rank())
    return error;
  if (first.program)
    return llvm::Error::success();
  const ModuleCandidate &best = first.candidates[0];
  if (!best.fits) {
    if (isFree() && !request.microbatches)
      suggestPipeline();
    suggestDevices();
    suggestBatch();
    suggestPrecision();
  }
  if (request.pricesSync)
    if (llvm::Error error = priceSync())
      return error;
  if (request.explains && best.fits)
    hintAtPrecision();
  if (request.explains)
    flips = batches.others(best, request.cluster, request.options);
  if (request.noise) {
    auto advised = batches.advise(request.log, *request.noise, first, request.cluster, request.options);
    if (!advised)
      return advised.takeError();
    advice = std::move(*advised);
  }
  return llvm::Error::success();
}

/// The costs of the plan in the file.
llvm::Error PlanSearch::price() {
  if (llvm::Error error = first.price(request.cluster, request.file))
    return error;
  auto database = ProfileDatabase::read(ProfileDatabase::defaultFile());
  if (!database)
    llvm::consumeError(database.takeError()); // it is not used
  else if (!database->empty() && request.cluster.device.kind == "cpu")
    llvm::errs() << "note: --plan FILE is priced by formulas, without the times of the profile\n";
  return llvm::Error::success();
}

/// The plans, and the pipelines if these are asked for.
llvm::Error PlanSearch::rank() {
  if (llvm::Error error = first.plan(request.cluster, request.options, request.microbatches))
    return error;
  if (first.program && (request.explains || request.pipelines || request.pricesSync || request.noise))
    return wrongRequest("a dump of level exec has its plan: divisi plan --calls lists what it runs");
  if (first.program && (request.givenMesh || request.microbatches || request.options.remat || !request.options.pins.empty()))
    return wrongRequest("a dump of level exec has its plan: leave out --mesh, --pin, --microbatches and --remat");
  if (!first.unmeasured.empty())
    llvm::errs() << "note: plans are not ordered by measured times: " << first.unmeasured << "\n";
  if (!request.pipelines || request.devices == 1)
    return llvm::Error::success();
  if (first.hasBatchNorm)
    return wrongRequest(
        "--pipelines: batch norm uses the statistics of each microbatch, so that pipelines compute other numbers: "
        "compile with --strategy hybrid, whose stages work on the whole batch, or with --microbatches N, too");
  first.pipelines = rankPipelines(
      first.asynchronous ? *first.marked : *first.session.model.module, request.cluster,
      {request.devices, request.microbatches, 0, request.schedule, first.asynchronous, rematOfPipelines()});
  return llvm::Error::success();
}

bool PlanSearch::mayPipelinesWin() const {
  return request.file.empty() && !request.pipelines && isFree() && first.candidates[0].fits &&
         compiler::mayPipelinesWin(request.cluster, first.candidates[0], request.devices);
}

/// The prices of the ways to keep the replicas of data parallelism in step, on the given mesh or all devices.
llvm::Error PlanSearch::priceSync() {
  dist::Mesh mesh;
  mesh.axes.push_back({dist::replicaAxis.str(), request.devices});
  if (request.givenMesh)
    mesh = request.options.meshes.front();
  auto data = mesh.find(dist::replicaAxis);
  if (!data || mesh.axes[*data].size < 2)
    return wrongRequest(
        "--sync all needs replicas: several devices, or an axis data of at least 2 in --mesh");
  const Planner &planner = *first.candidates[0].planner;
  auto plan = planIfAny(planner.problem, mesh, {request.options.pins, 0});
  if (!plan)
    return wrongRequest("--sync all: the batch does not divide among the replicas of " + planning::nameOf(mesh));
  syncPlan = planning::nameOf(mesh);
  sync = compiler::priceSync(planner.price(request.cluster, mesh, *plan, syncPlan), planner.problem,
                             request.cluster.used(mesh.devices()));
  return llvm::Error::success();
}
