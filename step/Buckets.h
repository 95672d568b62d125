#pragma once
#include "dialects/Dist/Sharding.h"

#include "llvm/ADT/SmallBitVector.h"

namespace divisi::step {

/// The size from which on a bucket is closed, in bytes: small, so that the first reduction starts early.
constexpr int64_t bucketBytes = 1 << 20;

/// The number of collectives in flight, each of which keeps its operands and results in memory.
constexpr size_t mostUnderWay = 4;

/// Of an all_reduce, what decides with which others it is combined.
struct AllReduce {
  dist::Axes axes; // in their order
  dist::Reduction kind = dist::Reduction::sum;
  int64_t element = 0; // of its type: a number for each
  int64_t when = 0;    // in which steps it runs, or how often in a step
  int64_t bytes = 0;   // of a device's operands
};

/// The one rule by which all_reduces are combined into buckets, each one collective: in program order, an all_reduce
/// smaller than the limit joins the first bucket that is smaller, too, if both have the same axes, kind and element
/// type, run in the same steps, and the one does not depend on the other. A bucket runs at the position of its last
/// member.
class Buckets {
public:
  explicit Buckets(int64_t limit = bucketBytes) : limit(limit) {}

  /// Adds what runs next and depends on these (-1: on what is there from the beginning). Returns its number.
  int add(llvm::ArrayRef<int> operands) { return add(operands, nullptr); }
  int add(llvm::ArrayRef<int> operands, const AllReduce &reduce) { return add(operands, &reduce); }
  /// No later all_reduce joins a bucket of earlier ones.
  void close() { open.clear(); }

  /// The bucket of an all_reduce; -1: it is not combined with others.
  int bucketOf(int item) const {
    return bucketNumbers[item] >= 0 && buckets[bucketNumbers[item]].members.size() > 1 ? bucketNumbers[item] : -1;
  }
  /// The items of a bucket, in program order.
  llvm::ArrayRef<int> members(int bucket) const { return buckets[bucket].members; }

private:
  struct Bucket {
    AllReduce all; // its bytes are those of all members
    llvm::SmallVector<int, 4> members;
    llvm::SmallBitVector behind; // the buckets on which it depends
  };
  int add(llvm::ArrayRef<int> operands, const AllReduce *reduce);
  int bucketFor(const AllReduce &reduce, llvm::SmallBitVector &behind);

  const int64_t limit;
  std::vector<Bucket> buckets;
  std::vector<int> open;                    // buckets that take more
  std::vector<int> bucketNumbers;           // by item; -1: it is no all_reduce, or one that reaches the limit alone
  std::vector<llvm::SmallBitVector> behind; // by item: buckets on which it depends, but for what these depend on
};

/// Sorts items by position, as far as their operands allow: an item that has to wait for an operand follows it
/// immediately. Of items that wait for each other in a circle, the one with the first position does not wait.
std::vector<int> sortByPosition(llvm::ArrayRef<int64_t> positions, llvm::ArrayRef<llvm::SmallVector<int, 4>> operands);

} // namespace divisi::step
