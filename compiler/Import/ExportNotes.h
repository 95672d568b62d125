#pragma once
#include "compiler/Import/Proto.h"

#include <set>
#include <string>
#include <vector>

namespace divisi::compiler {

/// What PyTorch's exporter wrote about the call that a node is a part of. Empty in files of other exporters.
struct CallNotes {
  explicit CallNotes(const onnx::NodeProto &node);

  /// An argument of the call as text: the one at this place, or of this name; "" if the call has its default.
  std::string argument(size_t place, llvm::StringRef name) const;
  /// Whether the call is torch.Tensor.detach, which stops the gradient.
  bool isDetach() const { return llvm::StringRef(target).starts_with("aten.detach"); }
  /// Whether the call is torch.nn.functional.scaled_dot_product_attention.
  bool isAttention() const { return llvm::StringRef(target).starts_with("aten.scaled_dot_product_attention."); }
  /// Whether the call is batch norm with the statistics of the batch.
  bool isTrainingBatchNorm() const {
    llvm::StringRef text = target;
    return text.contains("batch_norm") && (text.contains("_functional") || text.ends_with(".no_stats"));
  }

  std::string module;                // path of the module that makes the call, "" for the outermost one
  std::string moduleClass;           // "torch.nn.modules.dropout.Dropout"
  std::string result;                // the call's name in the exported program
  std::string target;                // "aten.linear.default"
  std::string arguments;             // as text: "%x, %p_fc_weight, 0.1"
  std::vector<std::string> mentions; // names in the arguments: "x", "p_fc_weight"
  std::string rule;                  // the rewrite rule that created the node
};

/// Whether a node is batch norm fused with the operation before it: torch.export's optimizer notes this, and
/// TorchScript's exporter renames a convolution's weights.
bool isFoldedBatchNorm(const onnx::NodeProto &node);

/// A node's name in messages: its name, and its module if the exporter noted it.
std::string describe(const onnx::NodeProto &node, const std::string &name);

/// What torch.export (dynamo=True) wrote into a file about its tensors: the signature of the exported program, and the
/// values from which the exporter's optimizer computed new initializers.
class ExportNotes {
public:
  enum class Kind { parameter, buffer, constant };

  explicit ExportNotes(const onnx::GraphProto &graph);

  /// Whether the file describes its tensors.
  bool any() const { return !kinds.empty(); }
  std::optional<Kind> kindOf(const std::string &name) const;
  /// Whether a buffer is in the module's state_dict.
  bool isPersistent(const std::string &name) const { return !transient.count(name); }
  /// Whether the initializer is unchanged from the module: an optimizer that replaces an initializer drops its notes.
  bool isOriginal(const std::string &name) const { return originals.count(name); }
  /// Buffers that a call of the module changes. In an ONNX file nothing does.
  const std::set<std::string> &mutations() const { return mutated; }
  bool hasSources() const { return !sources.empty(); }
  bool hasOriginals() const { return !originals.empty(); }
  /// Names of the values from which an initializer was computed; null if the file does not contain them.
  const std::vector<std::string> *sourcesOf(const std::string &name) const;
  /// All parameters of the module: from their names in the exported program to their names in the module.
  const std::map<std::string, std::string> &parameters() const { return placeholders; }

private:
  void add(const std::string &placeholder, llvm::StringRef kind, const std::string &target);

  std::map<std::string, Kind> kinds;
  std::map<std::string, std::string> placeholders;
  std::set<std::string> originals, transient, mutated;
  std::map<std::string, std::vector<std::string>> sources;
};

} // namespace divisi::compiler
