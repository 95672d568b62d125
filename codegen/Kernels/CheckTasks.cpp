#include "codegen/Kernels/CheckTasks.h"

#include "dialects/Dist/MessageDims.h"
#include "dialects/Dist/StageAxes.h"
#include "dialects/Exec/Exec.h"

#include <set>

using namespace mlir;
using namespace divisi;

namespace {

bool isHeld(Attribute attr) {
  auto held = dyn_cast<DictionaryAttr>(attr);
  auto kind = held ? held.getAs<StringAttr>("kind") : StringAttr();
  return kind && held.getAs<StringAttr>("name") &&
         (kind == dist::held::step || kind == dist::held::microbatch || kind == dist::held::sum);
}

/// Checks that the values which tasks of a device hold for each other have the same kind and type where they are left
/// and taken.
LogicalResult checkHeld(ArrayRef<func::FuncOp> tasks) {
  std::map<std::pair<std::string, const void *>, Type> left; // by function and dist.held
  auto nameOf = [](func::FuncOp task) { return dist::functionOf(task.getName()).str(); };
  for (func::FuncOp task : tasks)
    for (unsigned i = 0; i < task.getNumResults(); ++i)
      if (Attribute held = task.getResultAttr(i, dist::names::held)) {
        if (!isHeld(held))
          return task.emitOpError("'dist.held' must be {kind = \"step\", \"microbatch\" or \"sum\", name}, got ")
                 << held;
        left[{nameOf(task), held.getAsOpaquePointer()}] = task.getResultTypes()[i];
      }
  for (func::FuncOp task : tasks)
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (Attribute held = task.getArgAttr(i, dist::names::held)) {
        auto it = left.find({nameOf(task), held.getAsOpaquePointer()});
        if (it == left.end() || it->second != task.getArgumentTypes()[i])
          return task.emitOpError("takes ") << held << ", which no task of its stage leaves with this type";
      }
  return success();
}

/// Checks that all tasks have the same mesh, whose first axis is that of stages, and that their arguments are sharded
/// only along axes that their stage has, and collectives over such.
LogicalResult checkMesh(ModuleOp module, int64_t devices) {
  Attribute mesh, axes;
  for (auto task : module.getOps<func::FuncOp>()) {
    Attribute mine = task->getAttr(dist::names::partitioned), having = task->getAttr(dist::names::stageAxes);
    if (!mesh)
      mesh = mine, axes = having;
    if (mine != mesh || having != axes)
      return task.emitOpError("is of another mesh, or of stages with other axes, than the tasks before it");
    if (!mine)
      continue;
    dist::Mesh grid = dist::toMesh(cast<dist::MeshAttr>(mine));
    auto stages = grid.find(dist::stageAxis);
    if (stages ? *stages != 0 || grid.axes[0].size != devices : devices > 1)
      return task.emitOpError("needs a mesh whose first axis is \"stage\", of the size ") << devices;
    dist::StageAxes stageAxes = dist::StageAxes::of(having);
    if (std::string wrong = stageAxes.invalid(devices, grid); !wrong.empty())
      return task.emitOpError("'dist.stage_axes': ") << wrong;
    dist::Axes lacking = stageAxes.lacking(dist::stageOf(task), grid);
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (auto global = task.getArgAttrOfType<TypeAttr>(i, dist::names::global))
        for (int axis : lacking)
          if (auto type = dyn_cast<RankedTensorType>(global.getValue());
              type && dist::shardOf(type) && dist::toSharding(type, grid).splits(axis))
            return task.emitOpError("argument ")
                   << i << " is split over \"" << grid.axes[axis].name << "\", an axis that its stage lacks";
    for (auto call : task.getOps<exec::CallOp>())
      if (ArrayAttr over = call.getAxes())
        for (auto name : over.getAsRange<StringAttr>())
          if (auto axis = grid.find(name.getValue()); axis && llvm::is_contained(lacking, *axis))
            return call.emitOpError("is over \"") << name.getValue() << "\", an axis that its stage lacks";
  }
  return success();
}

/// Checks that both sides of a message mean the same value and shardings, along axes that their stages have.
LogicalResult checkMessages(ModuleOp module) {
  struct Known {
    int64_t here, there;
    bool sends;
    Attribute dims;
    SmallVector<int64_t> shape;
    Type element;
  };
  std::map<int64_t, Known> known;
  for (auto task : module.getOps<func::FuncOp>())
    for (auto call : task.getOps<exec::CallOp>()) {
      if (!call.isMessage())
        continue;
      Operation *op = call.getPayload();
      bool sends = isa<dist::SendOp>(op);
      auto type = cast<RankedTensorType>(sends ? op->getOperand(0).getType() : op->getResult(0).getType());
      auto mine = op->getAttrOfType<ArrayAttr>("dims");
      int64_t here = dist::stageOf(task), there = op->getAttrOfType<IntegerAttr>("stage").getInt();
      Known side{here, there, sends, mine, SmallVector<int64_t>(type.getShape()), type.getElementType()};
      if (mine) {
        dist::Mesh mesh = dist::toMesh(task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned)); // verified
        dist::StageAxes axes = dist::StageAxes::of(task);
        dist::MessageDims dims = *dist::MessageDims::parse(mine, mesh);
        if (axes.lacking(here, mesh) == axes.lacking(std::max<int64_t>(0, there), mesh))
          return call.emitOpError("has 'dims', which are for messages between stages of different axes");
        for (const dist::Sharding *sharding : {&dims.from, &dims.to})
          for (int axis : axes.lacking((sharding == &dims.from) == sends ? here : std::max<int64_t>(0, there), mesh))
            if (sharding->splits(axis))
              return call.emitOpError("is of a value that is split over \"")
                     << mesh.axes[axis].name << "\", an axis that its stage lacks";
        side.shape = dist::MessageDims::global(type, sends ? dims.from : dims.to, mesh);
      }
      auto [it, fresh] = known.try_emplace(call.getMessageId().getInt(), side);
      const Known &other = it->second;
      if (!fresh && other.sends != sends &&
          (other.here != there || other.there != here || other.dims != side.dims || other.shape != side.shape || other.element != side.element))
        return call.emitOpError("and the other side of the message are of different stages, values or shardings");
    }
  return success();
}

