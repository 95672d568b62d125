#include "dialects/Dist/Plan.h"
#include "dialects/Graph/WhenNeeded.h"
#include "passes/Pipelining/TaskSplitter.h"
#include "passes/Planning/ModuleProblem.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_SPLITTASKSPASS
#include "passes/Pipelining/Passes.h.inc"

using planning::pipeline::ScheduleOptions;

namespace {
struct SplitTasksPass : impl::SplitTasksPassBase<SplitTasksPass> {
  using SplitTasksPassBase::SplitTasksPassBase;

  void runOnOperation() final {
    for (auto plan : llvm::make_early_inc_range(getOperation().getOps<dist::PlanOp>()))
      plan.erase();
    int64_t message = 0, stages = 1;
    auto functions =
        llvm::to_vector(llvm::make_filter_range(getOperation().getOps<func::FuncOp>(), [](func::FuncOp function) {
          return function->hasAttr(graph::names::microbatches);
        }));
    for (func::FuncOp function : functions)
      function.walk([&](Operation *op) { stages = std::max(stages, dist::stageOf(op) + 1); });
    StageDecisions decisions;
    for (func::FuncOp function : functions)
      if (function.getName() == "train" && isAsynchronous(function))
        decisions = StageDecisions(function, stages, llvm::to_vector(replicas));
    llvm::SetVector<Attribute> order;
    for (func::FuncOp function : functions)
      for (BlockArgument argument : function.getArguments())
        if (function.getArgAttr(argument.getArgNumber(), graph::names::state))
          order.insert(StringAttr::get(&getContext(), nameOfArgument(argument)));
    if (!functions.empty())
      getOperation()->setAttr(stateOrder, ArrayAttr::get(&getContext(), order.getArrayRef()));
    for (func::FuncOp function : functions) {
      ScheduleOptions options;
      options.microbatches = function->getAttrOfType<IntegerAttr>(graph::names::microbatches).getInt();
      options.chunks = stages > 1 ? (int64_t)chunks : 1;
      options.devices = stages / options.chunks;
      auto kind = planning::pipeline::parseScheduleKind(schedule);
      if (!kind) {
        function.emitError("schedule: expected ")
            << planning::pipeline::scheduleKindNames() << ", got '" << schedule << "'";
        return signalPassFailure();
      }
      options.kind = *kind;
      auto weights = planning::pipeline::parseStaleness(staleness);
      if (!weights) {
        function.emitError("staleness: expected ")
            << planning::pipeline::stalenessNames() << ", got '" << staleness << "'";
        return signalPassFailure();
      }
      options.staleness = *weights;
      options.batch = options.doubleBuffered() ? options.microbatches : 1;
      if (stages > 1)
        options.replicas.assign(replicas.begin(), replicas.end());
      std::string wrong = stages > 1 ? options.invalid() : "";
      if (options.unsplit() != isAsynchronous(function))
        wrong = "pipedream, and no other, is for steps of one minibatch, as split-microbatches makes them";
      else if (options.unsplit() && function.getName() == "train" &&
               function.getOps<graph::AccumulateOp>().empty())
        wrong = "pipedream needs to know where the backward pass ends: compile from the model on, or give make-train "
                "mark-gradients";
      else if (options.doubleBuffered() && function.getName() == "train" && graph::findReport(function, graph::gradSquareBig))
        wrong = "--log-noise-scale needs the gradients of all stages at once: take a --schedule that is not asynchronous";
      if (stages % chunks)
        wrong = std::to_string(stages) + " stages do not divide into " + std::to_string(chunks) + " chunks a device";
      if (!wrong.empty()) {
        function.emitError("schedule: ") << wrong;
        return signalPassFailure();
      }
      auto parts = StepParts::of(function);
      if (failed(parts))
        return signalPassFailure();
      bool train = function.getName() == "train";
      if (failed(TaskSplitter(function, std::move(*parts), options, train ? decisions : StageDecisions()).run(message)))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace divisi::pipelining
