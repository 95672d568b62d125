#pragma once
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace divisi::step {

/// When the items of a step run: kernels, calls, collectives, messages or whole tasks, on streams that run them in the
/// order in which they were added. An item starts when the one before it on its stream and all that it waits for have
/// ended. Every time that Divisi expects comes from such a run.
class Timeline {
public:
  /// Adds an item of this duration, in any unit, at the end of a stream; returns its number.
  int add(int stream, double duration);
  /// `later` starts no sooner than `earlier` ends; -1 stands for the beginning of the step.
  void wait(int earlier, int later);
  /// Finds all times. False if items wait for each other in a circle: those have none.
  bool run();

  double start(int item) const { return items[item].start; }
  double end(int item) const { return item < 0 ? 0 : items[item].start + items[item].duration; }
  /// When the last item ends.
  double end() const { return last; }

private:
  struct Item {
    double duration, start = 0;
    int unmet = 0;
    llvm::SmallVector<int, 2> after; // that wait for this one
  };
  std::vector<Item> items;
  std::vector<int> streams; // the last item of each; -1: none
  double last = 0;
};

} // namespace divisi::step
