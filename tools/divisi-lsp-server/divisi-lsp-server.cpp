// Serves Divisi's dialects to editors by the language server protocol.
#include "compiler/Pipeline.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  divisi::compiler::registerAll(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
