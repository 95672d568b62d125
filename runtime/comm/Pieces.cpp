#include "runtime/comm/Pieces.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
using Numbers = std::vector<int64_t>;

/// One side's axes of one dimension.
using AxesOfDim = std::span<const int64_t>;

/// A message between two stages.
class Resharding {
public:
  Resharding(const DivisiTransfer &params, const Mesh &mesh, int64_t sender, int64_t receiver)
      : mesh(mesh), sender(sender), receiver(receiver) {
    for (int64_t d = 0; d < params.dim_count; ++d)
      dims.push_back(params.dims[d]);
    if (dims.empty())
      dims.push_back({params.bytes, 0, {}, 0, {}});
  }

  /// `sends`: whether the bytes are those of a rank of the sending stage.
  Status check(int64_t bytes, bool sends) const {
    for (bool from : {true, false}) {
      Numbers seen;
      int64_t local = 1;
      for (const DivisiTransferDim &dim : dims) {
        int64_t count = from ? dim.from_count : dim.to_count;
        if (count < 0 || count > DIVISI_MAX_AXES)
          return failure("has a dimension of ", count, " axes");
        for (int64_t axis : axesOf(dim, from)) {
          if (axis < 0 || axis >= static_cast<int64_t>(mesh.axes().size()) || axis == mesh.stageAxis() ||
              !mesh.has(from ? sender : receiver, axis) || std::find(seen.begin(), seen.end(), axis) != seen.end())
            return failure("is sharded over an axis that a stage lacks, or over one twice");
          seen.push_back(axis);
        }
        int64_t parts = mesh.count(axesOf(dim, from));
        if (dim.extent < 0 || dim.extent % parts != 0)
          return failure("has a dimension of ", dim.extent, " that does not divide into ", parts, " shards");
        if (__builtin_mul_overflow(local, dim.extent / parts, &local))
          return failure("has a size that cannot be");
      }
      if (from == sends && local != bytes)
        return failure("has ", bytes, " bytes, and its shards have ", local);
    }
    return {};
  }

  /// A rectangle of the whole tensor that one rank sends to another.
  struct Rectangle {
    int from = 0, to = 0;
    Numbers start, size;
  };

  /// Calls `use` for each rectangle that a rank receives.
  template <typename Use> void forEach(int to, const Use &use) const {
    size_t rank = dims.size();
    Numbers low(rank), high(rank), first(rank), last(rank); // of the receiver's shard; of the senders' shards it meets
    for (size_t d = 0; d < rank; ++d) {
      int64_t extent = dims[d].extent / mesh.count(axesOf(dims[d], false));
      if (extent == 0)
        return;
      low[d] = mesh.index(to, axesOf(dims[d], false)) * extent;
      high[d] = low[d] + extent;
      first[d] = low[d] / sentExtent(d);
      last[d] = (high[d] - 1) / sentExtent(d);
    }
    Numbers shard = first;
    for (int64_t number = 0;; ++number) {
      Rectangle rectangle{senderOf(to, shard, number), to, Numbers(rank), Numbers(rank)};
      for (size_t d = 0; d < rank; ++d) {
        rectangle.start[d] = std::max(low[d], shard[d] * sentExtent(d));
        rectangle.size[d] = std::min(high[d], (shard[d] + 1) * sentExtent(d)) - rectangle.start[d];
      }
      use(rectangle);
      size_t d = rank;
      while (d > 0 && shard[d - 1] == last[d - 1]) {
        --d;
        shard[d] = first[d];
      }
      if (d == 0)
        return;
      ++shard[d - 1];
    }
  }

  /// The rectangle in the shard of one of its two ranks.
  Piece pieceOf(const Rectangle &rectangle, bool sends) const {
    Piece piece;
    piece.peer = sends ? rectangle.to : rectangle.from;
    piece.run = 1;
    int rank = sends ? rectangle.from : rectangle.to;
    int64_t stride = 1;
    bool whole = true; // all dimensions so far
    for (size_t d = dims.size(); d-- > 0;) {
      int64_t extent = dims[d].extent / mesh.count(axesOf(dims[d], sends)), size = rectangle.size[d];
      piece.offset += (rectangle.start[d] - mesh.index(rank, axesOf(dims[d], sends)) * extent) * stride;
      if (whole)
        piece.run *= size;
      else if (size > 1)
        piece.rows.push_back({size, stride});
      whole &= size == extent;
      stride *= extent;
    }
    std::reverse(piece.rows.begin(), piece.rows.end());
    piece.bytes = piece.run;
    for (const Piece::Rows &rows : piece.rows)
      piece.bytes *= rows.count;
    return piece;
  }

private:
  static AxesOfDim axesOf(const DivisiTransferDim &dim, bool from) {
    return from ? AxesOfDim(dim.from, static_cast<size_t>(dim.from_count))
                : AxesOfDim(dim.to, static_cast<size_t>(dim.to_count));
  }
  int64_t sentExtent(size_t d) const { return dims[d].extent / mesh.count(axesOf(dims[d], true)); }

