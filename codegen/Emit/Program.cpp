#include "codegen/Emit/Program.h"

#include "codegen/Emit/KernelEmitter.h"
#include "dialects/Graph/Graph.h"
#include "divisi/abi.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "codegen/Emit/MathLowering.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

static_assert((int64_t)graph::whenGradNorms == (int64_t)DIVISI_WHEN_GRAD_NORMS &&
              (int64_t)graph::whenMetrics == (int64_t)DIVISI_WHEN_METRICS);

namespace {

/// A kernel that several operations may launch.
struct Launchable {
  std::string entry;
  SmallVector<unsigned> values;
  int64_t extent, grain;
};

class ProgramEmitter {
public:
  ProgramEmitter(ModuleOp module, const ProgramData &data)
      : module(module), data(data), loc(module.getLoc()), builder(module.getContext()) {
    pointer = LLVM::LLVMPointerType::get(module.getContext());
    i64 = builder.getI64Type();
  }

  LogicalResult run() {
    auto tasks = llvm::to_vector(module.getOps<func::FuncOp>());
    for (func::FuncOp task : tasks)
      for (auto kernel : task.getOps<exec::KernelOp>())
        emitOnce(kernel);
    for (func::FuncOp task : tasks)
      task->moveBefore(module.getBody(), module.getBody()->begin());
    // Kernels are lowered by upstream's conversions; the tasks must not be among them.
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(loc);
    for (func::FuncOp function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!llvm::is_contained(tasks, function))
        function->moveBefore(kernels->getBody(), kernels->getBody()->end());
    if (failed(lowerKernels(*kernels)))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(*kernels->getBody()))
      op.moveBefore(module.getBody(), module.getBody()->end());
    emitEntries();
    declareServices();
    for (func::FuncOp task : tasks) {
      emitTask(task);
      task.erase();
    }
    emitProgram();
    for (auto schedule : llvm::make_early_inc_range(module.getOps<dist::ScheduleOp>()))
      schedule.erase(); // the manifest has it
    SmallVector<StringAttr> foreign;
    for (NamedAttribute attr : module->getAttrs())
      if (!attr.getName().getValue().starts_with("llvm."))
        foreign.push_back(attr.getName());
    for (StringAttr name : foreign)
      module->removeAttr(name);
    return success();
  }

private:
  /// The buffer of each input and then each output: arena offsets, or negative numbers for constants.
  SmallVector<int64_t> buffersOf(exec::KernelOp kernel) {
    SmallVector<int64_t> buffers;
    for (Value input : kernel.getInputs())
      buffers.push_back(placeOf(input));
    llvm::append_range(buffers, *kernel.getOffsets());
    return buffers;
  }

