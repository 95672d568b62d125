//===- FaultyFiles.h - system calls on files that fail ----------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_CHECKPOINT_FAULTYFILES_H
#define DIVISI_TEST_RUNTIME_CHECKPOINT_FAULTYFILES_H

#include <cstdint>
#include <string>

namespace divisi::test {

/// The executable that has this replaces the C library's calls on files. While one is armed the calls are counted, and
/// one of them fails; otherwise they are passed on.
class FaultyFiles {
public:
  enum class Fault {
    Error,     ///< this call alone fails (EIO)
    Full,      ///< a write writes half, and all later ones find the disk full
    Kill,      ///< this call and all that follow do nothing: as if the program had been killed
    TornKill,  ///< the same, but a write writes half
    PowerLoss, ///< as Kill, and what no fsync had made durable is lost: contents of files, not their names
    Reordered, ///< as PowerLoss, but renames are lost, too
  };
  /// Call number `at` (from 0) is hit.
  FaultyFiles(Fault fault, int64_t at);
  /// Counting alone.
  FaultyFiles() : FaultyFiles(Fault::Error, -1) {}
  /// Disarms, and takes away what the power loss costs.
  ~FaultyFiles();
  FaultyFiles(const FaultyFiles &) = delete;
  FaultyFiles &operator=(const FaultyFiles &) = delete;

  /// Whether the call was reached.
  bool hit() const;
  /// Calls until now, and the name of the one that was hit.
  int64_t calls() const;
  std::string name() const;
};

const char *nameOf(FaultyFiles::Fault fault);

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_CHECKPOINT_FAULTYFILES_H
