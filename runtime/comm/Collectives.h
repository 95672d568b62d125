//===- Collectives.h - collectives over mesh axes ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_COLLECTIVES_H
#define DIVISI_RUNTIME_COMM_COLLECTIVES_H

#include "divisi/abi.h"
#include "runtime/comm/Placement.h"
#include "runtime/comm/Transport.h"
#include "runtime/core/Mesh.h"
#include "runtime/core/Scratch.h"
#include "runtime/core/Sync.h"

#include <span>
#include <vector>

namespace divisi::runtime {

/// One collective of a program, checked and laid out for one rank. With n members and s bytes of operands in all parts,
/// a rank sends: all_reduce 2(n-1)/n s, all_gather (n-1) s, reduce_scatter and all_to_all (n-1)/n s, permute s. If n
/// does not divide the elements of an all_reduce, its chunks differ by one element. An all_reduce goes around a ring,
/// by hosts or by a tree, whichever is the fastest by divisi/all_reduce.h; a tree sends more bytes. With messages
/// between all members (Reducers::all) it sends as many bytes, all at once instead of one hop after the other.
class Collective {
public:
  /// Fails if the parameters are invalid in this mesh. `reducers` compute an all_reduce over their axis, and if they are all
  /// members, a reduce_scatter and an all_gather, too. A first member that computes alone sends (n-1) s, and the others s.
  static Result<Collective> create(const DivisiCollective &params, const Mesh &mesh, int rank,
                                   std::optional<Reducers> reducers = {}, const Placement &placement = {});

  /// Runs the collective. `buffers` are the operands of all parts, then their results; `scratch` is for packed blocks.
  /// Results that are equal by definition have the same bits on every member.
  /// Ranks that are `absent` (by rank; empty: none) take no part in an all_reduce that the first member computes.
  Status run(Transport &transport, void *const *buffers, Scratch &scratch, const std::vector<bool> &absent = {}) const;

  /// The bytes of the operands of all parts, and then those of their results.
  std::vector<size_t> sizes() const;

  /// A tensor [rows, n, bytes], whose blocks are [rows, bytes].
  struct Blocks {
    int64_t rows = 1, bytes = 0;
  };
  struct Part {
    int64_t bytes = 0;      ///< of the operand
    int64_t blockBytes = 0; ///< bytes sent to or received from one member
    Blocks scattered, gathered;
  };
  /// The layout, for devices with collectives of their own.
  const std::vector<Part> &layout() const { return parts; }
  int64_t members() const { return n; }
  int64_t position() const { return me; } ///< of this rank among the members
  int64_t elementBytes() const { return width; }
  /// How an all_reduce without reducers goes.
  AllReduceWay reduceWay() const { return by; }

private:
  struct Call;
  Status layOut(const DivisiCollective &params);
  /// Ranks around which chunks go: the elements [begin, end) of each.
  struct Ring {
    std::span<const int> ranks;
    int64_t me; ///< this rank's position
    std::vector<std::pair<int64_t, int64_t>> chunks;

    /// The elements from `begin` to `end` in one chunk for each rank, or the first of them.
    static Ring over(std::span<const int> ranks, int64_t me, int64_t begin, int64_t end, int64_t chunks);
    int64_t position(int64_t index) const;
    int rank(int64_t index) const { return ranks[static_cast<size_t>(position(index))]; }
    const std::pair<int64_t, int64_t> &chunk(int64_t index) const {
      return chunks[static_cast<size_t>(position(index))];
    }
  };
  Status allReduce(Call &call) const;
  /// Combines each chunk of all ranks; this rank then has the complete chunk after the one at its position. `operand`
  /// may be `result`; `received` has room for a chunk.
  Status reduceAround(Transport &transport, const Ring &ring, const char *operand, char *result, char *received) const;
  /// Sends the complete chunks to all ranks.
  Status gatherAround(Transport &transport, const Ring &ring, char *result) const;
  Status allReduceAround(Transport &transport, const Ring &ring, const char *operand, char *result,
                         char *received) const;
  Status allReduceByHosts(Transport &transport, const char *operand, char *result, char *received) const;
  Status allReduceByTree(Transport &transport, char *result, char *received) const;
  /// Recursive doubling; with the operands in the order of the ranks, so that all have the same bits.
  Status doubleUp(Transport &transport, std::span<const int> ranks, int64_t me, char *result, char *received) const;
  Status reduceByFirst(Call &call) const;
  Status allReduceDirectly(Call &call) const;
  Status allGather(Call &call) const;
  Status allGatherDirectly(Call &call) const;
  Status reduceScatter(Call &call) const;
  Status reduceScatterDirectly(Call &call) const;
  /// Combines as many elements of each member in `result`, in the order of the members: this rank's are `own`, the others'
  /// are `stride` bytes apart in `received`.
  void combineAll(char *result, const char *own, const char *received, size_t stride, int64_t elements) const;
  /// Copies the operands of all parts into one piece of memory, or that into the results.
  void pack(const Call &call, char *memory) const;
  void unpack(const Call &call, const char *memory) const;
  Status allToAll(Call &call) const;
  Status permute(Call &call) const;
  /// Block `index` of all parts of the operands; in `memory` if it must be packed.
  const char *operandBlock(const Call &call, int64_t index, char *memory) const;
  /// The place of block `index` in the results; null if the block must be unpacked.
  char *resultBlock(const Call &call, int64_t index) const;
  void unpackBlock(const Call &call, int64_t index, const char *memory) const;
  int64_t member(int64_t index) const { return (index % n + n) % n; }
  int rankOf(int64_t index) const { return group[static_cast<size_t>(member(index))]; }

  int64_t kind = 0, reduction = 0, type = 0, width = 4, shift = 0;
  std::vector<Part> parts;
  std::vector<int> group;
  enum class Way { Ring, First, Direct } way = Way::Ring;
  AllReduceWay by = AllReduceWay::ring;
  HostMembers hosts;      ///< of an all_reduce
  int64_t n = 1, me = 0;  ///< number of members, and this rank's position
  int64_t bytes = 0;      ///< of the operands
  int64_t blockBytes = 0; ///< of a block of all parts
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_COLLECTIVES_H
