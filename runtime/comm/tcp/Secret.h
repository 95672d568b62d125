//===- Secret.h - what the ranks of a job know ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_SECRET_H
#define DIVISI_RUNTIME_COMM_TCP_SECRET_H

#include "runtime/core/Status.h"

namespace divisi::runtime {

/// Whoever knows it may take part in the job.
struct Secret {
  std::string text;
  bool given = false; ///< by the user; otherwise it is that of this user on this host alone

  /// DIVISI_SECRET, or what the file DIVISI_SECRET_FILE has; without them what /tmp/divisi-UID/secret has, which only
  /// this user can read: the first of the user's processes on this host makes it.
  static Result<Secret> ofJob();
};

/// What to do where ranks on several hosts have no secret in common.
extern const char *const secretRemedy;

/// So many hexadecimal digits, which nobody can guess.
Result<std::string> randomDigits(size_t count);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_SECRET_H
