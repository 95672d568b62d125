//===- StandardStreams.h - descriptors 0, 1 and 2 ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_STANDARDSTREAMS_H
#define DIVISI_RUNTIME_CORE_STANDARDSTREAMS_H

namespace divisi::runtime {

/// Occupies standard streams that the program was started without: a file opened later would get such a number, and what
/// is printed would go into that file. Writes to such a standard output fail. To be called before files are opened.
void occupyStandardStreams();

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_STANDARDSTREAMS_H
