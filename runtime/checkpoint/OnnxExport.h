//===- OnnxExport.h - trained weights as a model ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_ONNXEXPORT_H
#define DIVISI_RUNTIME_CHECKPOINT_ONNXEXPORT_H

#include "runtime/core/Arena.h"

namespace divisi::runtime {

/// Writes the model with its parameters, buffers and constants as initializers. Protocol buffers merge what is
/// appended: the file is the skeleton followed by a second part of its graph, which holds the initializers.
Status exportOnnx(const Manifest &manifest, const Arena &arena, std::string_view skeleton, const std::string &path);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_ONNXEXPORT_H