  /// The rank that sends from the shard with these indices; it is a receiver's rectangle of this number.
  int senderOf(int to, const Numbers &shard, int64_t number) const {
    size_t count = mesh.axes().size();
    Numbers indices(count), alone; // axes of receivers that share a sender
    std::vector<bool> shards(count);
    for (size_t d = 0; d < dims.size(); ++d) {
      int64_t index = shard[d];
      AxesOfDim axes = axesOf(dims[d], true);
      for (size_t i = axes.size(); i-- > 0;) {
        auto axis = static_cast<size_t>(axes[i]);
        shards[axis] = true;
        indices[axis] = index % mesh.axes()[axis].size;
        index /= mesh.axes()[axis].size;
      }
    }
    for (size_t axis = 0; axis < count; ++axis)
      if (auto at = static_cast<int64_t>(axis);
          at != mesh.stageAxis() && mesh.has(receiver, at) && !mesh.has(sender, at))
        alone.push_back(at);
    int64_t turn = number + mesh.index(to, alone);
    for (size_t axis = count; axis-- > 0;) {
      auto at = static_cast<int64_t>(axis);
      if (at == mesh.stageAxis()) {
        indices[axis] = sender;
      } else if (!shards[axis] && mesh.has(sender, at)) {
        int64_t size = mesh.axes()[axis].size;
        indices[axis] = mesh.has(receiver, at) ? mesh.index(to, at) : turn % size;
        turn = mesh.has(receiver, at) ? turn : turn / size;
      }
    }
    return mesh.rankAt(indices);
  }

  const Mesh &mesh;
  int64_t sender, receiver; // stages
  std::vector<DivisiTransferDim> dims;
};

int64_t stageOf(int rank, const Mesh &mesh) {
  std::optional<int64_t> axis = mesh.stageAxis();
  return axis ? mesh.index(rank, *axis) : 0;
}

/// Copies runs one after the other, from a shard or into it.
template <typename Copy> void forEachRun(const Piece &piece, const Copy &copy) {
  std::vector<int64_t> at(piece.rows.size());
  int64_t offset = piece.offset;
  for (int64_t packed = 0; packed < piece.bytes; packed += piece.run) {
    copy(offset, packed);
    for (size_t d = at.size(); d-- > 0;) {
      offset += piece.rows[d].stride;
      if (++at[d] < piece.rows[d].count)
        break;
      offset -= piece.rows[d].count * piece.rows[d].stride;
      at[d] = 0;
    }
  }
}
} // namespace

Result<std::vector<Piece>> Piece::sentBy(int rank, const DivisiTransfer &params, const Mesh &mesh) {
  Resharding message(params, mesh, stageOf(rank, mesh), params.stage);
  if (Status status = message.check(params.bytes, true); !status.ok())
    return status;
  std::vector<Piece> pieces;
  for (int to = 0; to < mesh.size(); ++to)
    if (stageOf(to, mesh) == params.stage)
      message.forEach(to, [&](const Resharding::Rectangle &rectangle) {
        if (rectangle.from == rank)
          pieces.push_back(message.pieceOf(rectangle, true));
      });
  return pieces;
}

Result<std::vector<Piece>> Piece::receivedBy(int rank, const DivisiTransfer &params, const Mesh &mesh) {
  Resharding message(params, mesh, params.stage, stageOf(rank, mesh));
  if (Status status = message.check(params.bytes, false); !status.ok())
    return status;
  std::vector<Piece> pieces;
  message.forEach(rank,
                  [&](const Resharding::Rectangle &rectangle) { pieces.push_back(message.pieceOf(rectangle, false)); });
  return pieces;
}

void Piece::pack(const char *shard, char *packed) const {
  forEachRun(*this, [&](int64_t in, int64_t out) { std::memcpy(packed + out, shard + in, static_cast<size_t>(run)); });
}

void Piece::unpack(const char *packed, char *shard) const {
  forEachRun(*this, [&](int64_t in, int64_t out) { std::memcpy(shard + in, packed + out, static_cast<size_t>(run)); });
}
