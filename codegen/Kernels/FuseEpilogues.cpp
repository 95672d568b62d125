#include "codegen/Kernels/Passes.h"
#include "codegen/Lowering/Families.h"
#include "dialects/Graph/GraphBuilder.h"

using namespace mlir;
using namespace divisi::graph;

namespace divisi::codegen {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {
/// Sizes that are multiples of this number of elements have fast algorithms.
constexpr int64_t step = 8;

Type elementOf(Value value) { return tensorType(value).getElementType(); }
int64_t columnsOf(Value value) { return shapeOf(value).back(); }

/// Whether the library has epilogues for a matmul with these types and sizes.
bool suits(MatmulOp product) {
  Type element = elementOf(product);
  bool narrow = element.isBF16() || element.isF16();
  if (tensorType(product).getRank() != 2 || (!narrow && !(element.isF32() && product.getTf32())))
    return false;
  return llvm::all_of(product->getOperands(),
                      [](Value operand) {
                        return llvm::all_of(shapeOf(operand), [](int64_t size) { return size > 0; }) &&
                               columnsOf(operand) % step == 0;
                      }) &&
         columnsOf(product) % step == 0;
}

/// Whether the columns (the last dimension) of a reshape's result are those of its operand.
bool keepsColumns(ReshapeOp reshape) {
  return !reshape.getBarrier() && tensorType(reshape).getRank() > 0 && tensorType(reshape.getX()).getRank() > 0 &&
         columnsOf(reshape) == columnsOf(reshape.getX());
}

/// The matmul that computes a value, perhaps reshaped or widened; null if the matmul has other users.
MatmulOp productOf(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (auto product = dyn_cast_or_null<MatmulOp>(op))
      return suits(product) ? product : MatmulOp();
    auto reshape = dyn_cast_or_null<ReshapeOp>(op);
    auto cast = dyn_cast_or_null<CastOp>(op);
    if (!(reshape && keepsColumns(reshape)) && !(cast && elementOf(value).isF32()))
      return nullptr;
    value = op->getOperand(0);
  }
  return nullptr;
}

/// Whether look(user) holds for all users of a value and of its views.
template <typename Look> bool allReaders(Value value, const Look &look) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto reshape = dyn_cast<ReshapeOp>(user);
    return reshape && !reshape.getBarrier() ? allReaders(reshape, look) : look(user);
  });
}

/// Whether a user only rounds the value to the matmul's type; if that is f32, whether it is a library call.
bool isForLibraries(Operation *user, Type element) {
  if (element.isF32())
    return isa<LibraryInterface>(user);
  auto cast = dyn_cast<CastOp>(user);
  return cast && elementOf(cast) == element;
}

/// Whether the operation is the sum over all rows, with this number of columns.
bool isSumOfRows(Operation *op, int64_t columns) {
  auto sum = dyn_cast<ReduceSumOp>(op);
  return sum && shapeOf(sum) == ArrayRef(columns) &&
         llvm::equal(sum.getDims(), llvm::seq<int64_t>(0, tensorType(sum.getX()).getRank() - 1));
}

/// Whether the operation is x > 0, which the gradient of relu computes.
bool isPositive(Operation *op, Value x) {
  auto compare = dyn_cast<CompareOp>(op);
  return compare && compare.getPredicate() == Predicate::gt && compare.getLhs() == x &&
         splatOf(compare.getRhs()) == 0.0;
}

class Fuser {
public:
  explicit Fuser(Block &block) : block(block) {}

