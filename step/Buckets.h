#pragma once
#include "dialects/Dist/Reshard.h"

#include "llvm/ADT/SmallBitVector.h"

namespace divisi::step {

/// The size from which on a bucket is closed, in bytes: small, so that the first reduction starts early.
constexpr int64_t bucketBytes = 1 << 20;

/// The bytes that are copied into a bucket and out of it in the time of a hop of a ring on CPUs: 10 us of latency, and
/// about 28 GB/s in caches (passes/Planning/Cost/Presets.cpp).
constexpr int64_t bytesOfHop = 1 << 17;

/// The number of collectives in flight, each of which keeps its operands and results in memory.
constexpr size_t mostUnderWay = 4;

/// Of an all_reduce, a reduce_scatter or an all_gather, what decides with which others it is combined.
struct Collective {
  using Type = dist::ReshardStep::Kind;
  Type type = Type::allReduce;
  dist::Axes axes; // in their order
  dist::Reduction kind = dist::Reduction::sum;
  int64_t element = 0; // of its type: a number for each
  int64_t when = 0;    // in which steps it runs, or how often in a step
  int64_t bytes = 0;   // of a device's operands; of an all_gather of the results
  int64_t members = 0; // devices that take part
  int64_t layer = -1;  // of state that is gathered ahead of its use (Prefetch); -1: it is not
};

/// The one rule by which collectives are combined into buckets, each one collective: in program order, one smaller than
/// the limit joins the first bucket that is smaller, too, if both have the same type, axes, kind and element type, run
/// in the same steps, and the one does not depend on the other. A bucket runs at the position of its last member. For a
/// reduce_scatter and an all_gather, whose blocks are copied into the bucket one after the other, the limit is also
/// what may be copied in the time of the hops that are saved. All_gathers are added if they are of state: what the step
/// renews, or what is gathered ahead of its use, which is combined within its layer.
class Buckets {
public:
  explicit Buckets(int64_t limit = bucketBytes) : limit(limit) {}

  /// Adds what runs next and depends on these (-1: on what is there from the beginning). Returns its number.
  int add(llvm::ArrayRef<int> operands) { return add(operands, nullptr); }
  int add(llvm::ArrayRef<int> operands, const Collective &collective) { return add(operands, &collective); }
  /// No later collective joins a bucket of earlier ones.
  void close() { open.clear(); }

  /// The bucket of a collective; -1: it is not combined with others.
  int bucketOf(int item) const {
    return bucketNumbers[item] >= 0 && buckets[bucketNumbers[item]].members.size() > 1 ? bucketNumbers[item] : -1;
  }
  /// The items of a bucket, in program order.
  llvm::ArrayRef<int> members(int bucket) const { return buckets[bucket].members; }

private:
  struct Bucket {
    Collective all; // its bytes are those of all members
    llvm::SmallVector<int, 4> members;
    llvm::SmallBitVector behind; // the buckets on which it depends
  };
  int add(llvm::ArrayRef<int> operands, const Collective *collective);
  int bucketFor(const Collective &collective, llvm::SmallBitVector &behind);
  /// The size from which on a collective runs alone.
  int64_t limitOf(const Collective &collective) const;

  const int64_t limit;
  std::vector<Bucket> buckets;
  std::vector<int> open;                    // buckets that take more
  std::vector<int> bucketNumbers;           // by item; -1: it is no collective, or one that reaches the limit alone
  std::vector<llvm::SmallBitVector> behind; // by item: buckets on which it depends, but for what these depend on
};

/// Sorts items by position, as far as their operands allow: an item that has to wait for an operand follows it
/// immediately. Of items that wait for each other in a circle, the one with the first position does not wait.
std::vector<int> sortByPosition(llvm::ArrayRef<int64_t> positions, llvm::ArrayRef<llvm::SmallVector<int, 4>> operands);

} // namespace divisi::step
