#include "runtime/main/BackgroundMean.h"
#include "runtime/core/BlockSignals.h"

#include <algorithm>

using namespace divisi::runtime;

Status BackgroundMean::start(Numbers mine) {
  numbers = std::move(mine);
  done = {};
  try {
    thread = std::thread([this] {
      blockSignals();
      try {
        done = run();
      } catch (const std::bad_alloc &) {
        done = failure("out of memory");
      } catch (const std::exception &error) {
        done = failure(error.what());
      }
      if (!done.ok())
        ranks.fail(ranks.located(done));
    });
  } catch (const std::system_error &) {
    return failure("cannot start a thread for the replicas' mean");
  }
  return {};
}

Result<BackgroundMean::Numbers> BackgroundMean::finish() {
  thread.join();
  return done.ok() ? Result(std::move(numbers)) : done;
}

Status BackgroundMean::run() {
  Status status = run(numbers.singles);
  return status.ok() ? run(numbers.doubles) : status;
}

template <typename Number> Status BackgroundMean::run(std::vector<Number> &values) {
  const size_t count = members.size();
  const auto me = static_cast<size_t>(std::find(members.begin(), members.end(), ranks.rank()) - members.begin());
  const int next = members[(me + 1) % count], before = members[(me + count - 1) % count];
  auto begin = [&](size_t piece) { return values.size() * piece / count; };
  std::vector<Number> theirs;
  // In round r, a member sends what it has of the piece that is r behind its own, and receives the one before that.
  for (size_t round = 0; round < 2 * (count - 1); ++round) {
    const bool adds = round < count - 1;
    const size_t sent = (me + 2 * count - round) % count, received = (sent + count - 1) % count;
    const size_t size = begin(received + 1) - begin(received), sentSize = begin(sent + 1) - begin(sent);
    theirs.resize(size);
    std::unique_ptr<Message> coming, going;
    if (size > 0)
      coming = ranks.accept(before, tag, theirs.data(), size * sizeof(Number));
    if (sentSize > 0)
      going = ranks.post(next, tag, values.data() + begin(sent), sentSize * sizeof(Number));
    if (Status status = ranks.waitUntil([&] { return (!coming || coming->poll()) && (!going || going->poll()); }); !status.ok())
      return status;
    Number *place = values.data() + begin(received);
    for (size_t i = 0; i < size; ++i)
      place[i] = adds ? place[i] + theirs[i] : theirs[i];
  }
  for (Number &value : values)
    value /= static_cast<Number>(count);
  return {};
}
