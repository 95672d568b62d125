#include "passes/Planning/Simulator/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

static std::string formatted(const char *format, double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(format, value);
  return text;
}

static std::string scaled(double value, llvm::ArrayRef<const char *> units) {
  if (value == 0)
    return "0";
  size_t unit = 0;
  for (; unit + 1 < units.size() && value >= 999.5; ++unit)
    value /= 1000;
  return formatted("%.3g", value) + " " + units[unit];
}

std::string pipeline::secondsText(double seconds) { return scaled(seconds * 1e9, {"ns", "us", "ms", "s"}); }
std::string pipeline::bytesText(double bytes) { return scaled(bytes, {"B", "kB", "MB", "GB", "TB", "PB"}); }
std::string pipeline::numberText(double number) { return formatted("%.3g", number); }
std::string pipeline::percentText(double share) { return formatted("%.1f %%", 100 * share); }

std::string pipeline::escaped(llvm::StringRef text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
    }
  return result;
}

std::string pipeline::validUtf8(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

void pipeline::leaveOutZeros(std::vector<std::vector<std::string>> &table, size_t first) {
  for (size_t column = table[0].size(); column-- > first;)
    if (llvm::all_of(llvm::drop_begin(table), [&](const auto &row) { return row[column] == "0"; }))
      for (auto &row : table)
        row.erase(row.begin() + column);
}

void pipeline::printTable(const Report &report, llvm::raw_ostream &out) {
  for (const Report::Figure &figure : report.figures)
    out << llvm::formatv("{0,-18} {1,10}  {2}\n", figure.name, figure.value, figure.note);
  out << "\n";
  std::vector<size_t> widths(report.table[0].size());
  for (const auto &row : report.table)
    for (auto [width, cell] : llvm::zip(widths, row))
      width = std::max(width, cell.size());
  for (const auto &row : report.table) {
    out << row[0] << std::string(widths[0] - row[0].size(), ' ');
    for (size_t i = 1; i < row.size(); ++i)
      out << "  " << std::string(widths[i] - row[i].size(), ' ') << row[i];
    out << "\n";
  }
}
