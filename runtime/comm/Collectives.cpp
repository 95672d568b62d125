#include "runtime/comm/Collectives.h"
#include "runtime/comm/Reduce.h"
#include "runtime/core/DataType.h"
#include "runtime/core/Launch.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
constexpr int64_t widths[] = {4, 8, 2, 2, 8, 4, 2, 1, 1}; // by DivisiType

/// memcpy that accepts null addresses for 0 bytes.
void copy(void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from)
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

void copyRows(char *to, int64_t toStride, const char *from, int64_t fromStride, int64_t rows, int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r)
    copy(to + r * toStride, from + r * fromStride, bytes);
}
} // namespace

/// One run of a collective: operands and results, and working memory.
struct Collective::Call {
  Transport &transport;
  void *const *buffers;
  size_t count;
  Scratch &scratch;
  const std::vector<bool> &absent;

  bool isAbsent(int rank) const { return !absent.empty() && absent[static_cast<size_t>(rank)]; }
  char *operand(size_t part) const { return static_cast<char *>(buffers[part]); }
  char *result(size_t part) const { return static_cast<char *>(buffers[count + part]); }
};

Result<Collective> Collective::create(const DivisiCollective &params, const Mesh &mesh, int rank,
                                      std::optional<Reducers> reducers, const Placement &placement) {
  auto axes = static_cast<int64_t>(mesh.axes().size());
  if (params.axis_count < 0 || params.axis_count > DIVISI_MAX_AXES || params.part_count < 1 ||
      params.part_count > INT32_MAX || params.type < 0 || params.type > DIVISI_U8)
    return failure("collective ", params.id, " has parameters out of their ranges");
  for (int64_t i = 0; i < params.axis_count; ++i) {
    bool again = std::find(params.axes, params.axes + i, params.axes[i]) != params.axes + i;
    if (again || params.axes[i] < 0 || params.axes[i] >= axes)
      return failure("collective ", params.id, " is over axes that the mesh does not have");
  }
  Collective c;
  c.kind = params.kind;
  c.reduction = params.reduction;
  c.type = params.type;
  c.width = widths[params.type];
  c.shift = params.shift;
  std::span<const int64_t> over(params.axes, static_cast<size_t>(params.axis_count));
  c.group = mesh.group(rank, over);
  c.n = static_cast<int64_t>(c.group.size());
  if (c.n != mesh.count(over))
    return failure("collective ", params.id, " is over an axis that this rank's stage lacks");
  c.me = mesh.index(rank, over);
  if (reducers && std::find(over.begin(), over.end(), reducers->axis) != over.end())
    c.way = reducers->all ? Way::Direct : c.kind == DIVISI_ALL_REDUCE ? Way::First : Way::Ring;
  if (Status status = c.layOut(params); !status.ok())
    return status;
  if (c.kind == DIVISI_ALL_REDUCE && c.n > 1) {
    c.hosts = placement.membersOf(c.group, rank);
    c.by = placement.groupOf(mesh, rank, over).best(static_cast<double>(c.bytes));
  }
  return c;
}

std::vector<size_t> Collective::sizes() const {
  std::vector<size_t> sizes;
  for (const Part &part : parts)
    sizes.push_back(static_cast<size_t>(part.bytes));
  for (const Part &part : parts)
    sizes.push_back(static_cast<size_t>(kind == DIVISI_ALL_GATHER       ? part.bytes * n
                                        : kind == DIVISI_REDUCE_SCATTER ? part.bytes / n
                                                                        : part.bytes));
  return sizes;
}

