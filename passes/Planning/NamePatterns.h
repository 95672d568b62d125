#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace divisi::planning {

/// What a line of a plan file is about: an operation by its identity within a function; a state or an input has no
/// function. In a line `*` stands for a number, and no function for every function.
struct OpKey {
  std::string function, node;
  std::string text() const { return function + "\n" + node; }
};

/// The names that lines of a plan file may refer to.
class NameIndex {
public:
  /// Keys without a node are left out.
  explicit NameIndex(std::vector<OpKey> keys);

  /// The numbers of the keys that a line refers to, in order.
  std::vector<int> matches(const OpKey &line) const;
  /// How many parts of a line are open: the lower, the more specific it is.
  int openParts(const OpKey &line) const;

private:
  std::vector<OpKey> keys;
  llvm::StringMap<std::vector<int>> byForm; // by the name with `*` for each number
  llvm::StringMap<bool> exact;              // names
  bool hasFunctions = false;
};

/// A name, and the number of what is decided for it. If nothing needs to be said, the decision holds without a line.
struct NamedDecision {
  OpKey key;
  int decision;
  bool needed;
  bool shared = false; // a value that many read has a copy for each: the name's last number, that of the copy, is a layer's
};

/// The fewest lines that say what is needed: names that differ only in the numbers of layers and have the same decision
/// share one, and exceptions have lines of their own, which are more specific. The keys must differ.
std::vector<std::pair<OpKey, int>> groupDecisions(llvm::ArrayRef<NamedDecision> decisions);

/// Where the numbers of layers are in a name: position and length. They stand between '.', '/' and '_', and not in the
/// last part of the path ("/h.0/attn/MatMul_1:0" has one, "h.0.attn.weight:update.3", too).
llvm::SmallVector<std::pair<size_t, size_t>, 2> layerNumbers(llvm::StringRef name, bool shared = false);
/// The name with `*` for each number of a layer.
std::string layerPattern(llvm::StringRef name);

} // namespace divisi::planning
