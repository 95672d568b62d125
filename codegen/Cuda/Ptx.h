#pragma once
#include "codegen/Emit/Program.h"

#include <string>
#include <vector>

namespace divisi::codegen {

/// The compute capabilities for which programs contain code: 80 (A100), 90 (H100, H200), 100 (B200).
inline constexpr int cudaArchitectures[] = {80, 90, 100};

/// Lowers kernels from emitCudaKernel to the LLVM and NVVM dialects. The module is changed in place.
mlir::LogicalResult lowerCudaKernels(mlir::ModuleOp kernels, llvm::ArrayRef<Launchable> launchables);

/// The file libdevice.10.bc of the CUDA Toolkit; empty if there is none.
std::string findLibdevice();

/// The PTX of lowered kernels for each architecture. Functions without a polynomial (double precision) come from the
/// CUDA Toolkit's libdevice.
llvm::Expected<std::vector<std::string>> emitPtx(mlir::ModuleOp kernels, llvm::ArrayRef<int> architectures);

} // namespace divisi::codegen
