// The handshake of ranks over TCP: input of a stranger to the waiting rank and to the connecting rank. A process that
// gets in has proved that it knows the secret; only this harness does, if the first byte requests it.
#include "runtime/comm/tcp/Handshake.h"
#include "test/fuzz/parsers/Input.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <thread>

using namespace divisi;
using namespace divisi::runtime;

namespace {
const Secret secret{"only ranks know this", true};

/// Takes up to `most` bytes from the beginning of the input.
std::string_view take(std::string_view &input, size_t most) {
  std::string_view taken = input.substr(0, most);
  input.remove_prefix(taken.size());
  return taken;
}

void say(const Socket &to, std::string_view words) { (void)::send(to.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }

/// A stranger connects to rank 0; if it is `deaf`, nothing can be sent to it.
void visit(Socket here, Socket there, std::string_view input, bool honest, bool deaf) {
  Visitor visitor(std::move(here), secret, 0);
  Hello hello;
  std::string_view said = take(input, sizeof hello);
  std::memcpy(&hello, said.data(), said.size());
  say(there, said.substr(0, said.size() / 2));
  visitor.listen();
  say(there, said.substr(said.size() / 2));
  if (deaf)
    there = Socket();
  if (visitor.state() == Visitor::State::Speaks)
    visitor.listen();
  Challenge challenge;
  bool asked = ::recv(there.get(), &challenge, sizeof challenge, MSG_DONTWAIT) == sizeof challenge;
  if (asked && honest) {
    Digest proof = proofOf(secret, "coming", hello, challenge);
    say(there, {reinterpret_cast<const char *>(proof.data()), proof.size()});
  } else if (!deaf) {
    say(there, input);
  }
  there = Socket();
  for (int turn = 0; turn < 2 && visitor.state() == Visitor::State::Speaks; ++turn) // as ranks do
    visitor.listen();
  if ((visitor.state() == Visitor::State::Known) != (asked && honest))
    std::abort();
  if (visitor.state() == Visitor::State::Known && ::strnlen(visitor.hello().host, sizeof hello.host) == sizeof hello.host)
    std::abort();
}

/// Rank 1 connects to a stranger that has answered in advance, or to a rank, which may not be the expected one.
void meet(Socket here, Socket there, std::string_view input, bool honest) {
  std::string why;
  Hello hello;
  hello.rank = 1;
  Challenge challenge;
  challenge.magic = Hello::known;
  challenge.rank = honest && !input.empty() && input[0] % 2 ? 2 : 0;
  std::thread rank;
  if (honest) {
    rank = std::thread([&] {
      Hello said;
      if (::recv(there.get(), &said, sizeof said, MSG_WAITALL) != sizeof said)
        return;
      challenge.proof = proofOf(secret, "waiting", said, challenge);
      say(there, {reinterpret_cast<const char *>(&challenge), sizeof challenge});
    });
  } else {
    say(there, input);
    ::shutdown(there.get(), SHUT_WR);
  }
  Secret own{secret.text, input.size() % 2 == 0};
  Socket known = greet(std::move(here), 0, hello, own, Clock::now() + std::chrono::seconds(1), why);
  if (rank.joinable())
    rank.join();
  if (static_cast<bool>(known) != (honest && challenge.rank == 0) || static_cast<bool>(known) == !why.empty())
    std::abort();
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int ends[2];
  if (size < 1 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return 0;
  Socket here(ends[0]), there(ends[1]);
  if (data[0] & 1)
    meet(std::move(here), std::move(there), fuzz::text(data + 1, size - 1), data[0] % 32 == 5); // a thread is expensive
  else
    visit(std::move(here), std::move(there), fuzz::text(data + 1, size - 1), data[0] & 2, data[0] % 16 == 8);
  return 0;
}

/// In most cases begins like a rank.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 != 0 && size >= 1 + sizeof Hello::known)
    std::memcpy(data + 1, &Hello::known, sizeof Hello::known);
  if (seed % 8 == 1 && size < 1 + sizeof(Hello) + sizeof(Digest) && most >= 1 + sizeof(Hello) + sizeof(Digest)) {
    std::fill(data + size, data + 1 + sizeof(Hello) + sizeof(Digest), uint8_t(seed >> 8));
    size = 1 + sizeof(Hello) + sizeof(Digest);
  }
  return size;
}
