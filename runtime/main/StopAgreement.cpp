#include "runtime/main/StopAgreement.h"
#include "runtime/main/Tags.h"

#include <algorithm>

using namespace divisi::runtime;

StopAgreement::StopAgreement(Communicator &ranks) : ranks(ranks) {
  for (int rank = 0; rank < ranks.size(); ++rank)
    if (rank != ranks.rank() && (rank == 0 || ranks.rank() == 0))
      others.emplace_back().rank = rank;
}

void StopAgreement::say(Other &other, int64_t number) {
  const bool asks = ranks.rank() != 0;
  other.said = number;
  other.going = ranks.post(other.rank, asks ? localTags::ask : localTags::answer, &other.said, sizeof(other.said));
  other.coming = ranks.accept(other.rank, asks ? localTags::answer : localTags::ask, &other.heard, sizeof(other.heard));
}

Result<int64_t> StopAgreement::hear() {
  Status status = ranks.waitUntil([&] {
    return std::all_of(others.begin(), others.end(), [](const Other &other) {
      return !other.coming || (other.coming->poll() && other.going->poll());
    });
  });
  if (!status.ok())
    return status;
  int64_t most = 0;
  for (const Other &other : others)
    if (other.coming && !other.coming->isLost())
      most = std::max(most, other.heard);
  return most;
}

Result<int> StopAgreement::ask(int signal) {
  Result<int64_t> heard = hear(); // what others have asked in the last question, or was answered to it
  if (!heard.ok())
    return heard.status();
  int64_t now = ranks.rank() == 0 ? decided : *heard;
  if (ranks.rank() == 0)
    decided = std::max({decided, *heard, static_cast<int64_t>(signal)});
  for (Other &other : others)
    say(other, ranks.rank() == 0 ? decided : signal);
  return static_cast<int>(now);
}

Status StopAgreement::end() {
  Status status = hear().status();
  others.clear();
  return status;
}