Status Collective::layOut(const DivisiCollective &params) {
  bool reduces = kind == DIVISI_ALL_REDUCE || kind == DIVISI_REDUCE_SCATTER;
  if (reduces && (reduction < DIVISI_SUM || reduction > DIVISI_MIN))
    return failure("collective ", params.id, " combines elements in no known way");
  for (int64_t i = 0; i < params.part_count; ++i) {
    const DivisiPart &p = params.parts[i];
    std::optional<int64_t> total = byteCount({p.outer, p.first, p.middle, p.second, p.inner, n}, width);
    if (!total)
      return failure("part ", i, " of collective ", params.id, " has an impossible size");
    Part part;
    int64_t whole = n, inner = p.middle * p.second * p.inner * width;
    switch (kind) {
    case DIVISI_ALL_REDUCE:
    case DIVISI_PERMUTE:
      whole = 1;
      break;
    case DIVISI_ALL_GATHER:
      whole = 1;
      part.gathered = {p.outer, p.first * inner};
      break;
    case DIVISI_REDUCE_SCATTER:
      if (p.first % n != 0)
        return failure("collective ", params.id, " scatters ", p.first, " over ", n, " ranks");
      part.scattered = {p.outer, p.first / n * inner};
      break;
    case DIVISI_ALL_TO_ALL:
      if ((params.backward ? p.first : p.second) % n != 0)
        return failure("collective ", params.id, " scatters ", params.backward ? p.first : p.second, " over ", n,
                       " ranks");
      if (params.backward) {
        part.scattered = {p.outer, p.first / n * inner};
        part.gathered = {p.outer * (p.first / n) * p.middle, p.second * p.inner * width};
      } else {
        part.scattered = {p.outer * p.first * p.middle, p.second / n * p.inner * width};
        part.gathered = {p.outer, p.first * inner / n};
      }
      break;
    default:
      return failure("collective ", params.id, " is of the unknown kind ", kind);
    }
    part.bytes = *total / n;
    part.blockBytes = part.bytes / whole;
    std::optional<int64_t> sum = byteCount({bytes + part.bytes, n}, 1);
    if (!sum)
      return failure("collective ", params.id, " has an impossible size");
    bytes += part.bytes;
    blockBytes += part.blockBytes;
    parts.push_back(part);
  }
  return {};
}

Status Collective::run(Transport &transport, void *const *buffers, Scratch &scratch,
                       const std::vector<bool> &absent) const {
  Call call{transport, buffers, parts.size(), scratch, absent};
  if (bytes == 0)
    return {};
  if (n == 1 && kind != DIVISI_PERMUTE) {
    for (size_t i = 0; i < parts.size(); ++i)
      copy(call.result(i), call.operand(i), parts[i].bytes);
    return {};
  }
  switch (kind) {
  case DIVISI_ALL_REDUCE:
    return way == Way::Direct ? allReduceDirectly(call) : way == Way::First ? reduceByFirst(call) : allReduce(call);
  case DIVISI_ALL_GATHER:
    return way == Way::Direct ? allGatherDirectly(call) : allGather(call);
  case DIVISI_REDUCE_SCATTER:
    return way == Way::Direct ? reduceScatterDirectly(call) : reduceScatter(call);
  case DIVISI_ALL_TO_ALL:
    return allToAll(call);
  default:
    return permute(call);
  }
}

const char *Collective::operandBlock(const Call &call, int64_t index, char *memory) const {
  const Blocks &only = parts[0].scattered;
  if (parts.size() == 1 && only.rows == 1)
    return call.operand(0) + index * only.bytes;
  char *to = memory;
  for (size_t i = 0; i < parts.size(); to += parts[i++].blockBytes) {
    auto [rows, size] = parts[i].scattered;
    copyRows(to, size, call.operand(i) + index * size, n * size, rows, size);
  }
  return memory;
}

char *Collective::resultBlock(const Call &call, int64_t index) const {
  const Blocks &only = parts[0].gathered;
  return parts.size() == 1 && only.rows == 1 ? call.result(0) + index * only.bytes : nullptr;
}

void Collective::unpackBlock(const Call &call, int64_t index, const char *memory) const {
  for (size_t i = 0; i < parts.size(); memory += parts[i++].blockBytes) {
    auto [rows, size] = parts[i].gathered;
    copyRows(call.result(i) + index * size, n * size, memory, size, rows, size);
  }
}

Status Collective::allReduce(Call &call) const {
  int64_t elements = bytes / width;
  int64_t chunks = by == AllReduceWay::ring ? n : by == AllReduceWay::hierarchical ? hosts.fewest() : 1;
  size_t longest = Scratch::roundUp(static_cast<size_t>((elements + chunks - 1) / chunks * width));
  bool packed = parts.size() > 1;
  char *received = call.scratch.reserve(longest + (packed ? static_cast<size_t>(bytes) : 0));
  char *result = packed ? received + longest : call.result(0);
  const char *operand = packed ? result : call.operand(0);
  if (packed)
    pack(call, result);
  Status status;
  switch (by) {
  case AllReduceWay::ring:
    status = allReduceAround(call.transport, Ring::over(group, me, 0, elements, n), operand, result, received);
    break;
  case AllReduceWay::hierarchical:
    status = allReduceByHosts(call.transport, operand, result, received);
    break;
  case AllReduceWay::tree:
    copy(result, operand, bytes);
    status = allReduceByTree(call.transport, result, received);
  }
  if (status.ok() && packed)
    unpack(call, result);
  return status;
}

