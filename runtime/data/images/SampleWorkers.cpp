#include "runtime/data/images/SampleWorkers.h"

#include <unordered_set>

using namespace divisi::runtime;

SampleWorkers::~SampleWorkers() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  asked.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void SampleWorkers::clear() {
  std::unique_lock lock(mutex);
  queue.clear();
  entries.clear();
  finished.wait(lock, [&] { return busy == 0; });
}

void SampleWorkers::add(int64_t sample) {
  auto entry = std::make_shared<Entry>();
  entry->sample = sample;
  if (!spare.empty()) {
    entry->bytes = std::move(spare.back());
    spare.pop_back();
  }
  entries.emplace(sample, entry);
  queue.push_back(std::move(entry));
}

void SampleWorkers::forget(Entry &entry) {
  entry.wanted = false;
  if (entry.ready)
    spare.push_back(std::move(entry.bytes));
}

void SampleWorkers::expect(const std::vector<int64_t> &samples) {
  {
    std::lock_guard lock(mutex);
    std::unordered_set<int64_t> wanted(samples.begin(), samples.end());
    for (auto it = entries.begin(); it != entries.end();) {
      if (wanted.contains(it->first)) {
        ++it;
        continue;
      }
      forget(*it->second);
      it = entries.erase(it);
    }
    for (int64_t sample : samples)
      if (!entries.contains(sample))
        add(sample);
    spare.clear(); // that of a larger batch
    while (static_cast<int>(threads.size()) < count)
      threads.emplace_back([this] { work(); });
  }
  asked.notify_all();
}

Result<const std::vector<char> *> SampleWorkers::take(int64_t sample) {
  std::unique_lock lock(mutex);
  std::shared_ptr<Entry> entry = entries.at(sample);
  finished.wait(lock, [&] { return entry->ready; });
  if (!entry->status.ok())
    return entry->status;
  return &std::as_const(entry->bytes);
}

void SampleWorkers::work() {
  std::unique_lock lock(mutex);
  while (true) {
    asked.wait(lock, [&] { return ending || !queue.empty(); });
    if (ending)
      return;
    std::shared_ptr<Entry> entry = std::move(queue.front());
    queue.pop_front();
    if (!entry->wanted)
      continue;
    ++busy;
    lock.unlock();
    Status status;
    try {
      status = prepare(entry->sample, entry->bytes);
    } catch (const std::exception &e) { // no memory is left
      status = failure(e.what());
    }
    lock.lock();
    --busy;
    entry->status = std::move(status);
    entry->ready = true;
    finished.notify_all();
  }
}
