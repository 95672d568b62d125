#pragma once
#include "dialects/Dist/Tasks.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

namespace divisi::codegen {

/// What has the same place in all tasks of a device: state, inputs, scalars, and what tasks pass on. What a
/// microbatch's forward task leaves for its backward task lies in a slot; each stage has as many as its schedule uses
/// at once.
class FixedPlaces {
public:
  /// `row` is the device's in every schedule of the module.
  FixedPlaces(llvm::ArrayRef<mlir::func::FuncOp> tasks, mlir::ModuleOp module, int64_t row);

  /// Bytes of the arena, or of the slot with exec::slotBit.
  int64_t ofArgument(mlir::func::FuncOp task, unsigned argument) const {
    return places.lookup(nameOfArgument(task, argument));
  }
  /// Where a result that outlives the task must lie; nothing for others.
  std::optional<int64_t> ofResult(mlir::func::FuncOp task, unsigned result) const;
  /// Where other values may begin.
  int64_t end() const { return bytes; }

private:
  static std::string nameOfArgument(mlir::func::FuncOp task, unsigned argument);
  static std::string nameOfHeld(mlir::func::FuncOp task, mlir::DictionaryAttr held);
  void add(const std::string &name, mlir::Type type);
  void addToSlot(mlir::func::FuncOp task, const std::string &name, mlir::Type type);
  void placeSlots(dist::ScheduleOp schedule, int64_t row);
  void placeRing(dist::ScheduleOp schedule, int64_t row);
  static void writeSlots(dist::ScheduleOp schedule, int64_t row, llvm::ArrayRef<int64_t> numbers);

  llvm::StringMap<int64_t> places;
  llvm::StringMap<int64_t> slotBytes; // by function and stage: "train.0"
  int64_t bytes = 0;
};

} // namespace divisi::codegen
