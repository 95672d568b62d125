//===- Ranks.h - threads as ranks -------------------------------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_RANKS_H
#define DIVISI_TEST_RUNTIME_COMM_RANKS_H

#include "runtime/comm/LocalTransport.h"

#include <functional>
#include <thread>

namespace divisi::test {

/// Calls body(transport) on a thread for each rank and waits for all.
template <typename Hub> void onRanks(Hub &hub, const std::function<void(runtime::Transport &)> &body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < hub.size(); ++r)
    threads.emplace_back([&hub, &body, r] { body(hub.rank(r)); });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_RANKS_H
