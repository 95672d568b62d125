//===- RingInput.h - an input of the batches of a ring ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_RINGINPUT_H
#define DIVISI_RUNTIME_DATA_RINGINPUT_H

#include "runtime/data/BatchRing.h"
#include "runtime/data/DataFile.h"

#include <cstring>

namespace divisi::runtime {

/// One input of the current batch of a ring, in the input's own type; element 0 is the batch's first.
class RingInput : public DataFile {
public:
  RingInput(std::shared_ptr<BatchRing> ring, size_t index, int64_t rowElements)
      : ring(std::move(ring)), index(index), rowElements(rowElements) {}

  const std::string &path() const override { return ring->path(); }
  int64_t samples() const override { return 0; } // not known before the last one
  Status read(int64_t from, int64_t count, char *to, DataType type) const override {
    std::memcpy(to, ring->input(index) + from * widthOf(type), static_cast<size_t>(count * widthOf(type)));
    return {};
  }
  std::string describe(int64_t element, int64_t value) const override {
    return concat("batch ", ring->taken(), " of those fed has the value ", value, " in row ", element / rowElements);
  }

private:
  std::shared_ptr<BatchRing> ring;
  size_t index;
  int64_t rowElements;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_RINGINPUT_H
