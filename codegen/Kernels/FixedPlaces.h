#pragma once
#include "dialects/Dist/Tasks.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

namespace divisi::codegen {

/// Values with the same place in all tasks of a device: state, inputs, scalars, and values that tasks pass on. What a
/// microbatch's forward task leaves for its backward task is in a buffer slot, which belongs to one microbatch in
/// flight; each stage has as many slots as its schedule uses at a time.
class FixedPlaces {
public:
  /// `row` is the device's row in every schedule of the module.
  FixedPlaces(llvm::ArrayRef<mlir::func::FuncOp> tasks, mlir::ModuleOp module, int64_t row);

  /// The offset in the arena, or with exec::slotBit in the buffer slot.
  int64_t ofArgument(mlir::func::FuncOp task, unsigned argument) const {
    return places.lookup(nameOfArgument(task, argument));
  }
  /// The place of a result that outlives the task; null for other results.
  std::optional<int64_t> ofResult(mlir::func::FuncOp task, unsigned result) const;
  /// The offset behind all fixed places.
  int64_t end() const { return bytes; }

private:
  static std::string nameOfArgument(mlir::func::FuncOp task, unsigned argument);
  static std::string nameOfHeld(mlir::func::FuncOp task, mlir::DictionaryAttr held);
  void add(const std::string &name, mlir::Type type);
  void addHeld(llvm::ArrayRef<mlir::func::FuncOp> tasks);
  void addToSlot(mlir::func::FuncOp task, const std::string &name, mlir::Type type);
  void placeSlots(dist::ScheduleOp schedule, int64_t row);
  void placeRing(dist::ScheduleOp schedule, int64_t row);
  static void writeSlots(dist::ScheduleOp schedule, int64_t row, llvm::ArrayRef<int64_t> numbers);

  llvm::StringMap<int64_t> places;
  llvm::StringMap<int64_t> slotBytes; // by function and stage: "train.0"
  int64_t bytes = 0;
};

} // namespace divisi::codegen
