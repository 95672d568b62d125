#include "dialects/Dist/Reshard.h"

#include "llvm/ADT/Sequence.h"

using namespace divisi::dist;
using llvm::ArrayRef;
using Kind = ReshardStep::Kind;

namespace {
class Resharder {
public:
  Resharder(const Sharding &from, const Sharding &to) : now(from), want(to) {}

  std::vector<ReshardStep> run() {
    reduce();
    gather();
    slice();
    return std::move(steps);
  }

private:
  /// Whether dimension d has a prefix of the axes that it should have.
  bool onTheWay(size_t d) const {
    return now.dims[d].size() <= want.dims[d].size() &&
           AxesRef(want.dims[d]).take_front(now.dims[d].size()) == AxesRef(now.dims[d]);
  }
  /// The dimension that needs this axis next; -1: none does.
  int place(int axis) const {
    for (size_t d = 0; d < now.dims.size(); ++d)
      if (onTheWay(d) && now.dims[d].size() < want.dims[d].size() && want.dims[d][now.dims[d].size()] == axis)
        return (int)d;
    return -1;
  }
  void add(Kind kind, Axes axes, int dim = -1, int to = -1) { steps.push_back({kind, axes, dim, to, now.kind}); }

  void reduce() {
    auto goes = [&](int axis) { return !llvm::is_contained(want.pending, axis); };
    for (bool moved = true; moved;) {
      moved = false;
      for (int axis : now.pending)
        if (int d = place(axis); goes(axis) && d >= 0) {
          add(Kind::reduceScatter, {axis}, d);
          now.dims[d].push_back(axis);
          llvm::erase(now.pending, axis);
          moved = true;
          break;
        }
    }
    Axes whole;
    for (int axis : now.pending)
      if (goes(axis))
        whole.push_back(axis);
    if (!whole.empty())
      add(Kind::allReduce, whole);
    now.pending = want.pending;
  }

  void gather() {
    for (size_t d = 0; d < now.dims.size(); ++d)
      while (!onTheWay(d)) {
        int axis = now.dims[d].pop_back_val();
        int to = place(axis);
        if (to >= 0 && to != (int)d) {
          add(Kind::allToAll, {axis}, (int)d, to);
          now.dims[to].push_back(axis);
        } else if (!steps.empty() && steps.back().kind == Kind::allGather && steps.back().dim == (int)d) {
          steps.back().axes.insertFirst(axis); // more major: one collective over both axes
        } else {
          add(Kind::allGather, {axis}, (int)d);
        }
      }
  }

  void slice() {
    for (size_t d = 0; d < now.dims.size(); ++d)
      if (auto rest = AxesRef(want.dims[d]).drop_front(now.dims[d].size()); !rest.empty())
        add(Kind::slice, Axes(rest), (int)d);
  }

  Sharding now;
  const Sharding &want;
  std::vector<ReshardStep> steps;
};
} // namespace

std::vector<ReshardStep> divisi::dist::planReshard(const Sharding &from, const Sharding &to) {
  return Resharder(from, to).run();
}

Sharding divisi::dist::sentSharding(const Sharding &from, const Sharding &to, ArrayRef<int64_t> shape,
                                    const Mesh &mesh) {
  Sharding sent = from;
  sent.pending = to.pending;
  for (int axis : from.pending) {
    if (llvm::is_contained(to.pending, axis))
      continue;
    auto divides = [&](size_t d) { return shape[d] / mesh.parts(sent.dims[d]) % mesh.axes[axis].size == 0; };
    auto wanted = [&](size_t d) { // the receivers have this axis next
      size_t count = sent.dims[d].size();
      return to.dims[d].size() > count && to.dims[d][count] == axis &&
             AxesRef(to.dims[d]).take_front(count) == AxesRef(sent.dims[d]);
    };
    auto numbers = llvm::seq<size_t>(0, sent.dims.size());
    auto place = llvm::find_if(numbers, [&](size_t d) { return wanted(d) && divides(d); });
    if (place == numbers.end())
      place = llvm::find_if(numbers, divides);
    if (place != numbers.end())
      sent.dims[*place].push_back(axis);
  }
  return sent;
}

int64_t divisi::dist::bytesOfStep(const Mesh &mesh, const ReshardStep &step, int64_t &local) {
  int64_t parts = mesh.parts(step.axes), before = local;
  switch (step.kind) {
  case Kind::allGather:
    return local *= parts;
  case Kind::reduceScatter:
    local /= parts;
    return before;
  case Kind::slice:
    local /= parts;
    return 0;
  case Kind::allReduce:
  case Kind::allToAll:
    break;
  }
  return before;
}
