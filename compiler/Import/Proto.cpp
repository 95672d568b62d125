#include "compiler/Import/Proto.h"
#include "compiler/Import/ImportError.h"
#include "divisi/file_kind.h"
#include "divisi/suggest.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>

using namespace divisi;
using namespace divisi::compiler;

/// What a file seems to be that is not a model, and what to do with it; empty for an unknown kind.
static std::string asModel(divisi::FileKind kind) {
  using divisi::FileKind;
  const char *remedy = "";
  if (kind == FileKind::torch || kind == FileKind::pickle || kind == FileKind::zip)
    remedy = ": export the model with torch.onnx.export (docs/onnx.md)";
  else if (kind == FileKind::safetensors || kind == FileKind::hdf5)
    remedy = ": weights alone; export the model to ONNX (docs/onnx.md)";
  else if (kind == FileKind::npy || kind == FileKind::npz || kind == FileKind::csv)
    remedy = ": data is for the compiled program's --data";
  else if (kind == FileKind::mlir)
    remedy = ": the name of a dump ends with .mlir";
  else if (kind == FileKind::gzip)
    remedy = ": decompress it";
  else if (kind == FileKind::program)
    remedy = ": it may be compiled already";
  if (kind == FileKind::unknown || kind == FileKind::onnx)
    return "";
  return divisi::compiler::textOf("; it looks like ", divisi::nameOf(kind), remedy);
}

std::shared_ptr<onnx::ModelProto> divisi::compiler::readModel(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    fail("cannot read the model: ", error.message(), didYouMeanFile(path.str()));
  if (status.type() != llvm::sys::fs::file_type::regular_file)
    fail("cannot read the model: not a regular file");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    fail("cannot read the model: ", buffer.getError().message());
  if ((*buffer)->getBufferSize() > INT32_MAX)
    fail("the model file is larger than 2 GiB, which protobuf cannot hold; export it with external data");
  FileKind kind = kindOfFile((*buffer)->getBuffer());
  google::protobuf::LogSilencer silence;
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>((*buffer)->getBufferStart()),
                                                (int)(*buffer)->getBufferSize());
  if (!model->ParsePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    fail("not an ONNX model", asModel(kind), kind == FileKind::unknown ? ", or damaged: protobuf cannot parse it" : "");
  if (!model->has_graph())
    fail("not an ONNX model: it has no graph", asModel(kind));
  return model;
}

/// The last unknown field of this number that is length-delimited.
static std::string unknownText(const google::protobuf::UnknownFieldSet &fields, int number) {
  std::string text;
  for (int i = 0; i < fields.field_count(); ++i)
    if (const auto &field = fields.field(i);
        field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      text = field.length_delimited();
  return text;
}

std::string divisi::compiler::overloadOf(const onnx::NodeProto &node) { return unknownText(node.unknown_fields(), 8); }
std::string divisi::compiler::overloadOf(const onnx::FunctionProto &function) {
  return unknownText(function.unknown_fields(), 13);
}

std::vector<onnx::AttributeProto> divisi::compiler::defaultsOf(const onnx::FunctionProto &function) {
  std::vector<onnx::AttributeProto> defaults;
  const auto &fields = function.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto &field = fields.field(i);
    onnx::AttributeProto attribute;
    if (field.number() == 11 && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        attribute.ParsePartialFromString(field.length_delimited()))
      defaults.push_back(std::move(attribute));
  }
  return defaults;
}

static Metadata metadataIn(const google::protobuf::UnknownFieldSet &fields, int number) {
  Metadata metadata;
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto &field = fields.field(i);
    onnx::StringStringEntryProto entry;
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParsePartialFromString(field.length_delimited()))
      metadata[entry.key()] = entry.value();
  }
  return metadata;
}

Metadata divisi::compiler::metadataOf(const onnx::NodeProto &node) { return metadataIn(node.unknown_fields(), 9); }
Metadata divisi::compiler::metadataOf(const onnx::ValueInfoProto &value) {
  return metadataIn(value.unknown_fields(), 4);
}
Metadata divisi::compiler::metadataOf(const onnx::GraphProto &graph) { return metadataIn(graph.unknown_fields(), 16); }

std::string divisi::compiler::operatorName(const onnx::NodeProto &node) {
  return isMainDomain(node.domain()) ? node.op_type() : node.domain() + "." + node.op_type();
}
