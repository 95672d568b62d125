#include "codegen/Lowering/Families.h"
#include "divisi/abi.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {

/// A call with a parameter block, which consists of int64 fields only.
template <typename Block> LibraryCall call(StringRef service, const Block &block, Operation *op) {
  static_assert(sizeof(Block) % sizeof(int64_t) == 0);
  const auto *words = reinterpret_cast<const int64_t *>(&block);
  return {service.str(), SmallVector<int64_t>(words, words + sizeof(Block) / sizeof(int64_t)),
          graph::workspaceBytes(op)};
}

FailureOr<int64_t> libraryType(Operation *op, Type type) {
  if (auto code = typeCode(type); code && isa<FloatType>(type))
    return *code;
  return op->emitError("no CPU lowering for '") << op->getName() << "' on element type " << type;
}

struct Matmul : LibraryInterface::ExternalModel<Matmul, MatmulOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto matmul = cast<MatmulOp>(op);
    auto lhs = tensorType(matmul.getLhs()), rhs = tensorType(matmul.getRhs()), result = tensorType(matmul.getResult());
    auto type = libraryType(op, lhs.getElementType()), resultType = libraryType(op, result.getElementType());
    if (failed(type) || failed(resultType))
      return failure();
    int64_t rank = lhs.getRank();
    DivisiGemm gemm = {};
    gemm.batch0 = 1;
    gemm.batch1 = llvm::product_of(result.getShape().drop_back(2));
    gemm.m = result.getDimSize(rank - 2);
    gemm.n = result.getDimSize(rank - 1);
    gemm.transpose_a = matmul.getTransposeLhs();
    gemm.transpose_b = matmul.getTransposeRhs();
    gemm.k = lhs.getDimSize(gemm.transpose_a ? rank - 2 : rank - 1);
    gemm.lda = lhs.getDimSize(rank - 1);
    gemm.ldb = rhs.getDimSize(rank - 1);
    gemm.ldc = gemm.n;
    gemm.a1 = gemm.m * gemm.k;
    gemm.b1 = gemm.k * gemm.n;
    gemm.c1 = gemm.m * gemm.n;
    gemm.type = *type;
    gemm.result_type = *resultType;
    gemm.tf32 = matmul.getTf32();
    return call("divisi_gemm", gemm, op);
  }
};

static_assert(DIVISI_EPILOGUE_GELU == (int)Epilogue::gelu && DIVISI_EPILOGUE_SUM_B == (int)Epilogue::sum_rhs);
struct MatmulEpilogue : LibraryInterface::ExternalModel<MatmulEpilogue, MatmulEpilogueOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto product = cast<MatmulEpilogueOp>(op);
    auto lhs = tensorType(product.getLhs()), result = tensorType(product.getResult());
    auto type = libraryType(op, lhs.getElementType());
    if (failed(type))
      return failure();
    DivisiGemmEpilogue block = {};
    block.m = result.getDimSize(0);
    block.n = result.getDimSize(1);
    block.k = lhs.getDimSize(!product.getTransposeLhs());
    block.transpose_a = product.getTransposeLhs();
    block.transpose_b = product.getTransposeRhs();
    block.type = *type;
    block.tf32 = product.getTf32();
    block.epilogue = (int64_t)product.getEpilogue();
    block.has_operand = product.getOperand() != nullptr;
    block.has_second = product.getSecond() != nullptr;
    return call("divisi_gemm_epilogue", block, op);
  }
};

/// The parameter block of a convolution with input x, output y and filter of these types.
template <typename OpT>
FailureOr<LibraryCall> conv(OpT op, StringRef service, RankedTensorType x, RankedTensorType y,
                            RankedTensorType filter) {
  auto type = libraryType(op, x.getElementType());
  if (failed(type))
    return failure();
  DivisiConv block = {};
  block.spatial = x.getRank() - 2;
  int64_t channel = op.getChannelsLast() ? x.getRank() - 1 : 1, first = op.getChannelsLast() ? 1 : 2;
  block.batch = x.getDimSize(0);
  block.groups = op.getGroups();
  block.in_channels = x.getDimSize(channel);
  block.out_channels = y.getDimSize(channel);
  for (int64_t s = 0; s < block.spatial; ++s) {
    block.in[s] = x.getDimSize(first + s);
    block.out[s] = y.getDimSize(first + s);
    block.kernel[s] = filter.getDimSize(2 + s);
    block.stride[s] = op.getStrides()[s];
    block.dilation[s] = op.getDilations()[s];
    block.pad_low[s] = op.getPadsLow()[s];
    block.pad_high[s] = op.getPadsHigh()[s];
  }
  block.channels_last = op.getChannelsLast();
  block.type = *type;
  block.tf32 = op.getTf32();
  return call(service, block, op);
}