void Collective::pack(const Call &call, char *memory) const {
  for (size_t i = 0; i < parts.size(); memory += parts[i++].bytes)
    copy(memory, call.operand(i), parts[i].bytes);
}

void Collective::unpack(const Call &call, const char *memory) const {
  for (size_t i = 0; i < parts.size(); memory += parts[i++].bytes)
    copy(call.result(i), memory, parts[i].bytes);
}

void Collective::combineAll(char *result, const char *own, const char *received, size_t stride, int64_t elements) const {
  auto of = [&](int64_t index) { return index == me ? own : received + static_cast<size_t>(index) * stride; };
  const char *sum = of(0);
  for (int64_t index = 1; index < n; ++index, sum = result)
    combine(result, sum, of(index), elements, type, reduction);
}

Status Collective::allReduceDirectly(Call &call) const {
  auto chunk = [&](int64_t index) { return pieceOf(bytes / width, member(index), n); };
  auto [begin, end] = chunk(me);
  auto mine = static_cast<size_t>((end - begin) * width), stride = Scratch::roundUp(mine);
  size_t size = Scratch::roundUp(static_cast<size_t>(bytes)), others = static_cast<size_t>(n) * stride;
  char *all = call.scratch.reserve(size + others + stride), *received = all + size, *sum = received + others;
  pack(call, all);
  for (int64_t s = 1; s < n; ++s) { // members begin with different ones
    auto [first, last] = chunk(me + s);
    call.transport.send(rankOf(me + s), all + first * width, static_cast<size_t>((last - first) * width));
    call.transport.receive(rankOf(me - s), received + static_cast<size_t>(member(me - s)) * stride, mine);
  }
  if (Status status = call.transport.wait(); !status.ok())
    return status;
  combineAll(sum, all + begin * width, received, stride, end - begin);
  copy(all + begin * width, sum, (end - begin) * width);
  for (int64_t s = 1; s < n; ++s) {
    auto [first, last] = chunk(me - s);
    call.transport.send(rankOf(me + s), sum, mine);
    call.transport.receive(rankOf(me - s), all + first * width, static_cast<size_t>((last - first) * width));
  }
  if (Status status = call.transport.wait(); !status.ok())
    return status;
  unpack(call, all);
  return {};
}

Status Collective::reduceByFirst(Call &call) const {
  auto size = static_cast<size_t>(bytes);
  char *sum = call.scratch.reserve(2 * Scratch::roundUp(size)), *other = sum + Scratch::roundUp(size);
  pack(call, sum);
  if (me != 0) {
    call.transport.send(rankOf(0), sum, size);
    call.transport.receive(rankOf(0), other, size);
    std::swap(sum, other);
  }
  for (int64_t from = 1; me == 0 && from < n; ++from) {
    if (call.isAbsent(rankOf(from)))
      continue;
    call.transport.receive(rankOf(from), other, size);
    if (Status status = call.transport.wait(); !status.ok())
      return status;
    if (!call.transport.isLost(rankOf(from))) // else the others' sum
      combine(sum, other, sum, bytes / width, type, reduction);
  }
  for (int64_t member = 1; me == 0 && member < n; ++member)
    if (!call.isAbsent(rankOf(member)))
      call.transport.send(rankOf(member), sum, size);
  if (Status status = call.transport.wait(); !status.ok())
    return status;
  unpack(call, sum);
  return {};
}

Status Collective::allGatherDirectly(Call &call) const {
  auto block = static_cast<size_t>(blockBytes), stride = Scratch::roundUp(block);
  char *memory = call.scratch.reserve(static_cast<size_t>(n) * stride);
  bool whole = resultBlock(call, me) != nullptr;
  auto place = [&](int64_t index) { return whole ? resultBlock(call, index) : memory + static_cast<size_t>(index) * stride; };
  pack(call, place(me));
  for (int64_t s = 1; s < n; ++s) {
    call.transport.send(rankOf(me + s), place(me), block);
    call.transport.receive(rankOf(me - s), place(member(me - s)), block);
  }
  if (Status status = call.transport.wait(); !status.ok())
    return status;
  for (int64_t index = 0; !whole && index < n; ++index)
    unpackBlock(call, index, place(index));
  return {};
}

