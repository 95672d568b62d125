#include "compiler/Report/PlanReport.h"

#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::compiler;
using llvm::StringRef;

/// page.html, as CMake embeds it.
static constexpr char planPage[] =
#include "compiler/Report/page.inc"
    ;

void compiler::printHtml(const llvm::json::Object &report, llvm::raw_ostream &out) {
  std::string json;
  llvm::raw_string_ostream(json) << llvm::json::Value(llvm::json::Object(report));
  auto [head, tail] = StringRef(planPage).split("%REPORT%");
  out << head;
  // Names may contain "</script>" or "<!--"; in JSON, '<' occurs in strings only.
  for (char c : json)
    if (c == '<')
      out << "\\u003c";
    else
      out << c;
  out << tail;
}
