//===- AllReduce.cpp - the algorithms of divisi/all_reduce.h --------------===//
#include "runtime/comm/Collectives.h"
#include "runtime/comm/Reduce.h"
#include "runtime/core/Launch.h"

#include <cstring>

using namespace divisi::runtime;

Collective::Ring Collective::Ring::over(std::span<const int> ranks, int64_t me, int64_t begin, int64_t end,
                                        int64_t chunks) {
  Ring ring{ranks, me, std::vector<std::pair<int64_t, int64_t>>(ranks.size(), {end, end})};
  for (int64_t index = 0; index < chunks; ++index) {
    auto [first, last] = pieceOf(end - begin, index, chunks);
    ring.chunks[static_cast<size_t>(index)] = {begin + first, begin + last};
  }
  return ring;
}

int64_t Collective::Ring::position(int64_t index) const {
  auto n = static_cast<int64_t>(ranks.size());
  return (index % n + n) % n;
}

Status Collective::reduceAround(Transport &transport, const Ring &ring, const char *operand, char *result,
                                char *received) const {
  const auto n = static_cast<int64_t>(ring.ranks.size());
  if (auto [begin, end] = ring.chunk(0); n == 1 && operand != result)
    std::memcpy(result + begin * width, operand + begin * width, static_cast<size_t>((end - begin) * width));
  // Each chunk goes around the ring once and is combined with each rank's chunk.
  for (int64_t s = 0; s < n - 1; ++s) {
    auto [begin, end] = ring.chunk(ring.me - s);
    auto [nextBegin, nextEnd] = ring.chunk(ring.me - s - 1);
    Status status = transport.exchange(ring.rank(ring.me + 1), (s == 0 ? operand : result) + begin * width,
                                       static_cast<size_t>((end - begin) * width), ring.rank(ring.me - 1), received,
                                       static_cast<size_t>((nextEnd - nextBegin) * width));
    if (!status.ok())
      return status;
    combine(result + nextBegin * width, received, operand + nextBegin * width, nextEnd - nextBegin, type, reduction);
  }
  return {};
}

Status Collective::gatherAround(Transport &transport, const Ring &ring, char *result) const {
  for (int64_t s = 0; s < static_cast<int64_t>(ring.ranks.size()) - 1; ++s) {
    auto [begin, end] = ring.chunk(ring.me + 1 - s);
    auto [nextBegin, nextEnd] = ring.chunk(ring.me - s);
    Status status = transport.exchange(ring.rank(ring.me + 1), result + begin * width,
                                       static_cast<size_t>((end - begin) * width), ring.rank(ring.me - 1),
                                       result + nextBegin * width, static_cast<size_t>((nextEnd - nextBegin) * width));
    if (!status.ok())
      return status;
  }
  return {};
}

Status Collective::allReduceAround(Transport &transport, const Ring &ring, const char *operand, char *result,
                                   char *received) const {
  Status status = reduceAround(transport, ring, operand, result, received);
  return status.ok() ? gatherAround(transport, ring, result) : status;
}

Status Collective::allReduceByHosts(Transport &transport, const char *operand, char *result, char *received) const {
  const int64_t chunks = hosts.fewest();
  const Ring inside = Ring::over(hosts.own(), hosts.position, 0, bytes / width, chunks);
  if (Status status = reduceAround(transport, inside, operand, result, received); !status.ok())
    return status;
  // The ranks that have the same chunk, one on each host.
  if (int64_t chunk = inside.position(inside.me + 1); chunk < chunks) {
    std::vector<int> ranks;
    for (const std::vector<int> &host : hosts.ranks)
      ranks.push_back(host[(static_cast<size_t>(chunk) + host.size() - 1) % host.size()]);
    auto [begin, end] = inside.chunk(chunk);
    const Ring across = Ring::over(ranks, hosts.mine, begin, end, static_cast<int64_t>(ranks.size()));
    if (Status status = allReduceAround(transport, across, result, result, received); !status.ok())
      return status;
  }
  return gatherAround(transport, inside, result);
}

Status Collective::doubleUp(Transport &transport, std::span<const int> ranks, int64_t me, char *result,
                            char *received) const {
  const auto n = static_cast<int64_t>(ranks.size()), size = bytes;
  auto rank = [&](int64_t position) { return ranks[static_cast<size_t>(position)]; };
  int64_t power = 1;
  while (2 * power <= n)
    power *= 2;
  const bool hands = me >= power, takes = me + power < n; // what is beyond the power of two
  if (hands)
    transport.send(rank(me - power), result, static_cast<size_t>(size));
  if (takes)
    transport.receive(rank(me + power), received, static_cast<size_t>(size));
  if (Status status = transport.wait(); !status.ok())
    return status;
  if (takes)
    combine(result, result, received, size / width, type, reduction);
  for (int64_t distance = 1; !hands && distance < power; distance *= 2) {
    const int64_t other = me ^ distance;
    if (Status status = transport.exchange(rank(other), result, static_cast<size_t>(size), rank(other), received,
                                           static_cast<size_t>(size));
        !status.ok())
      return status;
    combine(result, me < other ? result : received, me < other ? received : result, size / width, type, reduction);
  }
  if (takes)
    transport.send(rank(me + power), result, static_cast<size_t>(size));
  if (hands)
    transport.receive(rank(me - power), result, static_cast<size_t>(size));
  return transport.wait();
}

Status Collective::allReduceByTree(Transport &transport, char *result, char *received) const {
  const std::vector<int> &own = hosts.own();
  if (Status status = doubleUp(transport, own, hosts.position, result, received);
      !status.ok() || hosts.ranks.size() == 1)
    return status;
  if (hosts.position == 0) {
    std::vector<int> firsts;
    for (const std::vector<int> &host : hosts.ranks)
      firsts.push_back(host.front());
    if (Status status = doubleUp(transport, firsts, hosts.mine, result, received); !status.ok())
      return status;
  }
  const auto n = static_cast<int64_t>(own.size()), me = hosts.position;
  for (int64_t have = 1; have < n; have *= 2) {
    if (me < have && me + have < n)
      transport.send(own[static_cast<size_t>(me + have)], result, static_cast<size_t>(bytes));
    if (me >= have && me < 2 * have)
      transport.receive(own[static_cast<size_t>(me - have)], result, static_cast<size_t>(bytes));
    if (Status status = transport.wait(); !status.ok())
      return status;
  }
  return {};
}
