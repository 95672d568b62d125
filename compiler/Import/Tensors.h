#pragma once
#include "compiler/Import/ImportError.h"
#include "compiler/Import/Proto.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <filesystem>
#include <map>

namespace divisi::compiler {

/// The largest number of elements of a tensor that is accepted.
inline constexpr int64_t maxElements = int64_t(1) << 40;
/// The highest rank.
inline constexpr int64_t maxRank = 32;

/// The number of elements; fails for negative sizes, too many elements or too many dimensions.
int64_t checkedElements(llvm::ArrayRef<int64_t> shape);
/// A tensor type; checks the shape.
mlir::RankedTensorType checkedType(llvm::ArrayRef<int64_t> shape, mlir::Type element);
/// The MLIR type of an ONNX element type: signed integers are signless, unsigned ones are not, booleans are i1.
mlir::Type elementTypeOf(mlir::MLIRContext *context, int64_t onnxType);
/// The bytes of a tensor in a file, where a boolean takes one byte.
int64_t storedBytes(mlir::RankedTensorType type);

/// A tensor with its bytes as in the file.
struct TensorData {
  mlir::RankedTensorType type;
  llvm::ArrayRef<char> bytes; // little-endian, a boolean takes one byte
  std::shared_ptr<const void> owner;
  bool missing = false; // its external data was not found, and may be missing
};

/// Reads tensors whose data is inline or in files beside the model.
class TensorReader {
public:
  TensorReader(mlir::MLIRContext *context, llvm::StringRef modelPath, bool dataOptional);

  /// `owner` owns the proto's bytes.
  TensorData read(const onnx::TensorProto &tensor, const std::shared_ptr<const void> &owner);
  mlir::DenseElementsAttr attribute(const onnx::TensorProto &tensor);
  static mlir::DenseElementsAttr attribute(const TensorData &data);

private:
  mlir::RankedTensorType typeOf(const onnx::TensorProto &tensor);
  void readExternal(const onnx::TensorProto &tensor, TensorData &data);

  mlir::MLIRContext *context;
  std::filesystem::path folder;
  bool dataOptional;
  std::map<std::filesystem::path, std::pair<std::shared_ptr<const void>, llvm::ArrayRef<char>>> files;
};

/// Elements as integers or as floats, for any element type. Of a float, the integer towards zero; of NaN, 0.
llvm::SmallVector<int64_t> integersOf(mlir::DenseElementsAttr values);
llvm::SmallVector<double> numbersOf(mlir::DenseElementsAttr values);
/// The number that all elements are, of which there is one at least.
std::optional<double> numberOfAll(mlir::DenseElementsAttr values);

} // namespace divisi::compiler
