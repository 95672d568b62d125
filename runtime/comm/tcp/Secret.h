//===- Secret.h - the secret of a job ---------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_SECRET_H
#define DIVISI_RUNTIME_COMM_TCP_SECRET_H

#include "runtime/core/Status.h"

namespace divisi::runtime {

/// Processes that know the secret may take part in the job.
struct Secret {
  std::string text;
  bool given = false; ///< by the user; otherwise it is this user's secret on this host

  /// DIVISI_SECRET, or the contents of the file DIVISI_SECRET_FILE, or else those of /tmp/divisi-UID/secret, which only
  /// this user can read. The user's first process on this host creates that file.
  static Result<Secret> ofJob();
};

/// The remedy if ranks on several hosts have no common secret.
extern const char *const secretRemedy;

/// `count` random hexadecimal digits.
Result<std::string> randomDigits(size_t count);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_SECRET_H
