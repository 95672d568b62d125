#include "compiler/Import/Tensors.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace divisi::compiler;
using llvm::ArrayRef;

int64_t divisi::compiler::checkedElements(ArrayRef<int64_t> shape) {
  if ((int64_t)shape.size() > maxRank)
    fail("a tensor of rank ", shape.size(), " is more than ", maxRank);
  int64_t count = 1;
  for (int64_t d : shape) {
    if (d < 0)
      fail("a dimension of a tensor is negative: ", shapeText(shape));
    if (d > maxElements || llvm::MulOverflow(count, d, count) || count > maxElements)
      fail("a tensor of shape ", shapeText(shape), " is too large");
  }
  return count;
}

RankedTensorType divisi::compiler::checkedType(ArrayRef<int64_t> shape, Type element) {
  checkedElements(shape);
  return RankedTensorType::get(shape, element);
}

Type divisi::compiler::elementTypeOf(MLIRContext *context, int64_t onnxType) {
  auto unsignedType = [&](unsigned width) { return IntegerType::get(context, width, IntegerType::Unsigned); };
  switch (onnxType) {
  case onnx::TensorProto::FLOAT:
    return Float32Type::get(context);
  case onnx::TensorProto::DOUBLE:
    return Float64Type::get(context);
  case onnx::TensorProto::FLOAT16:
    return Float16Type::get(context);
  case onnx::TensorProto::BFLOAT16:
    return BFloat16Type::get(context);
  case onnx::TensorProto::INT8:
    return IntegerType::get(context, 8);
  case onnx::TensorProto::INT16:
    return IntegerType::get(context, 16);
  case onnx::TensorProto::INT32:
    return IntegerType::get(context, 32);
  case onnx::TensorProto::INT64:
    return IntegerType::get(context, 64);
  case onnx::TensorProto::UINT8:
    return unsignedType(8);
  case onnx::TensorProto::UINT16:
    return unsignedType(16);
  case onnx::TensorProto::UINT32:
    return unsignedType(32);
  case onnx::TensorProto::UINT64:
    return unsignedType(64);
  case onnx::TensorProto::BOOL:
    return IntegerType::get(context, 1);
  case onnx::TensorProto::STRING:
    fail("tensors of strings are not supported");
  default:
    fail("ONNX element type ", onnxType, " is not supported");
  }
}

int64_t divisi::compiler::storedBytes(RankedTensorType type) {
  return checkedElements(type.getShape()) * ((type.getElementTypeBitWidth() + 7) / 8);
}

//===- Reading ------------------------------------------------------------===//

TensorReader::TensorReader(MLIRContext *context, llvm::StringRef modelPath, bool dataOptional)
    : context(context), folder(std::filesystem::path(modelPath.str()).parent_path()), dataOptional(dataOptional) {
  if (folder.empty())
    folder = ".";
}

RankedTensorType TensorReader::typeOf(const onnx::TensorProto &tensor) {
  return checkedType({tensor.dims().data(), (size_t)tensor.dims().size()}, elementTypeOf(context, tensor.data_type()));
}

/// Copies a typed field, element by element, as the stored type.
template <typename To, typename Field> static void store(const Field &field, int64_t count, TensorData &data) {
  if (field.size() != count)
    fail("it has ", field.size(), " values for ", count, " elements");
  auto bytes = std::make_shared<std::vector<To>>();
  bytes->reserve(count);
  for (auto value : field)
    bytes->push_back(static_cast<To>(value));
  data.bytes = ArrayRef<char>(reinterpret_cast<const char *>(bytes->data()), count * sizeof(To));
  data.owner = bytes;
}

static void readTypedFields(const onnx::TensorProto &tensor, TensorData &data) {
  int64_t count = data.type.getNumElements();
  switch (tensor.data_type()) {
  case onnx::TensorProto::FLOAT:
    return store<float>(tensor.float_data(), count, data);
  case onnx::TensorProto::DOUBLE:
    return store<double>(tensor.double_data(), count, data);
  case onnx::TensorProto::INT64:
    return store<int64_t>(tensor.int64_data(), count, data);
  case onnx::TensorProto::UINT32:
    return store<uint32_t>(tensor.uint64_data(), count, data);
  case onnx::TensorProto::UINT64:
    return store<uint64_t>(tensor.uint64_data(), count, data);
  case onnx::TensorProto::INT32:
    return store<int32_t>(tensor.int32_data(), count, data);
  case onnx::TensorProto::INT16:
  case onnx::TensorProto::UINT16:
  case onnx::TensorProto::FLOAT16:
  case onnx::TensorProto::BFLOAT16: // stored as the floats' bits
    return store<uint16_t>(tensor.int32_data(), count, data);
  default:
    return store<uint8_t>(tensor.int32_data(), count, data);
  }
}

TensorData TensorReader::read(const onnx::TensorProto &tensor, const std::shared_ptr<const void> &owner) try {
  TensorData data;
  data.type = typeOf(tensor);
  if (tensor.has_segment())
    fail("tensors in segments are not supported");
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    readExternal(tensor, data);
  } else if (tensor.has_raw_data()) {
    data.bytes = ArrayRef<char>(tensor.raw_data().data(), tensor.raw_data().size());
    data.owner = owner;
  } else {
    readTypedFields(tensor, data);
  }
  if (!data.missing && (int64_t)data.bytes.size() != storedBytes(data.type))
    fail("it has ", data.bytes.size(), " bytes of data, but its shape needs ", storedBytes(data.type));
  return data;
} catch (ImportError &error) {
  fail("tensor '", tensor.name(), "': ", error.message);
}

