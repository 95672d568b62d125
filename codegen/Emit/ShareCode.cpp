#include "codegen/Emit/ShareCode.h"

#include "codegen/Kernels/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace divisi::codegen;

namespace {

/// From this number of iterations on it does not matter whether the code knows the number.
constexpr int64_t manyIterations = 64;
/// From this number of iterations of an inner loop on it does not matter that a division before it is not by a constant.
constexpr int64_t iterationsForDivision = 32;

/// A function, and the constants that it no longer has: the values of its last arguments.
struct Sharing {
  func::FuncOp function;
  SmallVector<int64_t> sizes;
};

/// The iterations of a loop with those of the loops in it; at most `manyIterations`, also where they are not known.
int64_t iterationsOf(scf::ForOp loop) {
  int64_t inner = 1;
  for (auto nested : loop.getBody()->getOps<scf::ForOp>())
    inner = std::max(inner, iterationsOf(nested));
  int64_t own = std::min(manyIterations, getConstantIntValue(loop.getUpperBound()).value_or(manyIterations));
  return std::min(manyIterations, own * inner);
}

/// Whether an index is the counter of a loop without inner ones, to which constants may be added: by what it is multiplied, the
/// loop's code should know.
bool isInnermostCounter(Value index) {
  auto loop = dyn_cast_or_null<scf::ForOp>(index.getParentBlock()->getParentOp());
  return loop && addedTo(loop.getInductionVar(), index) && loop.getBody()->getOps<scf::ForOp>().empty();
}

/// The constants that a function might get as arguments without being slower: bounds of loops within the outermost one, by
/// what indices are divided before such a loop, and what is multiplied with or added to them.
SmallVector<OpOperand *> sizesOf(func::FuncOp function, int64_t extent) {
  SmallVector<OpOperand *> result;
  for (auto rows : function.getOps<scf::ForOp>()) {
    bool divisionsPay = llvm::any_of(rows.getOps<scf::ForOp>(), [](scf::ForOp loop) { return iterationsOf(loop) >= iterationsForDivision; });
    rows.getBody()->walk([&](Operation *op) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        bool runsOnce = extent == 1 && loop->getParentOp() == rows;
        if (getConstantIntValue(loop.getUpperBound()) && (runsOnce || iterationsOf(loop) == manyIterations))
          result.push_back(&loop.getUpperBoundMutable());
        return;
      }
      bool divides = isa<arith::DivUIOp, arith::RemUIOp>(op) && divisionsPay && op->getParentOp() == rows;
      bool adds = isa<arith::AddIOp, arith::SubIOp>(op);
      bool multiplies = isa<arith::MulIOp>(op) && !isInnermostCounter(op->getOperand(0));
      if ((divides || adds || multiplies) && op->getResult(0).getType().isIndex() && getConstantIntValue(op->getOperand(1)))
        result.push_back(&op->getOpOperand(1));
    });
  }
  return result;
}

/// Makes sizes arguments, one for each constant, and returns what they were.
SmallVector<int64_t> takeSizes(func::FuncOp function, int64_t extent) {
  SmallVector<int64_t> sizes;
  llvm::DenseMap<Value, Value> arguments;
  for (OpOperand *use : sizesOf(function, extent)) {
    Value &argument = arguments[use->get()];
    if (!argument) {
      unsigned number = function.getNumArguments();
      if (failed(function.insertArgument(number, IndexType::get(function.getContext()), {}, function.getLoc())))
        llvm_unreachable("functions of kernels take any arguments");
      sizes.push_back(*getConstantIntValue(use->get()));
      argument = function.getArgument(number);
    }
    use->set(argument);
  }
  for (auto [constant, argument] : arguments)
    if (constant.use_empty())
      constant.getDefiningOp()->erase();
  return sizes;
}

/// Makes the arguments that have the same value in all members of a group constants of its first function again, and
/// removes their values.
void giveBack(MutableArrayRef<Sharing> group) {
  func::FuncOp function = group.front().function;
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  for (size_t i = group.front().sizes.size(); i-- > 0;) {
    int64_t size = group.front().sizes[i];
    if (llvm::any_of(group, [&](const Sharing &sharing) { return sharing.sizes[i] != size; }))
      continue;
    unsigned number = function.getNumArguments() - group.front().sizes.size() + i;
    function.getArgument(number).replaceAllUsesWith(arith::ConstantIndexOp::create(builder, function.getLoc(), size));
    if (failed(function.eraseArgument(number)))
      llvm_unreachable("the arguments were added before");
    for (Sharing &sharing : group)
      sharing.sizes.erase(sharing.sizes.begin() + i);
  }
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
    SmallVector<int64_t> sizes = takeSizes(function, extents.lookup(function.getName()));
    alike[textOf(function)].push_back({function, std::move(sizes)});
  }
  llvm::StringMap<SharedCode> result;
  for (auto &entry : alike) {
    SmallVector<Sharing> &group = entry.second;
    giveBack(group);
    func::FuncOp first = group.front().function;
    if (!group.front().sizes.empty()) // LLVM must not make copies again
      first->setAttr("passthrough", OpBuilder(first).getStrArrayAttr({"noinline"}));
    for (Sharing &sharing : group) {
      result[sharing.function.getName()] = {first.getName().str(), sharing.sizes};
      if (sharing.function != first)
        sharing.function.erase();
    }
  }
  return result;
}
