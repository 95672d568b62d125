#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace divisi::planning {

/// The costs of each layer of a network on one device for one minibatch.
struct LayerProfile {
  struct Layer {
    std::string name;
    double forwardMs = 0, backwardMs = 0; // milliseconds
    double activationBytes = 0;           // of its output; the output's gradient is as large
    double parameterBytes = 0;
    std::vector<int> inputs; // producers of its inputs, in increasing order, each once
  };
  std::vector<Layer> layers; // in topological order

  static constexpr size_t mostLayers = 100000;
};

/// A profile from JSON:
///   {"layers": [{"name", "forward_ms", "backward_ms", "activation_bytes", "parameter_bytes", "inputs": [names]}]}
/// Every layer must have all keys except "inputs": without it, the previous layer of the file is the only input; []
/// means that there is none. The layers may come in any order. The text may contain anything; an error is one line,
/// `FILE: layer I ('NAME'): KEY: what is expected`, where I counts from 0. A text that looks like PipeDream's graph.txt
/// is read as one (GraphText.h).
llvm::Expected<LayerProfile> parseLayerProfile(llvm::StringRef text, llvm::StringRef file);
/// The same from disk.
llvm::Expected<LayerProfile> readLayerProfile(const std::string &file);
/// The text of a regular file about layers; an error if it is none, or too large.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readLayerText(const std::string &file);

/// Writes the profile as such JSON, one layer a line; reading it back gives the same numbers.
void writeLayerProfile(const LayerProfile &profile, llvm::raw_ostream &os);

/// Text as a line of an error or a table may show it: printable and short.
std::string shownName(llvm::StringRef name);

} // namespace divisi::planning