/// Parses a non-negative number; fails with a message that names it.
static int64_t parseNumber(const std::string &text, llvm::StringRef what) {
  int64_t value;
  if (llvm::StringRef(text).getAsInteger(10, value) || value < 0)
    fail("external data has the ", what, " '", text, "'");
  return value;
}

/// The path of external data: a regular file in the model's folder or below, also with symbolic links resolved.
static std::filesystem::path insideFolder(const std::filesystem::path &folder, const std::string &location) {
  namespace fs = std::filesystem;
  fs::path relative(location);
  bool climbs = llvm::any_of(relative, [](const fs::path &part) { return part == ".."; });
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() || climbs)
    fail("external data at '", location, "' is outside of the model's folder");
  std::error_code error;
  fs::path root = fs::canonical(folder, error);
  fs::path file = fs::weakly_canonical(folder / relative, error);
  auto [end, rest] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (error || end != root.end())
    fail("external data at '", location, "' is outside of the model's folder");
  return file;
}

void TensorReader::readExternal(const onnx::TensorProto &tensor, TensorData &data) {
  std::string location;
  int64_t offset = 0, length = storedBytes(data.type);
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset")
      offset = parseNumber(entry.value(), "offset");
    else if (entry.key() == "length")
      length = parseNumber(entry.value(), "length");
  }
  std::filesystem::path path = insideFolder(folder, location);
  auto [it, isNew] = files.try_emplace(path);
  if (isNew && std::filesystem::is_regular_file(path)) {
    auto buffer = llvm::MemoryBuffer::getFile(path.string(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!buffer)
      fail("cannot read external data '", location, "': ", buffer.getError().message());
    ArrayRef<char> bytes((*buffer)->getBufferStart(), (*buffer)->getBufferSize());
    it->second = {std::shared_ptr<llvm::MemoryBuffer>(std::move(*buffer)), bytes};
  }
  auto &[owner, bytes] = it->second;
  if (!owner) {
    if (!dataOptional)
      fail("its external data file '", location, "' is missing");
    data.missing = true;
    return;
  }
  if (offset > (int64_t)bytes.size() || length > (int64_t)bytes.size() - offset)
    fail("external data reaches beyond the end of '", location, "': offset ", offset, ", length ", length, ", file of ",
         bytes.size(), " bytes");
  data.bytes = bytes.slice(offset, length);
  data.owner = owner;
}

DenseElementsAttr TensorReader::attribute(const onnx::TensorProto &tensor) {
  TensorData data = read(tensor, nullptr);
  if (data.missing)
    fail("tensor '", tensor.name(), "': its value is needed, but its external data file is missing");
  return attribute(data);
}

DenseElementsAttr TensorReader::attribute(const TensorData &data) {
  if (data.type.getNumElements() == 0)
    return DenseElementsAttr::get(data.type, ArrayRef<Attribute>());
  if (!data.type.getElementType().isInteger(1))
    return DenseElementsAttr::getFromRawBuffer(data.type, data.bytes);
  auto values = llvm::map_to_vector(data.bytes, [](char c) { return c != 0; });
  return DenseElementsAttr::get(data.type, ArrayRef<bool>(values));
}

//===- Values -------------------------------------------------------------===//

/// A constant of one number has as many elements as its shape says.
static void checkWritable(DenseElementsAttr values) {
  constexpr int64_t mostElements = 1 << 27;
  if (values.getNumElements() > mostElements)
    fail("a constant of ", values.getNumElements(), " elements is too large to compute with");
}

llvm::SmallVector<int64_t> divisi::compiler::integersOf(DenseElementsAttr values) {
  checkWritable(values);
  if (!isa<IntegerType>(values.getElementType()))
    return llvm::map_to_vector(numbersOf(values), [](double v) {
      return std::isnan(v) ? 0 : (int64_t)std::clamp(v, -0x1p62, 0x1p62);
    });
  auto type = cast<IntegerType>(values.getElementType());
  bool isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  return llvm::map_to_vector(values.getValues<llvm::APInt>(), [&](const llvm::APInt &v) {
    return isUnsigned ? (int64_t)v.getZExtValue() : v.getSExtValue();
  });
}

std::optional<double> divisi::compiler::numberOfAll(DenseElementsAttr values) {
  if (values.empty() || !values.isSplat())
    return std::nullopt;
  return numbersOf(values.resizeSplat(values.getType().clone(ArrayRef<int64_t>{})))[0];
}

llvm::SmallVector<double> divisi::compiler::numbersOf(DenseElementsAttr values) {
  checkWritable(values);
  if (isa<IntegerType>(values.getElementType()))
    return llvm::map_to_vector(integersOf(values), [](int64_t v) { return (double)v; });
  return llvm::map_to_vector(values.getValues<llvm::APFloat>(), [](llvm::APFloat v) {
    bool lossy;
    v.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return v.convertToDouble();
  });
}
