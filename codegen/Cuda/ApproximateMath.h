#pragma once
#include <memory>

namespace mlir {
class Pass;
} // namespace mlir

namespace divisi::codegen {

/// Computes exp, tanh, erf and divisions in f32 by the GPU's approximations of 2^x and 1/x, which are wrong by two
/// units in the last place, and square roots by that of the root. Programs with values of 16 bits have it. Errors: exp
/// 8e-8 (|x| + 4) relative, tanh 4e-7 and erf 8e-7 absolute, divisions 2e-7 relative. Results below 1.2e-38 are 0.
std::unique_ptr<mlir::Pass> createApproximateMathPass();

} // namespace divisi::codegen
