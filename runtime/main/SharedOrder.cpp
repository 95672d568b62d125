#include "runtime/main/SharedOrder.h"

#include <algorithm>

using namespace divisi::runtime;

bool SharedOrder::Told::isDone() {
  return std::all_of(messages.begin(), messages.end(), [](const auto &message) { return message->poll(); });
}

void SharedOrder::tell(int64_t what) {
  while (!told.empty() && told.front().isDone())
    told.pop_front();
  if (team.size() == 1)
    return;
  Told &last = told.emplace_back(what);
  for (size_t i = 1; i < team.size(); ++i)
    last.messages.push_back(ranks.post(team[i], tag, &last.what, sizeof(last.what)));
}

Status SharedOrder::finish() {
  Status status = ranks.waitUntil([&] { return std::all_of(told.begin(), told.end(), [](Told &one) { return one.isDone(); }); });
  told.clear();
  return status;
}

Result<int64_t> SharedOrder::next() {
  int64_t what = 0;
  std::unique_ptr<Message> message = ranks.accept(team.front(), tag, &what, sizeof(what));
  Status status = ranks.waitUntil([&] { return message->poll(); });
  return status.ok() ? Result(what) : status;
}