/// Checks the numbers of a row of pipedream-2bw: with its backward pass l microbatches behind, a device stashes and updates
/// when it has come back, or, if l is 0, updates when the next batch has started.
LogicalResult checkBatches(dist::ScheduleOp schedule, ArrayRef<dist::ScheduledTask> row, ArrayRef<func::FuncOp> tasks) {
  using Kind = dist::TaskKind;
  std::optional<int64_t> backward;
  for (const dist::ScheduledTask &entry : row)
    if (dist::kindOf(entry.symbol) == Kind::backward)
      backward = entry.microbatch;
  for (auto [position, entry] : llvm::enumerate(row)) {
    auto kind = dist::kindOf(entry.symbol);
    bool early = entry.microbatch == -1 && position <= 1, late = position + 1 == row.size();
    bool fits = kind == Kind::stash   ? !backward || entry.microbatch == *backward
                : kind == Kind::start ? entry.microbatch == 0
                : kind != Kind::finish ? true
                : !backward            ? early || late
                                       : (*backward == 0 ? early : late && entry.microbatch == *backward);
    if (!fits || entry.microbatch <= -(int64_t)schedule.getMicrobatches())
      return schedule.emitOpError("runs @") << entry.symbol << " for microbatch " << entry.microbatch
                                            << ", which does not fit the backward pass of its device, or batches of "
                                            << schedule.getMicrobatches() << " microbatches";
  }
  for (func::FuncOp task : tasks)
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (auto count = task.getArgAttrOfType<IntegerAttr>(i, graph::names::microbatches);
          count && dist::functionOf(task.getName()) == schedule.getFunction() && count.getInt() != (int64_t)schedule.getMicrobatches())
        return task.emitOpError("argument ") << i << " has " << count.getInt() << " microbatches, and the schedule "
                                             << schedule.getMicrobatches();
  return success();
}

