#pragma once
#include "compiler/Import/Proto.h"

#include <set>
#include <string>
#include <vector>

namespace divisi::compiler {

/// What PyTorch's exporter says of the call that a node is a part of. Empty in files of other exporters.
struct CallNotes {
  explicit CallNotes(const onnx::NodeProto &node);

  std::string module;                // path of the module that makes the call, "" for the outermost one
  std::string moduleClass;           // "torch.nn.modules.dropout.Dropout"
  std::string result;                // the call's name in the exported program
  std::string target;                // "aten.linear.default"
  std::string arguments;             // as text: "%x, %p_fc_weight, 0.1"
  std::vector<std::string> mentions; // names in the arguments: "x", "p_fc_weight"
  std::string rule;                  // the rewriting that made the node
};

/// Whether a node is batch norm and what was before it, in one: torch.export's optimizer says so, and TorchScript's
/// exporter gives a convolution's weights new names.
bool isFoldedBatchNorm(const onnx::NodeProto &node);

/// What a node is called in messages: its name, and its module where the exporter wrote that down.
std::string describe(const onnx::NodeProto &node, const std::string &name);

/// What torch.export (dynamo=True) wrote into a file about its tensors: the signature of the exported program, and what
/// the exporter's optimizer computed new initializers from.
class ExportNotes {
public:
  enum class Kind { parameter, buffer, constant };

  explicit ExportNotes(const onnx::GraphProto &graph);

  /// Whether the file says what its tensors are.
  bool any() const { return !kinds.empty(); }
  std::optional<Kind> kindOf(const std::string &name) const;
  /// Whether a buffer is in the module's state_dict.
  bool isPersistent(const std::string &name) const { return !transient.count(name); }
  /// Whether the initializer is as the module held it: optimizers that put another in its place drop its notes.
  bool isOriginal(const std::string &name) const { return originals.count(name); }
  /// Whether a call of the module changes the buffer, which a file of ONNX does not.
  bool isMutated(const std::string &name) const { return mutated.count(name); }
  bool hasSources() const { return !sources.empty(); }
  bool hasOriginals() const { return !originals.empty(); }
  /// Names of the values that an initializer was computed from; null if the file does not say.
  const std::vector<std::string> *sourcesOf(const std::string &name) const;
  /// All parameters of the module: by their names in the exported program, those in the module.
  const std::map<std::string, std::string> &parameters() const { return placeholders; }

private:
  void add(const std::string &placeholder, llvm::StringRef kind, const std::string &target);

  std::map<std::string, Kind> kinds;
  std::map<std::string, std::string> placeholders;
  std::set<std::string> originals, transient, mutated;
  std::map<std::string, std::vector<std::string>> sources;
};

} // namespace divisi::compiler
