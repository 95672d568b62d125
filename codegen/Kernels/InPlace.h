#pragma once
#include "dialects/Exec/Exec.h"

namespace divisi::codegen {

/// Whether a kernel's result may have the same buffer as one of its inputs: both have the same type, the kernel is
/// pointwise, and it reads from the input only the element that it writes.
bool writesOnlyWhereItReads(exec::KernelOp kernel, unsigned result, unsigned input);

} // namespace divisi::codegen
