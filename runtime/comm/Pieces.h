//===- Pieces.h - what ranks exchange of a message --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_PIECES_H
#define DIVISI_RUNTIME_COMM_PIECES_H

#include "divisi/abi.h"
#include "runtime/core/Mesh.h"
#include "runtime/core/Status.h"

#include <vector>

namespace divisi::runtime {

/// The rectangle of a rank's shard that it sends to a peer, or that it receives from one. Two ranks exchange at most
/// one for each message, which is packed in the order of its elements. Each rank of the receiving stage gets every byte
/// of its shard once.
///
/// A rectangle is where a sender's shard and the receiver's meet. Along an axis that does not shard the sender's
/// tensor, all senders have the same: the sender has the receiver's index if both stages have the axis; if only the
/// sending stage has it, receivers and their rectangles take these senders in turn.
struct Piece {
  int peer = 0;
  int64_t bytes = 0;
  int64_t offset = 0; ///< of its first byte in the shard
  int64_t run = 0;    ///< bytes that are next to each other

  /// The pieces of a message that `rank` sends to ranks of the stage `params.stage`, or that it receives from there;
  /// fails if the parameters are invalid in this mesh.
  static Result<std::vector<Piece>> sentBy(int rank, const DivisiTransfer &params, const Mesh &mesh);
  static Result<std::vector<Piece>> receivedBy(int rank, const DivisiTransfer &params, const Mesh &mesh);

  bool isContiguous() const { return rows.empty(); }
  void pack(const char *shard, char *packed) const;
  void unpack(const char *packed, char *shard) const;

  /// A dimension of the runs: how many, and the bytes from one to the next; outermost first.
  struct Rows {
    int64_t count = 1, stride = 0;
  };
  std::vector<Rows> rows;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_PIECES_H
