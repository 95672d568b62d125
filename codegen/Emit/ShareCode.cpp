#include "codegen/Emit/ShareCode.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace divisi::codegen;

namespace {

/// From this number of iterations on it does not matter whether the code knows the number.
constexpr int64_t manyIterations = 64;

/// The loops within the outermost one whose bounds may be arguments.
SmallVector<scf::ForOp> loopsOf(func::FuncOp function, int64_t extent) {
  SmallVector<scf::ForOp> result;
  for (auto rows : function.getOps<scf::ForOp>())
    for (auto loop : rows.getOps<scf::ForOp>())
      if (auto bound = getConstantIntValue(loop.getUpperBound()); bound && (extent == 1 || *bound >= manyIterations))
        result.push_back(loop);
  return result;
}

struct Sharing {
  func::FuncOp function;
  SmallVector<int64_t> bounds;
};

/// Makes bounds of loops arguments, and returns what they were.
SmallVector<int64_t> takeBounds(func::FuncOp function, int64_t extent) {
  SmallVector<int64_t> bounds;
  Type index = IndexType::get(function.getContext());
  for (scf::ForOp loop : loopsOf(function, extent)) {
    Operation *constant = loop.getUpperBound().getDefiningOp();
    bounds.push_back(*getConstantIntValue(loop.getUpperBound()));
    unsigned number = function.getNumArguments();
    if (failed(function.insertArgument(number, index, {}, function.getLoc())))
      llvm_unreachable("functions of kernels take any arguments");
    loop.setUpperBound(function.getArgument(number));
    if (constant->use_empty())
      constant->erase();
  }
  return bounds;
}

void giveBack(const Sharing &sharing) {
  func::FuncOp function = sharing.function;
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  unsigned first = function.getNumArguments() - sharing.bounds.size();
  for (auto [i, bound] : llvm::enumerate(sharing.bounds))
    function.getArgument(first + i).replaceAllUsesWith(
        arith::ConstantIndexOp::create(builder, function.getLoc(), bound));
  for (size_t i = 0; i < sharing.bounds.size(); ++i)
    if (failed(function.eraseArgument(first)))
      llvm_unreachable("the arguments were added before");
}

/// All but the name.
std::string textOf(func::FuncOp function) {
  std::string name = function.getName().str(), text;
  function.setName("");
  llvm::raw_string_ostream stream(text);
  function->print(stream, OpPrintingFlags().useLocalScope());
  function.setName(name);
  return text;
}
} // namespace

llvm::StringMap<SharedCode> divisi::codegen::shareCode(ModuleOp kernels, const llvm::StringMap<int64_t> &extents) {
  llvm::StringMap<SmallVector<Sharing>> alike; // by text
  for (auto function : kernels.getOps<func::FuncOp>()) {
    SmallVector<int64_t> bounds = takeBounds(function, extents.lookup(function.getName()));
    alike[textOf(function)].push_back({function, std::move(bounds)});
  }
  llvm::StringMap<SharedCode> result;
  for (auto &entry : alike) {
    SmallVector<Sharing> &group = entry.second;
    func::FuncOp first = group.front().function;
    bool differ = llvm::any_of(group, [&](const Sharing &sharing) { return sharing.bounds != group.front().bounds; });
    if (differ) // LLVM must not make copies again
      first->setAttr("passthrough", OpBuilder(first).getStrArrayAttr({"noinline"}));
    else
      giveBack(group.front());
    for (Sharing &sharing : group) {
      result[sharing.function.getName()] = {first.getName().str(), differ ? sharing.bounds : SmallVector<int64_t>()};
      if (sharing.function != first)
        sharing.function.erase();
    }
  }
  return result;
}
