#include "compiler/Report/PlanReport.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace divisi;
namespace json = llvm::json;
using llvm::StringRef;

namespace {

constexpr StringRef hostile = "</script><script>alert(1)</script><!--<script>\"\\\n%REPORT%";

/// A report with names from a model.
json::Object reportOf(StringRef name) {
  json::Object memory{{"total", 1}, {"worst_phase", "forward"}, {"worst_node", name}};
  json::Object plan{{"rank", 1}, {"name", "one device"}, {"mesh", "data=1"}, {"memory", std::move(memory)}};
  json::Object parameter{{"name", name}, {"shape", json::Array{2}}, {"sharding", "[_]"}};
  return json::Object{{"model", name},
                      {"plans", json::Array{std::move(plan)}},
                      {"layers", json::Array{json::Object{{"name", name}}}},
                      {"parameters", json::Array{std::move(parameter)}}};
}

std::string pageOf(const json::Object &report) {
  std::string text;
  llvm::raw_string_ostream out(text);
  compiler::printHtml(report, out);
  return text;
}

/// The part that a browser takes for the report: up to the first end of the script element.
StringRef reportIn(StringRef page) {
  return page.split("<script type=\"application/json\" id=\"report\">").second.split("</script").first;
}
} // namespace

TEST(HtmlTest, reportIsWhole) {
  json::Object report = reportOf("fc1.weight");
  std::string page = pageOf(report);
  EXPECT_TRUE(StringRef(page).starts_with("<!doctype html>"));
  EXPECT_TRUE(StringRef(page).ends_with("</html>\n"));
  llvm::Expected<json::Value> read = json::parse(reportIn(page));
  ASSERT_TRUE((bool)read) << llvm::toString(read.takeError());
  EXPECT_EQ(*read, json::Value(std::move(report)));
}

TEST(HtmlTest, templateIsEmbeddedByteForByte) {
  auto file = llvm::MemoryBuffer::getFile(PAGE_TEMPLATE);
  ASSERT_TRUE((bool)file);
  auto [head, tail] = (*file)->getBuffer().split("%REPORT%");
  std::string page = pageOf(reportOf("x"));
  EXPECT_EQ(page, head.str() + reportIn(page).str() + tail.str());
}

TEST(HtmlTest, namesAreNoMarkup) {
  json::Object report = reportOf(hostile);
  std::string page = pageOf(report);
  EXPECT_EQ(StringRef(page).count("<script"), StringRef(pageOf(reportOf("x"))).count("<script"));
  EXPECT_EQ(reportIn(page).count('<'), 0u);
  llvm::Expected<json::Value> read = json::parse(reportIn(page));
  ASSERT_TRUE((bool)read) << llvm::toString(read.takeError());
  EXPECT_EQ(*read, json::Value(std::move(report)));
  for (StringRef way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_FALSE(StringRef(page).contains(way)) << way.str();
}

TEST(HtmlTest, nothingIsLoaded) {
  std::string page = pageOf(reportOf("x"));
  for (StringRef reference : {"http:", "https:", "//cdn", "src=", "href=", "url(", "@import", "fetch("})
    EXPECT_FALSE(StringRef(page).contains(reference)) << reference.str();
  EXPECT_TRUE(StringRef(page).contains("default-src 'none'"));
}

TEST(HtmlTest, sameReportSamePage) { EXPECT_EQ(pageOf(reportOf(hostile)), pageOf(reportOf(hostile))); }
