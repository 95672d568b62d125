//===- ManifestSync.h - what replicas have of their own ---------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MANIFESTSYNC_H
#define DIVISI_RUNTIME_CORE_MANIFESTSYNC_H

#include "runtime/core/Json.h"
#include "runtime/core/Manifest.h"

namespace divisi::runtime {

/// Parses `sync` of a manifest whose other parts are parsed, marks the state of which each replica has its own, and
/// adds that of the outer optimizer.
Status parseSync(const Json &json, Manifest &manifest);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MANIFESTSYNC_H
