//===- ConvDirect.h - convolution by plain loops ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_CONVDIRECT_H
#define DIVISI_RUNTIME_DEVICES_CPU_CONVDIRECT_H

#include "divisi/abi.h"
#include "runtime/core/Accelerator.h"

namespace divisi::runtime {

/// The same convolution with three spatial dimensions.
DivisiConv inThree(DivisiConv conv);

/// For convolutions that the library does not support: double precision, negative padding. Buffers as in abi.h; F32 or
/// F64.
void convDirect(ConvKind kind, const DivisiConv &conv, void *const *buffers, int threads);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_CONVDIRECT_H
