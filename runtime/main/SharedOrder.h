//===- SharedOrder.h - what ranks do in the same order ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SHAREDORDER_H
#define DIVISI_RUNTIME_MAIN_SHAREDORDER_H

#include "runtime/comm/Communicator.h"

namespace divisi::runtime {

/// Has several ranks do things in the same order, which is not known beforehand: the first rank decides on it, and tells the others, which
/// follow it.
class SharedOrder {
public:
  /// `team` begins with the rank that decides. Its messages have this tag (Communicator::post).
  SharedOrder(Communicator &ranks, std::vector<int> team, int tag) : ranks(ranks), team(std::move(team)), tag(tag) {}

  bool decides() const { return team.front() == ranks.rank(); }
  /// Of the rank that decides: what is next. One thread at a time may call it.
  void tell(int64_t what);
  /// The same: waits until the others have been told.
  Status finish();
  /// Of the other ranks: waits for what is next.
  Result<int64_t> next();

private:
  struct Told {
    int64_t what;
    std::vector<std::unique_ptr<Message>> messages;
    bool isDone();
  };
  Communicator &ranks;
  const std::vector<int> team;
  const int tag;
  std::deque<Told> told; ///< what is on its way, at addresses that stay
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SHAREDORDER_H