  int64_t placeOf(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto task = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      return task.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), exec::names::offset).getInt();
    }
    Operation *op = value.getDefiningOp();
    if (isa<graph::ReshapeOp>(op))
      return placeOf(op->getOperand(0));
    if (auto constant = dyn_cast<graph::ConstantOp>(op))
      return -1 - (int64_t)constantNumber(constant.getValue());
    auto offsets = op->getAttrOfType<DenseI64ArrayAttr>("offsets");
    return offsets[cast<OpResult>(value).getResultNumber()];
  }

  size_t constantNumber(Attribute value) {
    auto it = llvm::find(constants, value);
    if (it == constants.end()) {
      constants.push_back(value);
      return constants.size() - 1;
    }
    return it - constants.begin();
  }

  /// Equal kernels share one function.
  void emitOnce(exec::KernelOp kernel) {
    auto buffers = buffersOf(kernel);
    std::string key;
    llvm::raw_string_ostream text(key);
    llvm::DenseMap<int64_t, int64_t> numbers;
    for (int64_t buffer : buffers)
      text << numbers.try_emplace(buffer, numbers.size()).first->second << ' ';
    auto offsets = kernel.getOffsetsAttr();
    auto when = kernel->removeAttr(exec::names::when);
    kernel.removeOffsetsAttr();
    kernel->print(text, OpPrintingFlags().useLocalScope());
    kernel.setOffsetsAttr(offsets);
    if (when)
      kernel->setAttr(exec::names::when, when);
    auto [it, fresh] = kernelOf.try_emplace(key, launchables.size());
    which[kernel] = it->second;
    if (!fresh)
      return;
    builder.setInsertionPointToEnd(module.getBody());
    std::string name = "kernel" + std::to_string(launchables.size());
    EmittedKernel emitted = emitKernel(builder, kernel, name, buffers);
    launchables.push_back({name, emitted.values, emitted.extent, emitted.grain});
  }

  LogicalResult lowerKernels(ModuleOp kernels) {
    PassManager pm(kernels.getContext());
    pm.enableVerifier(true);
    addKernelLowering(pm);
    return pm.run(kernels);
  }

  /// kernelN_entry(buffers, begin, end): what divisi_launch calls.
  void emitEntries() {
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {pointer, i64, i64});
    for (const Launchable &kernel : launchables) {
      builder.setInsertionPointToEnd(module.getBody());
      auto entry = LLVM::LLVMFuncOp::create(builder, loc, kernel.entry + "_entry", type, LLVM::Linkage::Internal);
      auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(kernel.entry);
      callee.setLinkage(LLVM::Linkage::Internal);
      builder.setInsertionPointToStart(entry.addEntryBlock(builder));
      SmallVector<Value> arguments;
      for (size_t i = 0; i < kernel.values.size(); ++i) {
        Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer, entry.getArgument(0),
                                         ArrayRef<LLVM::GEPArg>{(int32_t)i});
        arguments.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
      }
      arguments.push_back(entry.getArgument(1));
      arguments.push_back(entry.getArgument(2));
      LLVM::CallOp::create(builder, loc, callee, arguments);
      LLVM::ReturnOp::create(builder, loc, ValueRange());
    }
  }

  LLVM::LLVMFuncOp service(StringRef name, Type result, ArrayRef<Type> arguments) {
    if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
      return known;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    return LLVM::LLVMFuncOp::create(builder, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
  }

  void declareServices() {
    Type none = LLVM::LLVMVoidType::get(builder.getContext());
    launch = service("divisi_launch", none, {pointer, pointer, pointer, i64, i64});
    wants = service("divisi_wants", builder.getI32Type(), {pointer, builder.getI32Type()});
    copy = service("divisi_copy", none, {pointer, pointer, pointer});
  }

  Value word(int64_t value) { return LLVM::ConstantOp::create(builder, loc, i64, builder.getI64IntegerAttr(value)); }
  Value address(StringRef symbol) { return LLVM::AddressOfOp::create(builder, loc, pointer, symbol); }

  /// A constant block of bytes with a name of its own, aligned as buffers are.
  std::string global(StringRef prefix, StringRef bytes) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    std::string name = (prefix + Twine(globals++)).str();
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           builder.getStringAttr(bytes), DIVISI_ALIGNMENT);
    return name;
  }

  std::string params(ArrayRef<int64_t> words) {
    return global("params", StringRef((const char *)words.data(), words.size() * sizeof(int64_t)));
  }

  Value addressOf(int64_t place) {
    if (place < 0)
      return address(constantGlobal(-1 - place));
    Value base = place & exec::slotBit ? slot : arena;
    return LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), base,
                               ValueRange(word(place & ~exec::slotBit)));
  }

  std::string constantGlobal(size_t number) {
    auto [it, fresh] = constantNames.try_emplace(number, "");
    if (fresh) {
      auto bytes = bytesOf(cast<DenseElementsAttr>(constants[number]));
      it->second = global("constant", StringRef(bytes.data(), bytes.size()));
    }
    return it->second;
  }

  /// Straight-line code: one call per operation.
  void emitTask(func::FuncOp task) {
    Type none = LLVM::LLVMVoidType::get(builder.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto function = LLVM::LLVMFuncOp::create(builder, loc, ("divisi_task_" + task.getName()).str(),
                                             LLVM::LLVMFunctionType::get(none, {pointer, pointer, pointer}),
                                             LLVM::Linkage::Internal);
    taskNames.push_back(function.getName().str());
    Block *entry = function.addEntryBlock(builder);
    Value context = entry->getArgument(0);
    arena = entry->getArgument(1);
    slot = entry->getArgument(2);
    size_t most = 1;
    for (Operation &op : task.getBody().front())
      most = std::max<size_t>(most, op.getNumOperands() + op.getNumResults());
    builder.setInsertionPointToStart(entry);
    Value slots = LLVM::AllocaOp::create(builder, loc, pointer, pointer, word(most), 8);
    for (Operation &op : task.getBody().front()) {
      if (!isa<exec::KernelOp, exec::CallOp, exec::CopyOp, exec::AwaitOp>(op))
        continue;
      Block *after = nullptr;
      if (auto when = op.getAttrOfType<IntegerAttr>(exec::names::when))
        after = beginWhen(function, context, when.getInt());
      emitCall(op, context, slots);
      if (after) {
        LLVM::BrOp::create(builder, loc, after);
        builder.setInsertionPointToStart(after);
      }
    }
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  }

  /// Branches around what follows unless it is wanted; returns the block to go on in.
  Block *beginWhen(LLVM::LLVMFuncOp function, Value context, int64_t bits) {
    Value mask = LLVM::ConstantOp::create(builder, loc, builder.getI32Type(), builder.getI32IntegerAttr(bits));
    Value wanted = LLVM::CallOp::create(builder, loc, wants, ValueRange{context, mask}).getResult();
    Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI32Type(), builder.getI32IntegerAttr(0));
    Value yes = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, wanted, zero);
    Block *then = builder.createBlock(&function.getBody(), function.getBody().end());
    Block *after = builder.createBlock(&function.getBody(), function.getBody().end());
    builder.setInsertionPointToEnd(then->getPrevNode());
    LLVM::CondBrOp::create(builder, loc, yes, then, after);
    builder.setInsertionPointToStart(then);
    return after;
  }

  void storeSlots(ArrayRef<int64_t> places, Value slots) {
    for (auto [i, place] : llvm::enumerate(places)) {
      Value entry = LLVM::GEPOp::create(builder, loc, pointer, pointer, slots, ArrayRef<LLVM::GEPArg>{(int32_t)i});
      LLVM::StoreOp::create(builder, loc, addressOf(place), entry);
    }
  }

  void emitCall(Operation &op, Value context, Value slots) {
    if (auto await = dyn_cast<exec::AwaitOp>(op)) {
      auto callee = service("divisi_await", LLVM::LLVMVoidType::get(builder.getContext()), {pointer, pointer, pointer});
      LLVM::CallOp::create(builder, loc, callee, ValueRange{context, address(params((int64_t)await.getId())), slots});
      return;
    }
    SmallVector<int64_t> places;
    for (Value input : op.getOperands())
      places.push_back(placeOf(input));
    llvm::append_range(places, op.getAttrOfType<DenseI64ArrayAttr>("offsets").asArrayRef());
    if (isa<exec::KernelOp>(op)) {
      const Launchable &kernel = launchables[which.lookup(&op)];
      SmallVector<int64_t> distinct;
      for (unsigned value : kernel.values)
        distinct.push_back(places[value]);
      storeSlots(distinct, slots);
      LLVM::CallOp::create(
          builder, loc, launch,
          ValueRange{context, address(kernel.entry + "_entry"), slots, word(kernel.extent), word(kernel.grain)});
      return;
    }
    storeSlots(places, slots);
    Type none = LLVM::LLVMVoidType::get(builder.getContext());
    if (auto call = dyn_cast<exec::CallOp>(op)) {
      auto callee = service(call.getService(), none, {pointer, pointer, pointer});
      LLVM::CallOp::create(builder, loc, callee, ValueRange{context, address(params(call.getParams())), slots});
      return;
    }
    int64_t bytes = graph::bytesOf(op.getResult(0).getType());
    LLVM::CallOp::create(builder, loc, copy, ValueRange{context, address(params(bytes)), slots});
  }

  /// The initial value of a global: fields one after the other.
  void initialize(LLVM::GlobalOp global, function_ref<void(SmallVectorImpl<Value> &)> makeFields) {
    builder.setInsertionPointToStart(builder.createBlock(&global.getInitializerRegion()));
    SmallVector<Value> fields;
    makeFields(fields);
    Value value = LLVM::UndefOp::create(builder, loc, global.getType());
    for (auto [i, field] : llvm::enumerate(fields))
      value = LLVM::InsertValueOp::create(builder, loc, value, field, i);
    LLVM::ReturnOp::create(builder, loc, value);
  }

  /// divisi_program: see DivisiProgram in the ABI.
  void emitProgram() {
    std::string manifest = global("manifest", data.manifest), skeleton = global("skeleton", data.skeleton);
    builder.setInsertionPointToEnd(module.getBody());
    auto list = LLVM::GlobalOp::create(builder, loc, LLVM::LLVMArrayType::get(pointer, taskNames.size()), true,
                                       LLVM::Linkage::Internal, "tasks", {});
    initialize(list, [&](SmallVectorImpl<Value> &fields) {
      for (const std::string &name : taskNames)
        fields.push_back(address(name));
    });
    auto type =
        LLVM::LLVMStructType::getLiteral(builder.getContext(), {i64, i64, pointer, i64, pointer, i64, i64, pointer});
    builder.setInsertionPointToEnd(module.getBody());
    auto program = LLVM::GlobalOp::create(builder, loc, type, true, LLVM::Linkage::External, "divisi_program", {});
    int64_t bytes = module->getAttrOfType<IntegerAttr>(exec::names::arena).getInt();
    initialize(program, [&](SmallVectorImpl<Value> &fields) {
      fields.append({word(DIVISI_ABI_VERSION), word(bytes), address(manifest), word(data.manifest.size()),
                     address(skeleton), word(data.skeleton.size()), word(taskNames.size()), address("tasks")});
    });
  }

  ModuleOp module;
  const ProgramData &data;
  Location loc;
  OpBuilder builder;
  Type pointer, i64;
  LLVM::LLVMFuncOp launch, wants, copy;
  Value arena, slot; // of the task that is emitted
  std::vector<std::string> taskNames;
  llvm::StringMap<size_t> kernelOf;
  llvm::DenseMap<Operation *, size_t> which;
  std::vector<Launchable> launchables;
  SmallVector<Attribute> constants;
  llvm::DenseMap<size_t, std::string> constantNames;
  int64_t globals = 0;
};
} // namespace

std::vector<char> codegen::bytesOf(DenseElementsAttr data) {
  std::vector<char> bytes;
  if (data.getElementType().isInteger(1)) { // one byte each
    for (bool value : data.getValues<bool>())
      bytes.push_back(value);
    return bytes;
  }
  ArrayRef<char> raw = data.getRawData();
  for (int64_t i = 0, count = data.isSplat() ? data.getNumElements() : 1; i < count; ++i)
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  return bytes;
}

LogicalResult codegen::lowerToLlvm(ModuleOp module, const ProgramData &data) {
  return ProgramEmitter(module, data).run();
}
