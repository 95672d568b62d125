#include "compiler/Import/Import.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "compiler/Import/ModelImporter.h"
#include "divisi/suggest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace divisi::compiler;

/// Keeps MLIR's last error, so that a failure is reported once, with the node's name.
namespace {
struct LastError {
  explicit LastError(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            text = diagnostic.str();
          return success();
        }) {}
  std::string text;
  ScopedDiagnosticHandler handler;
};
} // namespace

/// The result of a method of the importer of a file; failure, with a diagnostic, after an ImportError.
template <typename Result>
static FailureOr<Result> import(MLIRContext &context, llvm::StringRef path, const ImportOptions &options,
                                Result (ModelImporter::*method)()) {
  DialectRegistry registry; // the lowerings of the code generator evaluate shape arithmetic
  divisi::codegen::registerLowerings(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<divisi::graph::GraphDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect>();
  ImportError failure;
  {
    LastError last(context);
    try {
      return (ModelImporter(context, path, options, last.text).*method)();
    } catch (ImportError &error) {
      failure = std::move(error);
    } catch (std::bad_alloc &) {
      failure.message = "not enough memory";
    } catch (std::exception &error) {
      failure.message = error.what();
    }
  }
  Location loc = failure.loc.value_or(FileLineColLoc::get(&context, path, 1, 1));
  return emitError(loc, divisi::plainName(failure.message, false));
}

FailureOr<ImportedModel> divisi::compiler::importOnnx(MLIRContext &context, llvm::StringRef path,
                                                      const ImportOptions &options) {
  return import(context, path, options, &ModelImporter::run);
}

FailureOr<std::vector<TensorListing>> divisi::compiler::listParameters(MLIRContext &context, llvm::StringRef path,
                                                                       const ImportOptions &options) {
  return import(context, path, options, &ModelImporter::list);
}