  void run() {
    SmallVector<AddOp> adds(block.getOps<AddOp>());
    for (AddOp add : adds)
      if (auto [product, bias] = biasedProduct(add); product)
        fuseForward(add, product, bias);
    graph::eraseUnused(block);
    SmallVector<MatmulOp> products(block.getOps<MatmulOp>());
    for (MatmulOp product : products)
      if (suits(product))
        fuseSum(product);
    graph::eraseUnused(block);
  }

private:
  /// The matmul and the vector of a bias addition: a vector is added to each row of a matmul's result.
  static std::pair<MatmulOp, Value> biasedProduct(AddOp add) {
    for (auto [x, b] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
      auto broadcast = b.getDefiningOp<BroadcastOp>();
      int64_t rank = tensorType(b).getRank();
      if (broadcast && tensorType(broadcast.getX()).getRank() == 1 && broadcast.getDims()[0] == rank - 1 &&
          columnsOf(broadcast.getX()) == columnsOf(b))
        if (MatmulOp product = productOf(x))
          return {product, broadcast.getX()};
    }
    return {};
  }

  void fuseForward(AddOp add, MatmulOp product, Value bias) {
    Type element = elementOf(product);
    SmallVector<Operation *> users(add->getUsers());
    auto gelus = llvm::count_if(users, [](Operation *user) { return isa<GeluOp>(user); });
    auto relus = llvm::count_if(users, [](Operation *user) { return isa<ReluOp>(user); });
    if (gelus == 1)
      return fuseGelu(add, product, bias);
    if (relus == 1 && users.size() == 1)
      return fuseRelu(cast<ReluOp>(users[0]), add, product, bias);
    bool read = false;
    if (allReaders(add, [&](Operation *user) { return read = isForLibraries(user, element); }) && read) {
      auto fused = build(Epilogue::bias, add, product, bias, /*second=*/{});
      replace(add.getResult(), fused.getResult());
    }
  }

  void fuseGelu(AddOp add, MatmulOp product, Value bias) {
    GeluOp gelu;
    SmallVector<GeluGradOp> gradients;
    for (Operation *user : add->getUsers()) {
      auto gradient = dyn_cast<GeluGradOp>(user);
      if (auto forward = dyn_cast<GeluOp>(user); forward && forward.getTanh())
        gelu = forward;
      else if (gradient && gradient.getX() == add && gradient.getGradient() != add && gradient.getTanh())
        gradients.push_back(gradient);
      else
        return;
    }
    Type element = elementOf(product);
    if (!allReaders(gelu, [&](Operation *user) { return isForLibraries(user, element); }))
      return;
    auto saved = gradients.empty() ? Type() : tensorType(product);
    auto fused = build(Epilogue::gelu, add, product, bias, saved);
    replace(gelu.getResult(), fused.getResult());
    for (GeluGradOp gradient : gradients)
      if (!fuseGradient(gradient, fused.getSecond()))
        gradient.getXMutable().assign(likeIn(gradient, fused.getSecond(), gradient.getX()));
  }

  /// Kernels compute relu's gradient from its result: cuBLASLt's epilogue, which reads bits, takes 115 us more on an
  /// H100 for 4,096 x 4,096 elements, which a kernel handles in 35.
  void fuseRelu(ReluOp relu, AddOp add, MatmulOp product, Value bias) {
    Type element = elementOf(product);
    if (allReaders(relu, [&](Operation *user) { return isPositive(user, relu) || isForLibraries(user, element); }))
      replace(relu.getResult(), build(Epilogue::relu, add, product, bias, /*second=*/{}).getResult());
  }

  /// Fuses gelu'(saved) * matmul, if all users of the gradient can read the result. Sums of its rows are left to the
  /// matmul that computes the weight's gradient: with them, this one takes 249 us instead of 98 for 8,192 x 3,072
  /// elements on an H100.
  bool fuseGradient(GeluGradOp op, Value saved) {
    MatmulOp product = productOf(op.getGradient());
    if (!product)
      return false;
    Type element = elementOf(product);
    int64_t columns = columnsOf(op);
    if (!allReaders(op, [&](Operation *user) { return isForLibraries(user, element) || isSumOfRows(user, columns); }))
      return false;
    auto fused = build(Epilogue::gelu_grad, op, product, saved, /*second=*/{});
    replace(op.getResult(), fused.getResult());
    return true;
  }

