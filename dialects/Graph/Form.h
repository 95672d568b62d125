#pragma once

namespace divisi::graph {

/// How a program computes an operation: what planning must know of its lowering (codegen/Lowering says how).
enum class Form {
  constant,    // not at all
  elementwise, // each element of the one result alone, at any index of the operands: it can be recomputed where it is read
  reduction,   // each element of the results alone, from many elements of the operands
  serial,      // in a fixed order, from operands in memory
  scan,        // in a fixed order that reads each element of the operands once: they can be computed there
  product,     // a matmul or a convolution, by a library, from memory to memory
  attention,   // fused attention or its gradient, by a library, from memory to memory
  call,        // otherwise by a library or the runtime, from memory to memory
  view,        // not at all: the operand's memory in another shape; or as an elementwise operation
};

/// Whether it reads and writes memory alone.
inline bool isCall(Form form) { return form == Form::product || form == Form::attention || form == Form::call; }

} // namespace divisi::graph
