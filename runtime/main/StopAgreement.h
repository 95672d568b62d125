//===- StopAgreement.h - stopping without waiting ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_STOPAGREEMENT_H
#define DIVISI_RUNTIME_MAIN_STOPAGREEMENT_H

#include "runtime/comm/Communicator.h"

namespace divisi::runtime {

/// Has ranks that seldom meet stop after the same step, although none waits for others in the same step: each asks
/// every few steps, and learns what rank 0 had decided one question before. It waits only for ranks that are more than
/// one question behind.
class StopAgreement {
public:
  explicit StopAgreement(Communicator &ranks);
  /// `signal` (0: none) is the one that this rank has received. Returns the one after which all ranks stop now, or 0.
  /// All ranks call it after the same steps.
  Result<int> ask(int signal);
  /// Waits for messages that are on their way. All ranks call it, before they stop together for another reason.
  Status end();

private:
  /// The messages that are on their way between this rank and another one: rank 0, or of rank 0 any.
  struct Other {
    int rank = 0;
    int64_t said = 0, heard = 0;
    std::unique_ptr<Message> going, coming;
  };
  /// Waits for all of them, and returns the largest number that has come.
  Result<int64_t> hear();
  void say(Other &other, int64_t number);

  Communicator &ranks;
  std::vector<Other> others;
  int64_t decided = 0; ///< of rank 0: by the last question, for the next one
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_STOPAGREEMENT_H
