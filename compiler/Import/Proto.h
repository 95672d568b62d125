#pragma once
#include <onnx/onnx_pb.h>

#include "llvm/ADT/StringRef.h"

#include <map>
#include <memory>
#include <optional>

namespace divisi::compiler {

/// Parses a model file; throws ImportError.
std::shared_ptr<onnx::ModelProto> readModel(llvm::StringRef path);

/// Fields that are newer than the schema which Debian ships; protobuf keeps them as unknown ones.
std::string overloadOf(const onnx::NodeProto &node);
std::string overloadOf(const onnx::FunctionProto &function);
/// Attributes of a function with default values.
std::vector<onnx::AttributeProto> defaultsOf(const onnx::FunctionProto &function);
/// What an exporter wrote beside a node, a value or a graph: texts by key.
using Metadata = std::map<std::string, std::string>;
Metadata metadataOf(const onnx::NodeProto &node);
Metadata metadataOf(const onnx::ValueInfoProto &value);
Metadata metadataOf(const onnx::GraphProto &graph);

/// The main domain has two names.
inline bool isMainDomain(llvm::StringRef domain) { return domain.empty() || domain == "ai.onnx"; }

/// "Relu", or "com.example.Foo" outside of the main domain.
std::string operatorName(const onnx::NodeProto &node);

} // namespace divisi::compiler
