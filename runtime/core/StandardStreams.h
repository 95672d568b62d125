//===- StandardStreams.h - descriptors 0, 1 and 2 ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_STANDARDSTREAMS_H
#define DIVISI_RUNTIME_CORE_STANDARDSTREAMS_H

namespace divisi::runtime {

/// Opens /dev/null for standard streams that are closed when the program starts: a file opened later would get such a
/// number, and output would go into that file. Writing to such a standard output fails. To be called before files are
/// opened.
void occupyStandardStreams();

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_STANDARDSTREAMS_H
