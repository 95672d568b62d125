//===- Epilogue.h - GEMMs with an epilogue ----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_EPILOGUE_H
#define DIVISI_RUNTIME_CORE_EPILOGUE_H

#include "divisi/abi.h"

namespace divisi::runtime {

/// The GEMM without its epilogue.
inline DivisiGemm productOf(const DivisiGemmEpilogue &p) {
  DivisiGemm g = {};
  g.batch0 = g.batch1 = 1;
  g.m = p.m, g.n = p.n, g.k = p.k;
  g.transpose_a = p.transpose_a, g.transpose_b = p.transpose_b;
  g.lda = p.transpose_a ? p.m : p.k, g.ldb = p.transpose_b ? p.k : p.n, g.ldc = p.n;
  g.type = g.result_type = p.type;
  g.tf32 = p.tf32;
  g.workspace = p.workspace;
  return g;
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_EPILOGUE_H