Status Collective::reduceScatterDirectly(Call &call) const {
  auto block = static_cast<size_t>(blockBytes), stride = Scratch::roundUp(block), all = static_cast<size_t>(n) * stride;
  char *packed = call.scratch.reserve(2 * all + stride), *received = packed + all, *sum = received + all;
  auto own = [&](int64_t index) { return operandBlock(call, index, packed + static_cast<size_t>(index) * stride); };
  for (int64_t s = 1; s < n; ++s) {
    call.transport.send(rankOf(me + s), own(member(me + s)), block);
    call.transport.receive(rankOf(me - s), received + static_cast<size_t>(member(me - s)) * stride, block);
  }
  if (Status status = call.transport.wait(); !status.ok())
    return status;
  combineAll(sum, own(me), received, stride, blockBytes / width);
  for (size_t i = 0; i < parts.size(); sum += parts[i++].blockBytes)
    copy(call.result(i), sum, parts[i].blockBytes);
  return {};
}

Status Collective::allGather(Call &call) const {
  auto block = static_cast<size_t>(blockBytes);
  char *memory = call.scratch.reserve(2 * Scratch::roundUp(block)), *other = memory + Scratch::roundUp(block);
  char *mine = resultBlock(call, me), *to = mine ? mine : memory;
  for (size_t i = 0; i < parts.size(); to += parts[i++].bytes)
    copy(to, call.operand(i), parts[i].bytes);
  if (!mine)
    unpackBlock(call, me, memory);
  for (int64_t s = 0; s < n - 1; ++s) {
    char *out = mine ? resultBlock(call, member(me - s)) : memory;
    char *in = mine ? resultBlock(call, member(me - s - 1)) : other;
    if (Status status = call.transport.exchange(rankOf(me + 1), out, block, rankOf(me - 1), in, block); !status.ok())
      return status;
    if (!mine)
      unpackBlock(call, member(me - s - 1), in);
    std::swap(memory, other);
  }
  return {};
}

Status Collective::reduceScatter(Call &call) const {
  auto block = static_cast<size_t>(blockBytes), stride = Scratch::roundUp(block);
  char *own = call.scratch.reserve(3 * stride), *out = own + stride, *in = out + stride;
  // Block k starts at member k + 1 and ends at member k.
  for (int64_t s = 0; s < n - 1; ++s) {
    const char *sent = s == 0 ? operandBlock(call, member(me - 1), own) : out;
    if (Status status = call.transport.exchange(rankOf(me + 1), sent, block, rankOf(me - 1), in, block); !status.ok())
      return status;
    combine(in, in, operandBlock(call, member(me - 2 - s), own), blockBytes / width, type, reduction);
    std::swap(out, in);
  }
  for (size_t i = 0; i < parts.size(); out += parts[i++].blockBytes)
    copy(call.result(i), out, parts[i].blockBytes);
  return {};
}

Status Collective::allToAll(Call &call) const {
  auto block = static_cast<size_t>(blockBytes), stride = Scratch::roundUp(block);
  char *packed = call.scratch.reserve(2 * stride), *received = packed + stride;
  for (int64_t s = 0; s < n; ++s) {
    int64_t from = member(me - s);
    const char *out = operandBlock(call, member(me + s), packed);
    char *place = resultBlock(call, from), *in = place ? place : received;
    if (s == 0)
      copy(in, out, blockBytes);
    else if (Status status = call.transport.exchange(rankOf(me + s), out, block, rankOf(from), in, block); !status.ok())
      return status;
    if (!place)
      unpackBlock(call, from, in);
  }
  return {};
}

Status Collective::permute(Call &call) const {
  bool near = shift > -n && shift < n;
  int64_t target = near ? me + shift : -1, source = near ? me - shift : -1;
  bool sends = target >= 0 && target < n, receives = source >= 0 && source < n;
  size_t stride = Scratch::roundUp(static_cast<size_t>(bytes));
  char *out = call.scratch.reserve(2 * stride), *in = out + stride;
  char *to = out;
  for (size_t i = 0; sends && i < parts.size(); to += parts[i++].bytes)
    copy(to, call.operand(i), parts[i].bytes);
  if (shift == 0) {
    in = out;
  } else {
    Status status = call.transport.exchange(rankOf(target), out, sends ? static_cast<size_t>(bytes) : 0, rankOf(source),
                                            in, receives ? static_cast<size_t>(bytes) : 0);
    if (!status.ok())
      return status;
  }
  for (size_t i = 0; i < parts.size(); in += parts[i++].bytes)
    if (receives)
      copy(call.result(i), in, parts[i].bytes);
    else if (parts[i].bytes > 0)
      std::memset(call.result(i), 0, static_cast<size_t>(parts[i].bytes));
  return {};
}
