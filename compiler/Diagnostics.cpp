#include "compiler/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

static void printLocation(llvm::raw_ostream &out, Location loc) {
  auto name = dyn_cast<NameLoc>(loc);
  if (name && !isa<UnknownLoc>(name.getChildLoc())) { // from a dump
    printLocation(out, name.getChildLoc());
  } else if (name) {
    out << "node '" << name.getName().getValue() << "': ";
  } else if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    out << file.getFilename().getValue();
    bool whole = file.getLine() == 1 && file.getColumn() == 1 && !file.getFilename().getValue().ends_with(".mlir");
    if (file.getLine() && !whole) // an ONNX file has no lines
      out << ":" << file.getLine() << ":" << file.getColumn();
    out << ": ";
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    if (!fused.getLocations().empty())
      printLocation(out, fused.getLocations().front());
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    printLocation(out, call.getCallee());
  }
}

std::string divisi::compiler::describe(const Diagnostic &diagnostic, llvm::StringRef about) {
  std::string text;
  llvm::raw_string_ostream out(text);
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    out << "error: ";
    break;
  case DiagnosticSeverity::Warning:
    out << "warning: ";
    break;
  default:
    out << "note: ";
  }
  out << about;
  std::string place, message = diagnostic.str();
  llvm::raw_string_ostream where(place);
  printLocation(where, diagnostic.getLocation());
  if (!llvm::StringRef(message).starts_with(llvm::StringRef(place).rtrim(": "))) // some name the node
    out << place;
  out << message;
  return text;
}

divisi::compiler::DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context, const std::string &about)
    : ScopedDiagnosticHandler(context, [about](Diagnostic &diagnostic) {
        llvm::errs() << describe(diagnostic, about) << "\n";
        for (Diagnostic &note : diagnostic.getNotes())
          llvm::errs() << describe(note, about) << "\n";
        return success();
      }) {}

llvm::Error divisi::compiler::wrongRequest(const llvm::Twine &message) {
  return llvm::createStringError(std::make_error_code(std::errc::invalid_argument), message);
}
