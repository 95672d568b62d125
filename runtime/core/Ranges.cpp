#include "runtime/core/Ranges.h"

using namespace divisi::runtime;

Ranges::Ranges(const Manifest &manifest)
    : manifest(manifest), microbatches(!manifest.asynchronous && manifest.hasMicrobatches()),
      first(manifest.tasks.size(), manifest.calls.size()) {
  for (size_t i = manifest.calls.size(); i-- > 0;)
    first[static_cast<size_t>(manifest.calls[i].task)] = i;
}

void Ranges::begin(const Row &row) {
  const std::string &name = manifest.tasks[static_cast<size_t>(row.task)];
  nvtx::push(microbatches ? concat(name, " of microbatch ", row.microbatch).c_str() : name.c_str());
  task = row.task;
  next = first[static_cast<size_t>(task)];
  unlisted = false;
}

void Ranges::begin(const char *service) {
  bool listed = !std::exchange(unlisted, false) && next < manifest.calls.size() && manifest.calls[next].task == task;
  nvtx::push(listed ? manifest.calls[next++].title().c_str() : service);
}
