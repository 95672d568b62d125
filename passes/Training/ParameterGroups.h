#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <compare>
#include <map>
#include <string>

namespace divisi::training {

/// How the update of a parameter differs from that of the others.
struct ParameterGroup {
  bool decays = true;  // weight decay and, with lamb and lars, the trust ratio
  double lrFactor = 1; // of the learning rate
  bool byAdamw = false; // with muon: adamw updates it
  auto operator<=>(const ParameterGroup &) const = default;
};

/// PATTERN=FACTOR of --lr-factor.
struct LrFactor {
  std::string pattern;
  double factor;
  /// Splits at the last '='. An error unless the factor is a finite number that is not negative.
  static llvm::Expected<LrFactor> parse(llvm::StringRef text);
};

/// The groups of the parameters called `names`, which train; parameters without an entry have no group of their own.
/// Patterns are those of matchesPattern. An error if a pattern matches no name, or if two patterns give one parameter
/// different factors. `byAdamw` are the patterns of --adamw.
llvm::Expected<std::map<std::string, ParameterGroup>> groupParameters(llvm::ArrayRef<std::string> names,
                                                                      llvm::ArrayRef<std::string> noDecay,
                                                                      llvm::ArrayRef<std::string> lrFactors,
                                                                      llvm::ArrayRef<std::string> byAdamw = {});

} // namespace divisi::training
