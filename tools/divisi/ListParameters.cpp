#include "divisi/ListParameters.h"

#include "compiler/Diagnostics.h"
#include "divisi/Fail.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace divisi;
using namespace divisi::tools;
namespace json = llvm::json;

/// Replaces control characters: names come from the file, and a tab or line break would begin another column or line.
static std::string oneWord(std::string name) {
  for (char &c : name)
    if (static_cast<unsigned char>(c) < 0x20)
      c = ' ';
  return name;
}

int tools::listParameters(const ModelFlags &flags, bool asJson) {
  mlir::MLIRContext context;
  compiler::DiagnosticPrinter diagnostics(&context);
  auto rows = compiler::listParameters(context, flags.input, flags.import);
  if (mlir::failed(rows))
    return 1;
  json::Array list;
  for (const compiler::TensorListing &row : *rows) {
    bool trains = row.role == compiler::TensorRole::parameter;
    if (asJson)
      list.push_back(json::Object{{"name", json::fixUTF8(row.name)},
                                  {"type", row.type},
                                  {"trains", trains},
                                  {"role", compiler::nameOf(row.role)},
                                  {"reason", json::fixUTF8(row.reason)}});
    else
      llvm::outs() << oneWord(row.name) << "\t" << row.type << "\t" << compiler::nameOf(row.role) << "\t"
                   << oneWord(row.reason) << "\n";
  }
  if (asJson)
    llvm::outs() << llvm::formatv("{0:2}", json::Value(std::move(list))) << "\n";
  return 0;
}
