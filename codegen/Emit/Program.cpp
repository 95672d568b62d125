#include "codegen/Emit/Program.h"

#include "codegen/Emit/KernelTable.h"
#include "codegen/Emit/Places.h"
#include "codegen/Emit/Services.h"
#include "codegen/Kernels/BatchKernels.h"
#include "codegen/Names.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/WhenNeeded.h"
#include "divisi/abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

static_assert((int64_t)graph::whenGradNorms == (int64_t)DIVISI_WHEN_GRAD_NORMS &&
              (int64_t)graph::whenMetrics == (int64_t)DIVISI_WHEN_METRICS &&
              graph::whenPredictions == (int64_t)DIVISI_WHEN_PREDICTIONS);

namespace {

class ProgramEmitter {
public:
  ProgramEmitter(ModuleOp module, const ProgramData &data, const Targets &targets)
      : module(module), data(data), targets(targets), loc(module.getLoc()), builder(module.getContext()),
        kernels(module, targets) {
    pointer = LLVM::LLVMPointerType::get(module.getContext());
    i64 = builder.getI64Type();
  }

  LogicalResult run() {
    auto tasks = llvm::to_vector(module.getOps<func::FuncOp>());
    for (func::FuncOp task : tasks)
      kernels.addAll(task, places);
    if (targets.cpu) {
      if (failed(kernels.lowerForCpu()))
        return failure();
      emitLoops();
    }
    emitDescriptions();
    if (!targets.cuda.empty()) {
      auto texts = kernels.lowerForCuda();
      if (failed(texts))
        return failure();
      deviceCode = std::move(*texts);
    }
    declareServices();
    for (func::FuncOp task : tasks) {
      if (failed(emitTask(task)))
        return failure();
      task.erase();
    }
    emitProgram();
    for (auto schedule : llvm::make_early_inc_range(module.getOps<dist::ScheduleOp>()))
      schedule.erase(); // it is in the manifest
    SmallVector<StringAttr> foreign;
    for (NamedAttribute attr : module->getAttrs())
      if (!attr.getName().getValue().starts_with("llvm."))
        foreign.push_back(attr.getName());
    for (StringAttr name : foreign)
      module->removeAttr(name);
    return success();
  }

private:
  static constexpr size_t longest = 256; // operations of a function

