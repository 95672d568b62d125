// Runs single passes on IR, for tests and debugging: divisi-opt --help.
#include "codegen/Kernels/Passes.h"
#include "compiler/Pipeline.h"
#include "passes/Identity/Passes.h"
#include "passes/Layout/Passes.h"
#include "passes/Partitioning/Passes.h"
#include "passes/Pipelining/Passes.h"
#include "passes/Planning/Passes.h"
#include "passes/Training/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  divisi::compiler::registerAll(registry);
  mlir::registerTransformsPasses();
  divisi::identity::registerIdentityPasses();
  divisi::layout::registerLayoutPasses();
  divisi::partitioning::registerPartitioningPasses();
  divisi::pipelining::registerPipeliningPasses();
  divisi::planning::registerPlanningPasses();
  divisi::training::registerTrainingPasses();
  divisi::codegen::registerKernelsPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Divisi pass driver\n", registry));
}
