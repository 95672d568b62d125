#pragma once
#include "dialects/Exec/Exec.h"

namespace divisi::codegen {

/// Whether a kernel's result may lie in the same buffer as one of its inputs: both have one type, the kernel is purely
/// pointwise, and every read of the input on the way to any result is of the element that is being written.
bool writesOnlyWhereItReads(exec::KernelOp kernel, unsigned result, unsigned input);

} // namespace divisi::codegen
