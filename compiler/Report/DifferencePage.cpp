#include "compiler/Report/Difference.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::compiler;
using llvm::StringRef;

/// difference.html, as CMake embeds it.
static constexpr char differencePage[] =
#include "compiler/Report/difference.inc"
    ;

static void printElement(StringRef tag, StringRef text, llvm::raw_ostream &out) {
  out << "<" << tag << ">";
  llvm::printHTMLEscaped(text, out);
  out << "</" << tag.split(' ').first << ">";
}

static void printRow(const Difference::Row &row, StringRef tag, llvm::raw_ostream &out) {
  const StringRef what = row.what;
  out << (what.starts_with("  ") ? "<tr class=\"part\">" : "<tr>");
  for (StringRef cell : {what.ltrim(), StringRef(row.first), StringRef(row.second), StringRef(row.change)})
    printElement(tag, cell, out);
  out << "</tr>\n";
}

void Difference::printPage(llvm::raw_ostream &out) const {
  auto [head, tail] = StringRef(differencePage).split("%DIFFERENCE%");
  out << head;
  printElement("h1", title, out);
  out << "\n<div class=\"wide\"><table>\n<thead>";
  printRow(heading, "th", out);
  out << "</thead>\n<tbody>\n";
  for (const Row &row : rows)
    printRow(row, "td", out);
  out << "</tbody></table></div>\n";
  for (const std::string &note : notes)
    printElement("p class=\"bad\"", note, out);
  for (const Section &section : sections) {
    printElement("h2", section.heading, out);
    out << "\n<ul>\n";
    for (const std::string &line : section.lines)
      printElement("li", line, out);
    out << "\n</ul>\n";
  }
  out << tail;
}
