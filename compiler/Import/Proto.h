#pragma once
#include <onnx/onnx_pb.h>

#include "llvm/ADT/StringRef.h"

#include <map>
#include <memory>
#include <optional>

namespace divisi::compiler {

/// Parses a model file; throws ImportError.
std::shared_ptr<onnx::ModelProto> readModel(llvm::StringRef path);

/// Fields that Debian's version of the schema lacks; protobuf keeps them as unknown fields.
std::string overloadOf(const onnx::NodeProto &node);
std::string overloadOf(const onnx::FunctionProto &function);
/// The attributes of a function that have default values.
std::vector<onnx::AttributeProto> defaultsOf(const onnx::FunctionProto &function);
/// What an exporter wrote about a node, a value or a graph: texts by key.
using Metadata = std::map<std::string, std::string>;
Metadata metadataOf(const onnx::NodeProto &node);
Metadata metadataOf(const onnx::ValueInfoProto &value);
Metadata metadataOf(const onnx::GraphProto &graph);

/// Whether this is the main domain, which has two names.
inline bool isMainDomain(llvm::StringRef domain) { return domain.empty() || domain == "ai.onnx"; }

/// "Relu", or "com.example.Foo" outside of the main domain.
std::string operatorName(const onnx::NodeProto &node);

} // namespace divisi::compiler
