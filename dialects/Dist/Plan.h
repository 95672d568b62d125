#pragma once
#include "dialects/Dist/Dist.h"

#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "dialects/Dist/DistPlan.h.inc"
