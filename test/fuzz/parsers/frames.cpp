// Messages of another rank over TCP, two of which are requested; the first byte selects in how many parts they arrive.
#include "runtime/comm/tcp/TcpTransport.h"
#include "test/fuzz/parsers/Input.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>

using namespace divisi;
using namespace divisi::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int ends[2];
  if (size < 1 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return 0;
  Socket other(ends[1]);
  std::vector<Link> links(2);
  links[1] = Link(Socket(ends[0]));
  Rendezvous where;
  where.size = 2;
  TcpTransport transport(where, Connections(), std::move(links), Secret());
  char first[8], second[40], plain[16], untagged[24];
  auto one = transport.receive(1, 3, first, sizeof first), two = transport.receive(1, 7, second, sizeof second);
  size_t parts = data[0] % 4 + 1, sent = 1;
  for (size_t part = 1; part <= parts; ++part) {
    size_t end = part == parts ? size : 1 + (size - 1) * part / parts;
    if (end > sent && ::send(other.get(), data + sent, end - sent, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      break;
    sent = end;
    one->poll();
    two->poll();
  }
  if (one->poll())
    fuzz::use(first, sizeof first);
  // One that the socket does not take at once, of which the other side reads a part, or a short one: what the end of
  // this rank is then told waits for no reader.
  std::string much(data[0] & 64 && data[0] & 128 ? 256 << 10 : size * 8, 'x');
  auto early = transport.send(0, 6, plain, sizeof plain),
       late = transport.receive(0, 6, untagged, sizeof plain); // to itself
  auto own = transport.receive(0, 5, plain, sizeof plain), sent1 = transport.send(0, 5, plain, sizeof plain);
  if (transport.received(1) < 0)
    std::abort();
  auto out = transport.send(1, 4, much.data(), much.size());
  char some[64];
  while (data[0] & 16 && !out->poll() && ::recv(other.get(), some, sizeof some, MSG_DONTWAIT) > 0)
    ;
  if (data[0] & 8)
    transport.terminate(1);
  if (data[0] & 32)
    static_cast<Transport &>(transport).receive(1, untagged, sizeof untagged);
  auto three = transport.receive(1, 9, plain, sizeof plain);
  other = Socket(); // so that nothing waits forever
  if (data[0] & 64)
    (void)transport.exchange(1, plain, sizeof plain, 1, untagged, sizeof untagged);
  else
    (void)transport.wait();
  for (int i = 0; i < 3; ++i)
    (void)transport.lookAround();
  if (three->poll())
    fuzz::use(plain, sizeof plain);
  std::string why = transport.status().message();
  fuzz::use(why.data(), why.size());
  return 0;
}

/// In most cases makes the message's length fit the following bytes, and its tag one that is requested, another one, or
/// the farewell.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  static const int64_t tags[] = {3, 7, 9, 0, -1, 11, -2};
  if (seed % 3 == 0 || most < 17)
    return LLVMFuzzerMutate(data, size, most);
  size_t at = seed % 3 == 1 || size < 17 ? std::max<size_t>(size, 1) : 1; // after the existing bytes, or from the start
  uint64_t bytes = (seed / 3 % 7 == 0) ? uint64_t(1) << (seed / 32 % 50) : std::array<uint64_t, 4>{8, 40, 16, 3}[seed / 32 % 4];
  int64_t tag = tags[seed / 128 % std::size(tags)];
  if (size == 0)
    data[0] = 0;
  if (at + 16 > most)
    return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data + at, &bytes, 8);
  std::memcpy(data + at + 8, &tag, 8);
  size_t body = std::min<uint64_t>(bytes, std::min<size_t>(64, most - at - 16));
  for (size_t i = 0; i < body; ++i)
    data[at + 16 + i] = static_cast<uint8_t>(seed >> i % 24);
  return std::max(size, at + 16 + body);
}