  static SmallVector<Operation *> sumsOf(Value value) {
    SmallVector<Operation *> sums;
    allReaders(value, [&](Operation *user) {
      if (isSumOfRows(user, columnsOf(value)))
        sums.push_back(user);
      else if (auto wider = dyn_cast<CastOp>(user); wider && elementOf(wider).isF32())
        llvm::append_range(sums, sumsOf(wider));
      return true;
    });
    return sums;
  }

  /// Fuses the sum over the rows of an operand: where a matmul computes a weight's gradient, this sum is the gradient
  /// of the bias.
  void fuseSum(MatmulOp product) {
    for (bool left : {true, false}) {
      if (left ? !product.getTransposeLhs() : product.getTransposeRhs())
        continue; // the sum would be along the rows
      Value operand = left ? product.getLhs() : product.getRhs(), value = operand;
      SmallVector<Operation *> sums;
      while (tensorType(value).getRank() > 0 && (sums = sumsOf(value)).empty()) {
        auto reshape = value.getDefiningOp<ReshapeOp>();
        auto cast = value.getDefiningOp<CastOp>();
        if (!(reshape && keepsColumns(reshape)) && !(cast && elementOf(cast.getX()).isF32()))
          break;
        value = value.getDefiningOp()->getOperand(0);
      }
      bool late = llvm::all_of(sums, [&](Operation *sum) {
        return llvm::all_of(sum->getUsers(), [&](Operation *user) { return product->isBeforeInBlock(user); });
      });
      if (sums.empty() || !late)
        continue;
      Type second = RankedTensorType::get({columnsOf(operand)}, elementOf(product));
      auto fused = build(left ? Epilogue::sum_lhs : Epilogue::sum_rhs, product, product, {}, second);
      for (Operation *sum : sums)
        sum->getResult(0).replaceAllUsesWith(likeIn(product, fused.getSecond(), sum->getResult(0)));
      replace(product.getResult(), fused.getResult());
      return;
    }
  }

  /// Creates the fused matmul before `at`, where all of its operands dominate it.
  MatmulEpilogueOp build(Epilogue kind, Operation *at, MatmulOp product, Value operand, Type second) {
    OpBuilder builder(at);
    if (operand && elementOf(operand) != elementOf(product) && isa<FloatType>(elementOf(operand)))
      operand = GraphBuilder(builder, at->getLoc()).cast(operand, elementOf(product));
    SmallVector<Location> locations = {product.getLoc(), at->getLoc()};
    auto loc = at == product ? product.getLoc() : builder.getFusedLoc(locations);
    return MatmulEpilogueOp::create(builder, loc, product.getType(), second, kind, product.getLhs(), product.getRhs(),
                                    operand, product.getTransposeLhs(), product.getTransposeRhs(), product.getTf32());
  }

  /// Converts a value of a fused matmul to another value's element type and shape, before an operation.
  static Value likeIn(Operation *before, Value value, Value like) {
    OpBuilder builder(before);
    GraphBuilder b(builder, before->getLoc());
    return b.reshape(b.cast(value, elementOf(like)), shapeOf(like));
  }
  /// Replaces a value. Users that round the old value read the new one without a cast.
  static void replace(Value old, Value value) {
    allReaders(old, [&](Operation *user) {
      if (auto cast = dyn_cast<CastOp>(user); cast && elementOf(cast) == elementOf(value)) {
        OpBuilder builder(user);
        cast.replaceAllUsesWith(GraphBuilder(builder, user->getLoc()).reshape(value, shapeOf(cast)));
      }
      return true;
    });
    old.replaceAllUsesWith(likeIn(old.getDefiningOp(), value, old));
  }

  Block &block;
};

struct FuseEpiloguesPass : impl::FuseEpiloguesPassBase<FuseEpiloguesPass> {
  using FuseEpiloguesPassBase::FuseEpiloguesPassBase;

  void runOnOperation() final {
    if (!getOperation().isDeclaration())
      Fuser(getOperation().getBody().front()).run();
  }
};
} // namespace
} // namespace divisi::codegen
