//===- SavedState.h - state that checkpoints are made of --------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_CHECKPOINT_SAVEDSTATE_H
#define DIVISI_TEST_RUNTIME_CHECKPOINT_SAVEDSTATE_H

#include "runtime/core/Arena.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/Util.h"

#include <algorithm>
#include <random>

namespace divisi::test {

/// The state of the hand-written program, for fixtures.
class SavedState {
protected:
  SavedState() : manifest(*runtime::parseManifest(fakeProgram())), arena(*runtime::Arena::create(fakeArenaBytes)) {}
  /// Fills all state with different numbers.
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (const runtime::State &s : manifest.state)
      for (int64_t i = 0; i < s.bytes; ++i)
        arena.at(s)[i] = static_cast<char>(random());
  }
  std::string stateBytes() const {
    std::string bytes;
    for (const runtime::State &s : manifest.state)
      bytes.append(arena.at(s), static_cast<size_t>(s.bytes));
    return bytes;
  }
  /// The names in a folder, in order.
  static std::vector<std::string> namesIn(const std::string &path) {
    std::vector<std::string> all;
    for (const auto &entry : std::filesystem::directory_iterator(path))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  runtime::Manifest manifest;
  runtime::Arena arena;
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_CHECKPOINT_SAVEDSTATE_H