LogicalResult checkRow(dist::ScheduleOp schedule, int64_t device, ArrayRef<func::FuncOp> tasks, ModuleOp module) {
  using Kind = dist::TaskKind;
  bool asynchronous = schedule.isAsynchronous();
  auto row = dist::tasksOf(schedule, device);
  std::map<std::string, std::set<int64_t>> runs;          // microbatches by task
  std::map<std::pair<std::string, int64_t>, Kind> latest; // by stage and microbatch; of an asynchronous row by stage
  std::optional<int64_t> backward;                        // the minibatch of an asynchronous row's backward task
  for (auto [position, entry] : llvm::enumerate(row)) {
    auto fail = [&](const Twine &what) { return schedule.emitOpError("runs @") << entry.symbol << what.str(); };
    std::string microbatch = " for microbatch " + std::to_string(entry.microbatch);
    auto task = module.lookupSymbol<func::FuncOp>(entry.symbol);
    if (!task)
      return fail(", but there is no such task");
    if (dist::stageOf(task) != device)
      return fail(" on device " + Twine(device) + ", but it is of device " + Twine(dist::stageOf(task)));
    auto kind = dist::kindOf(entry.symbol);
    if (!runs[entry.symbol].insert(entry.microbatch).second)
      return fail(" twice" + microbatch);
    if (!kind)
      return fail(microbatch + " out of order");
    auto isFinish = [](const dist::ScheduledTask &other) { return dist::kindOf(other.symbol) == Kind::finish; };
    bool ends = std::all_of(row.begin() + position + 1, row.end(), isFinish); // several servers have one each
    bool inOrder = *kind == Kind::start ? position == 0 : ends || schedule.isDoubleBuffered();
    if (!dist::isOnce(*kind)) {
      auto [last, fresh] =
          latest.try_emplace({dist::groupOf(entry.symbol).str(), asynchronous ? 0 : entry.microbatch}, *kind);
      inOrder = fresh || last->second <= *kind;
      last->second = *kind;
    }
    if (!inOrder)
      return fail(microbatch + " out of order");
    bool exists = asynchronous ? (*kind == Kind::stash     ? entry.microbatch >= 0 || schedule.isDoubleBuffered()
                                  : *kind == Kind::forward ? entry.microbatch == 0
                                                           : entry.microbatch <= 0)
                               : !dist::isOnce(*kind) || entry.microbatch == 0;
    if (!exists)
      return schedule.emitOpError("cannot run @") << entry.symbol << microbatch;
    if (asynchronous && *kind == Kind::backward)
      backward = entry.microbatch;
    if (*kind == Kind::finish && backward && *backward != entry.microbatch)
      return fail(" for another minibatch than the backward task before it");
  }
  if (schedule.isDoubleBuffered() && failed(checkBatches(schedule, row, tasks)))
    return failure();
  for (func::FuncOp task : tasks) {
    auto kind = dist::kindOf(task.getName());
    if (dist::functionOf(task.getName()) != schedule.getFunction())
      continue;
    size_t wanted = asynchronous || (kind && dist::isOnce(*kind)) ? 1 : schedule.getMicrobatches(),
           found = runs[task.getName().str()].size();
    if (found != wanted)
      return schedule.emitOpError("runs @")
             << task.getName() << " for " << found << " of " << wanted << " microbatches";
  }
  return success();
}
} // namespace

LogicalResult codegen::checkTasks(ModuleOp module) {
  auto tasks = dist::tasksByDevice(module);
  for (auto &[device, own] : tasks)
    if (failed(checkHeld(own)))
      return failure();
  int64_t devices = tasks.empty() ? 0 : tasks.rbegin()->first + 1;
  if (failed(checkMesh(module, devices)) || failed(checkMessages(module)))
    return failure();
  for (auto schedule : module.getOps<dist::ScheduleOp>()) {
    if ((int64_t)schedule.getRows().size() != devices)
      return schedule.emitOpError("expected a row for each of ")
             << devices << " devices, got " << schedule.getRows().size();
    for (int64_t device = 0; device < devices; ++device)
      if (failed(checkRow(schedule, device, tasks[device], module)))
        return failure();
  }
  return success();
}