  /// Emits kernelN_loop(buffers, begin, end): see DivisiLoop in the ABI.
  void emitLoops() {
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {pointer, i64, i64});
    for (auto function : module.getOps<LLVM::LLVMFuncOp>())
      functions[function.getName()] = function;
    for (const Launchable &kernel : kernels.all()) {
      builder.setInsertionPointToEnd(module.getBody());
      std::string name = kernel.loop();
      if (functions.contains(name))
        continue;
      auto entry = LLVM::LLVMFuncOp::create(builder, loc, name, type, LLVM::Linkage::Internal);
      functions[name] = entry;
      builder.setInsertionPointToStart(entry.addEntryBlock(builder));
      if (!kernel.members.empty()) {
        emitBatchLoop(kernel, entry);
        continue;
      }
      LLVM::LLVMFuncOp callee = functions.at(kernel.code.function);
      callee.setLinkage(LLVM::Linkage::Internal);
      SmallVector<Value> arguments;
      for (size_t i = 0; i < kernel.values.size(); ++i) {
        Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer, entry.getArgument(0),
                                         ArrayRef<LLVM::GEPArg>{(int32_t)i});
        arguments.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
      }
      arguments.push_back(entry.getArgument(1));
      arguments.push_back(entry.getArgument(2));
      for (int64_t size : kernel.code.sizes)
        arguments.push_back(word(size));
      LLVM::CallOp::create(builder, loc, callee, arguments);
      LLVM::ReturnOp::create(builder, loc, ValueRange());
    }
  }

  /// Emits the loop of a batch, which calls each kernel's loop on its part of [begin, end).
  void emitBatchLoop(const Launchable &batch, LLVM::LLVMFuncOp entry) {
    int64_t buffers = 0, first = 0;
    for (size_t number : batch.members) {
      const Launchable &member = kernels.all()[number];
      Value own = LLVM::GEPOp::create(builder, loc, pointer, pointer, entry.getArgument(0),
                                      ArrayRef<LLVM::GEPArg>{(int32_t)buffers});
      auto within = [&](Value bound) -> Value {
        Value shifted = LLVM::SubOp::create(builder, loc, bound, word(first));
        Value low = LLVM::SMaxOp::create(builder, loc, shifted, word(0));
        return LLVM::SMinOp::create(builder, loc, low, word(member.extent));
      };
      LLVM::CallOp::create(builder, loc, functions.at(member.loop()),
                           ValueRange{own, within(entry.getArgument(1)), within(entry.getArgument(2))});
      buffers += member.values.size();
      first += member.extent;
    }
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  }

  /// Emits kernelN_description: see DivisiKernel in the ABI.
  void emitDescriptions() {
    auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(), {pointer, i64, pointer, i64, i64, i64, i64});
    for (const Launchable &kernel : kernels.all()) {
      std::string name = global("name", StringRef(kernel.name.c_str(), kernel.name.size() + 1));
      builder.setInsertionPointToEnd(module.getBody());
      auto description =
          LLVM::GlobalOp::create(builder, loc, type, true, LLVM::Linkage::Internal, kernel.name + "_description", {});
      initialize(description, [&](SmallVectorImpl<Value> &fields) {
        Value loop = targets.cpu ? address(kernel.loop()) : (Value)LLVM::ZeroOp::create(builder, loc, pointer);
        fields.append({address(name), word(kernel.values.size()), loop, word(kernel.extent), word(kernel.grain),
                       word(kernel.blocks), word(kernel.threads)});
      });
    }
  }

  LLVM::LLVMFuncOp service(StringRef name, Type result, ArrayRef<Type> arguments) {
    LLVM::LLVMFuncOp &known = functions[name];
    if (known)
      return known;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    return known = LLVM::LLVMFuncOp::create(builder, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
  }

  void declareServices() {
    Type none = LLVM::LLVMVoidType::get(builder.getContext());
    launch = service("divisi_launch", none, {pointer, pointer, pointer});
    wants = service("divisi_wants", builder.getI32Type(), {pointer, builder.getI32Type()});
  }

  Value word(int64_t value) { return LLVM::ConstantOp::create(builder, loc, i64, builder.getI64IntegerAttr(value)); }
  Value address(StringRef symbol) { return LLVM::AddressOfOp::create(builder, loc, pointer, symbol); }

  /// Adds a constant block of bytes with a unique name, aligned like a buffer.
  std::string global(StringRef prefix, StringRef bytes) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    std::string name = (prefix + Twine(globals++)).str();
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           builder.getStringAttr(bytes), DIVISI_ALIGNMENT);
    return name;
  }

  StringRef params(ArrayRef<int64_t> words) {
    StringRef bytes((const char *)words.data(), words.size() * sizeof(int64_t));
    std::string &known = knownParams[bytes];
    if (known.empty())
      known = global("params", bytes);
    return known;
  }

  Value addressOf(int64_t place) {
    Value base = place < 0 ? constants : place & exec::slotBit ? slot : arena;
    int64_t offset = place < 0 ? -1 - place : place & ~exec::slotBit;
    return LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), base, ValueRange(word(offset)));
  }

  /// Emits a task as straight-line code, one call for each operation; a long one as several functions, because the time
  /// in which LLVM compiles a function grows faster than its length.
  LogicalResult emitTask(func::FuncOp task) {
    SmallVector<exec::ItemInterface> items;
    for (auto item : task.getBody().front().getOps<exec::ItemInterface>())
      if (!followsInBatch(item))
        items.push_back(item);
    std::string name = ("divisi_task_" + task.getName()).str();
    taskNames.push_back(name);
    if (items.size() <= longest)
      return success(succeeded(emitItems(items, name)));
    SmallVector<LLVM::LLVMFuncOp> parts;
    for (size_t first = 0; first < items.size(); first += longest) {
      auto part = emitItems(ArrayRef(items).slice(first, std::min(longest, items.size() - first)),
                            name + "_part" + std::to_string(parts.size()));
      if (failed(part))
        return failure();
      part->setNoInline(true);
      parts.push_back(*part);
    }
    Block *entry = beginTask(name).addEntryBlock(builder);
    builder.setInsertionPointToStart(entry);
    for (LLVM::LLVMFuncOp part : parts)
      LLVM::CallOp::create(builder, loc, part, entry->getArguments());
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    return success();
  }

  LLVM::LLVMFuncOp beginTask(const std::string &name) {
    builder.setInsertionPointToEnd(module.getBody());
    Type none = LLVM::LLVMVoidType::get(builder.getContext());
    return LLVM::LLVMFuncOp::create(builder, loc, name,
                                    LLVM::LLVMFunctionType::get(none, {pointer, pointer, pointer, pointer}),
                                    LLVM::Linkage::Internal);
  }

  /// A function that runs these operations of a task.
  FailureOr<LLVM::LLVMFuncOp> emitItems(ArrayRef<exec::ItemInterface> items, const std::string &name) {
    LLVM::LLVMFuncOp function = beginTask(name);
    Block *entry = function.addEntryBlock(builder);
    Value context = entry->getArgument(0);
    arena = entry->getArgument(1);
    slot = entry->getArgument(2);
    constants = entry->getArgument(3);
    size_t most = 1;
    for (Operation *op : items) {
      auto kernel = dyn_cast<exec::KernelOp>(op);
      size_t distinct = kernel ? kernels.all()[kernels.numberOf(op)].values.size() : 0;
      most = std::max<size_t>({most, op->getNumOperands() + op->getNumResults(), distinct});
    }
    builder.setInsertionPointToStart(entry);
    Value slots = LLVM::AllocaOp::create(builder, loc, pointer, pointer, word(most), 8);
    for (exec::ItemInterface item : items) {
      Block *after = nullptr;
      if (auto when = item.getWhen())
        after = beginWhen(function, context, *when);
      if (failed(emitItem(item, context, slots)))
        return failure();
      if (after) {
        LLVM::BrOp::create(builder, loc, after);
        builder.setInsertionPointToStart(after);
      }
    }
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    return function;
  }

  /// Emits a branch around the following calls for steps that do not compute them; returns the block behind them.
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

  void storeSlots(ArrayRef<int64_t> list, Value slots) {
    for (auto [i, place] : llvm::enumerate(list)) {
      Value entry = LLVM::GEPOp::create(builder, loc, pointer, pointer, slots, ArrayRef<LLVM::GEPArg>{(int32_t)i});
      LLVM::StoreOp::create(builder, loc, addressOf(place), entry);
    }
  }

  LogicalResult emitItem(Operation *op, Value context, Value slots) {
    auto callService = [&](StringRef name, ArrayRef<int64_t> words) {
      Type none = LLVM::LLVMVoidType::get(builder.getContext());
      auto callee = service(name, none, {pointer, pointer, pointer});
      LLVM::CallOp::create(builder, loc, callee, ValueRange{context, address(params(words)), slots});
      return success();
    };
    if (auto await = dyn_cast<exec::AwaitOp>(op))
      return callService("divisi_await", (int64_t)await.getId());
    SmallVector<int64_t> all = places.ofAll(op);
    if (auto first = dyn_cast<exec::KernelOp>(op)) {
      const Launchable &kernel = kernels.all()[kernels.numberOf(op)];
      auto together = batchFrom(first);
      for (exec::KernelOp member : llvm::drop_begin(together))
        llvm::append_range(all, places.ofAll(member));
      SmallVector<int64_t> distinct;
      for (unsigned value : kernel.values)
        distinct.push_back(all[value]);
      storeSlots(distinct, slots);
      LLVM::CallOp::create(builder, loc, launch, ValueRange{context, address(kernel.name + "_description"), slots});
      return success();
    }
    storeSlots(all, slots);
    auto call = dyn_cast<exec::CallOp>(op);
    if (!call)
      return callService("divisi_copy", graph::bytesOf(op->getResult(0).getType()));
    auto wanted = serviceOf(call);
    return failed(wanted) ? failure() : callService(wanted->service, wanted->params);
  }

  /// Emits the initial value of a global from its fields.
  void initialize(LLVM::GlobalOp global, function_ref<void(SmallVectorImpl<Value> &)> makeFields) {
    builder.setInsertionPointToStart(builder.createBlock(&global.getInitializerRegion()));
    SmallVector<Value> fields;
    makeFields(fields);
    LLVM::ReturnOp::create(builder, loc, structure(global.getType(), fields));
  }

  /// Emits divisi_program: see DivisiProgram in the ABI.
  void emitProgram() {
    // With the zero behind it, by which others find its end in the file.
    std::string manifest = global("manifest", {data.manifest.c_str(), data.manifest.size() + 1}), skeleton = global("skeleton", data.skeleton);
    builder.setInsertionPointToEnd(module.getBody());
    auto list = LLVM::GlobalOp::create(builder, loc, LLVM::LLVMArrayType::get(pointer, taskNames.size()), true,
                                       LLVM::Linkage::Internal, "tasks", {});
    initialize(list, [&](SmallVectorImpl<Value> &fields) {
      for (const std::string &name : taskNames)
        fields.push_back(address(name));
    });
    std::string constantBytes = global("constants", places.constants());
    SmallVector<std::string> texts;
    for (const std::string &text : deviceCode)
      texts.push_back(global("ptx", StringRef(text.c_str(), text.size() + 1)));
    builder.setInsertionPointToEnd(module.getBody());
    auto codeType = LLVM::LLVMStructType::getLiteral(builder.getContext(), {i64, pointer, i64});
    auto codes = LLVM::GlobalOp::create(builder, loc, LLVM::LLVMArrayType::get(codeType, texts.size()), true,
                                        LLVM::Linkage::Internal, "device_code", {});
    initialize(codes, [&](SmallVectorImpl<Value> &fields) {
      for (auto [i, text] : llvm::enumerate(texts))
        fields.push_back(structure(codeType, {word(targets.cuda[i]), address(text), word(deviceCode[i].size())}));
    });
    auto type =
        LLVM::LLVMStructType::getLiteral(builder.getContext(), {i64, i64, pointer, i64, pointer, i64, i64, pointer,
                                                                pointer, i64, i64, i64, pointer, pointer});
    builder.setInsertionPointToEnd(module.getBody());
    auto program = LLVM::GlobalOp::create(builder, loc, type, true, LLVM::Linkage::External, "divisi_program", {});
    if (!data.next.empty())
      LLVM::GlobalOp::create(builder, loc, type, true, LLVM::Linkage::External, data.next, {});
    int64_t bytes = module->getAttrOfType<IntegerAttr>(exec::names::arena).getInt();
    initialize(program, [&](SmallVectorImpl<Value> &fields) {
      fields.append({word(DIVISI_ABI_VERSION), word(bytes), address(manifest), word(data.manifest.size()),
                     address(skeleton), word(data.skeleton.size()), word(taskNames.size()), address("tasks"),
                     address(constantBytes), word(places.constants().size()), word(targets.cpu), word(texts.size()),
                     address("device_code"),
                     data.next.empty() ? (Value)LLVM::ZeroOp::create(builder, loc, pointer) : address(data.next)});
    });
  }

  Value structure(Type type, ArrayRef<Value> fields) {
    Value value = LLVM::UndefOp::create(builder, loc, type);
    for (auto [i, field] : llvm::enumerate(fields))
      value = LLVM::InsertValueOp::create(builder, loc, value, field, i);
    return value;
  }

  ModuleOp module;
  const ProgramData &data;
  const Targets &targets;
  Location loc;
  OpBuilder builder;
  KernelTable kernels;
  Places places;
  Type pointer, i64;
  LLVM::LLVMFuncOp launch, wants;
  Value arena, slot, constants; // of the current task
  std::vector<std::string> taskNames, deviceCode;
  llvm::StringMap<LLVM::LLVMFuncOp> functions; // kernels, their loops, and services
  llvm::StringMap<std::string> knownParams;    // names of constants, by their bytes
  int64_t globals = 0;
};
} // namespace

LogicalResult codegen::lowerToLlvm(ModuleOp module, const ProgramData &data, const Targets &targets) {
  return ProgramEmitter(module, data, targets).run();
}

FailureOr<CudaKernels> codegen::lowerToCuda(ModuleOp module) {
  Places places;
  KernelTable kernels(module, {/*cpu=*/false, {cudaArchitectures[0]}});
  for (auto task : module.getOps<func::FuncOp>())
    kernels.addAll(task, places);
  auto lowered = kernels.takeCudaKernels();
  if (failed(lowered))
    return failure();
  return CudaKernels{std::move(*lowered), kernels.all()};
}

void codegen::describeKernels(const CudaKernels &kernels, raw_ostream &out) {
  for (const Launchable &kernel : kernels.launchables) {
    SmallVector<StringRef> nodes;
    addNames(kernels.module.get().lookupSymbol(kernel.name)->getLoc(), nodes);
    out << "// " << kernel.name << ": " << kernel.launches << " launches of " << kernel.blocks << " blocks, "
        << kernel.bytes << " bytes each, " << (nodes.empty() ? "unnamed" : nodes.front()) << "\n";
  }
}
