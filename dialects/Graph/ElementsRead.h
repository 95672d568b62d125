#pragma once
#include "dialects/Graph/Form.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace divisi::graph {

/// An operation of a kernel, by what it reads. Values have numbers.
struct Reader {
  Form form = Form::elementwise;
  bool readsPart = false;                              // CostInterface::readsPart
  llvm::SmallVector<std::pair<int, double>> operands;  // value, elements
  llvm::SmallVector<int> results;
  double elements = 0; // of the first result
};

/// How many elements of each value the operations of a kernel, in program order, read or compute (a value that is not listed: none). A kernel computes the
/// elements that it needs: behind a slice, elementwise operations read no more of their operands than the slice has. `stored`: values
/// that are written, of which all elements are needed, and their elements.
llvm::DenseMap<int, double> elementsRead(llvm::ArrayRef<Reader> ops, llvm::ArrayRef<std::pair<int, double>> stored);

} // namespace divisi::graph
