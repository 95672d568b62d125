//===- FaultyFiles.h - system calls on files that fail ----------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_CHECKPOINT_FAULTYFILES_H
#define DIVISI_TEST_RUNTIME_CHECKPOINT_FAULTYFILES_H

#include <cstdint>
#include <string>

namespace divisi::test {

/// Replaces the C library's calls on files in an executable. While an object of this class exists, the calls are
/// counted, and one of them fails; otherwise they are forwarded.
class FaultyFiles {
public:
  enum class Fault {
    Error,     ///< only this call fails (EIO)
    Full,      ///< a write writes half, and all later ones find the disk full
    Kill,      ///< this call and all later ones do nothing, as if the program had been killed
    TornKill,  ///< the same, but a write writes half
    PowerLoss, ///< as Kill, and contents of files without fsync are lost, but not their names
    Reordered, ///< as PowerLoss, but renames are lost, too
  };
  /// Call number `at` (from 0) fails.
  FaultyFiles(Fault fault, int64_t at);
  /// Only counts.
  FaultyFiles() : FaultyFiles(Fault::Error, -1) {}
  /// Ends the fault, and removes what a power loss would have lost.
  ~FaultyFiles();
  FaultyFiles(const FaultyFiles &) = delete;
  FaultyFiles &operator=(const FaultyFiles &) = delete;

  /// Whether the call was reached.
  bool hit() const;
  /// The number of calls so far, and the name of the call that failed.
  int64_t calls() const;
  std::string name() const;
};

const char *nameOf(FaultyFiles::Fault fault);

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_CHECKPOINT_FAULTYFILES_H