struct Conv : LibraryInterface::ExternalModel<Conv, ConvOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto c = cast<ConvOp>(op);
    return conv(c, "divisi_conv_forward", tensorType(c.getX()), tensorType(c.getResult()), tensorType(c.getFilter()));
  }
};
struct ConvInputGrad : LibraryInterface::ExternalModel<ConvInputGrad, ConvInputGradOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto c = cast<ConvInputGradOp>(op);
    return conv(c, "divisi_conv_input_grad", tensorType(c.getResult()), tensorType(c.getGradient()),
                tensorType(c.getFilter()));
  }
};
struct ConvFilterGrad : LibraryInterface::ExternalModel<ConvFilterGrad, ConvFilterGradOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto c = cast<ConvFilterGradOp>(op);
    return conv(c, "divisi_conv_filter_grad", tensorType(c.getX()), tensorType(c.getGradient()),
                tensorType(c.getResult()));
  }
};

template <typename OpT> FailureOr<LibraryCall> attention(OpT op, StringRef service) {
  auto q = tensorType(op.getQ());
  auto type = libraryType(op, q.getElementType());
  if (failed(type))
    return failure();
  DivisiAttention block = {};
  block.batch = q.getDimSize(0);
  block.queries = q.getDimSize(1);
  block.heads = q.getDimSize(2);
  block.depth = q.getDimSize(3);
  block.keys = tensorType(op.getK()).getDimSize(1);
  block.causal = op.getCausal();
  if (op.getBias()) {
    auto bias = shapeOf(op.getBias());
    block.has_bias = 1;
    block.bias_batch = bias[0];
    block.bias_heads = bias[1];
    block.bias_queries = bias[2];
  }
  block.scale = llvm::bit_cast<int64_t>(op.getScale().convertToDouble());
  block.type = *type;
  return call(service, block, op);
}

struct Attention : LibraryInterface::ExternalModel<Attention, AttentionOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    return attention(cast<AttentionOp>(op), "divisi_attention");
  }
};
struct AttentionGrad : LibraryInterface::ExternalModel<AttentionGrad, AttentionGradOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    return attention(cast<AttentionGradOp>(op), "divisi_attention_grad");
  }
};

struct TopK : LibraryInterface::ExternalModel<TopK, TopKOp> {
  FailureOr<LibraryCall> getLibraryCall(Operation *op) const {
    auto topK = cast<TopKOp>(op);
    auto x = tensorType(topK.getX());
    Type element = x.getElementType();
    DivisiTopK block = {};
    block.outer = llvm::product_of(x.getShape().take_front(topK.getDim()));
    block.extent = x.getDimSize(topK.getDim());
    block.inner = llvm::product_of(x.getShape().drop_front(topK.getDim() + 1));
    block.k = topK.getK();
    block.largest = !topK.getSmallest();
    block.kind = isa<FloatType>(element) ? 0 : element.isUnsignedInteger() ? 2 : 1;
    block.width = bytesOfElement(element);
    return call("divisi_top_k", block, op);
  }
};
} // namespace

std::optional<int64_t> codegen::typeCode(Type element) {
  if (isa<FloatType>(element)) {
    if (element.isF32() || element.isF64())
      return element.isF32() ? DIVISI_F32 : DIVISI_F64;
    if (element.isBF16() || element.isF16())
      return element.isBF16() ? DIVISI_BF16 : DIVISI_F16;
    return std::nullopt;
  }
  if (element.isInteger(64) || element.isInteger(32))
    return element.isInteger(64) ? DIVISI_I64 : DIVISI_I32;
  if (element.isInteger(16))
    return DIVISI_I16;
  if (element.isInteger(8) || element.isInteger(1))
    return element.isUnsignedInteger(8) || element.isInteger(1) ? DIVISI_U8 : DIVISI_I8;
  return std::nullopt;
}

void codegen::attachLibrary(MLIRContext *context) {
  AttentionOp::attachInterface<Attention>(*context);
  AttentionGradOp::attachInterface<AttentionGrad>(*context);
  MatmulOp::attachInterface<Matmul>(*context);
  MatmulEpilogueOp::attachInterface<MatmulEpilogue>(*context);
  ConvOp::attachInterface<Conv>(*context);
  ConvInputGradOp::attachInterface<ConvInputGrad>(*context);
  ConvFilterGradOp::attachInterface<ConvFilterGrad>(*context);
  TopKOp::attachInterface<TopK>(*context);
}

void codegen::registerLowerings(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, dist::DistDialect *) { attachCommunication(context); });
  registry.addExtension(+[](MLIRContext *context, GraphDialect *) {
    attachElementwise(context);
    attachIndexing(context);
    attachLibrary(context);
    attachPooling(context);
    attachRandom(context);
    attachReduction(context);
    attachShape(context);
  });
}
