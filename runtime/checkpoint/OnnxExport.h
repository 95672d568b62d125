//===- OnnxExport.h - a trained model as ONNX -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_ONNXEXPORT_H
#define DIVISI_RUNTIME_CHECKPOINT_ONNXEXPORT_H

#include "runtime/checkpoint/GlobalState.h"

namespace divisi::runtime {

/// Writes the model with its parameters, buffers and constants as initializers. Protocol buffers merge appended
/// messages: the file is the skeleton, followed by a second part of its graph with the initializers. If the skeleton ends with
/// a training_info, that is written with a second part of its algorithm, which has the optimizer's state. All ranks call it, and
/// a failure to write is returned on all.
Status exportOnnx(GlobalState &state, std::string_view skeleton, const std::string &path);
inline Status exportOnnx(const Manifest &manifest, const Arena &arena, std::string_view skeleton,
                         const std::string &path) {
  GlobalState state(manifest, arena);
  return exportOnnx(state, skeleton, path);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_ONNXEXPORT_H
