#include "passes/Training/ParameterGroups.h"

#include "runtime/include/divisi/pattern.h"
#include "runtime/include/divisi/suggest.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cmath>

using namespace divisi;
using namespace divisi::training;
using llvm::StringRef;

llvm::Expected<LrFactor> LrFactor::parse(StringRef text) {
  auto [pattern, number] = text.rsplit('=');
  LrFactor parsed{pattern.str(), 0};
  if (pattern.empty() || number.getAsDouble(parsed.factor) || !std::isfinite(parsed.factor) || parsed.factor < 0)
    return llvm::createStringError("--lr-factor expects PATTERN=FACTOR with a finite factor that is not negative, got '" +
                                   text.str() + "'");
  return parsed;
}

/// Calls `apply` with each name that matches.
static llvm::Error forMatches(llvm::ArrayRef<std::string> names, const std::string &pattern, StringRef flag,
                              llvm::function_ref<llvm::Error(const std::string &)> apply) {
  bool found = false;
  for (const std::string &name : names)
    if (matchesPattern(pattern, name)) {
      found = true;
      if (llvm::Error error = apply(name))
        return error;
    }
  if (found)
    return llvm::Error::success();
  return llvm::createStringError(flag.str() + " names no parameter that trains" + suggestion(pattern, names));
}

llvm::Expected<std::map<std::string, ParameterGroup>>
training::groupParameters(llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> noDecay,
                          llvm::ArrayRef<std::string> lrFactors, llvm::ArrayRef<std::string> byAdamw) {
  std::map<std::string, ParameterGroup> groups;
  std::map<std::string, std::string> givenBy; // by parameter: the flag that gives its factor
  for (const std::string &pattern : noDecay)
    if (llvm::Error error = forMatches(names, pattern, "--no-decay " + pattern, [&](const std::string &name) {
          groups[name].decays = false;
          return llvm::Error::success();
        }))
      return error;
  for (const std::string &pattern : byAdamw)
    if (llvm::Error error = forMatches(names, pattern, "--adamw " + pattern, [&](const std::string &name) {
          groups[name].byAdamw = true;
          return llvm::Error::success();
        }))
      return error;
  for (const std::string &text : lrFactors) {
    auto parsed = LrFactor::parse(text);
    if (!parsed)
      return parsed.takeError();
    std::string flag = "--lr-factor " + text;
    auto apply = [&](const std::string &name) -> llvm::Error {
      auto [given, isNew] = givenBy.try_emplace(name, flag);
      double &factor = groups[name].lrFactor;
      if (!isNew && factor != parsed->factor)
        return llvm::createStringError(given->second + " and " + flag + " are both given for '" + name + "'");
      factor = parsed->factor;
      return llvm::Error::success();
    };
    if (llvm::Error error = forMatches(names, parsed->pattern, flag, apply))
      return error;
  }
  return groups;
}
