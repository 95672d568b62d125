#pragma once
#include <cstddef>
#include <vector>

namespace divisi::step {

/// The bytes of a device over a step: buffers that live from one position in program order to another.
class Liveness {
public:
  explicit Liveness(size_t positions) : change(positions + 1) {}

  /// A buffer lives from `first` to `last`, both included.
  void add(int first, int last, double bytes) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  }

  struct Peak {
    double bytes = 0;
    int at = -1; // the first position with this many; -1: none has any
  };
  Peak peak() const;

private:
  std::vector<double> change; // by position, from the one before it
};

} // namespace divisi::step
