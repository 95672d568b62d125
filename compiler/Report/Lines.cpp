#include "compiler/Report/Lines.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace divisi;
namespace json = llvm::json;
using llvm::StringRef;

double compiler::number(const json::Object &object, StringRef key) { return object.getNumber(key).value_or(0); }

std::string compiler::text(const json::Object &object, StringRef key) {
  std::string result = object.getString(key).value_or("").str();
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return result;
}

const json::Array &compiler::list(const json::Object &object, StringRef key) {
  static const json::Array none;
  const json::Array *found = object.getArray(key);
  return found ? *found : none;
}

std::string compiler::joined(const json::Array &array, StringRef separator) {
  std::string result;
  for (const json::Value &value : array)
    result += (result.empty() ? "" : separator.str()) + value.getAsString().value_or("").str();
  return result;
}

void compiler::row(llvm::raw_ostream &out, const std::vector<std::pair<std::string, int>> &cells) {
  std::string line;
  for (const auto &[cell, width] : cells) {
    std::string padding(std::max(0, std::abs(width) - (int)cell.size()), ' ');
    line += width < 0 ? padding + cell + "  " : cell + padding + "  ";
  }
  out << StringRef(line).rtrim() << "\n";
}
