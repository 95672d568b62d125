//===- Handshake.h - authentication of ranks --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_HANDSHAKE_H
#define DIVISI_RUNTIME_COMM_TCP_HANDSHAKE_H

#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"
#include "runtime/core/Sha256.h"

#include <optional>

namespace divisi::runtime {

/// The first message of a process on every connection that it opens.
struct Hello {
  static constexpr uint32_t known = 0x44695632; // DiV2
  uint32_t magic = known;
  int32_t rank = 0, size = 0, port = 0; ///< `port`: on which it waits for higher ranks
  char host[64] = {};
  char nonce[32] = {};
};

/// The answer of the waiting process: a proof that it knows the secret, and a challenge.
struct Challenge {
  uint32_t magic = Hello::known;
  int32_t rank = 0;
  char nonce[32] = {};
  Digest proof = {};
};

/// A proof is an HMAC, under the secret, of both sides' messages with their random numbers and of the speaker. It is
/// worthless on another connection or in the other direction. Later messages are not protected.
Digest proofOf(const Secret &secret, std::string_view speaker, const Hello &hello, const Challenge &challenge);

/// A process that has connected to this one. At most `longest` bytes are read before it has proved that it knows the
/// secret, for which it has ten seconds.
class Visitor {
public:
  Visitor(Socket socket, const Secret &secret, int rank);

  enum class State { Speaks, Known, Stranger };
  /// Reads what was received, without waiting.
  State listen();
  State state() const { return state_; }
  /// Why it is a stranger; empty if it sent nothing.
  const std::string &why() const { return why_; }
  bool isLate() const { return Clock::now() > until; }
  const Hello &hello() const { return hello_; }
  Socket &socket() { return socket_; }

private:
  bool read(void *to, size_t bytes);
  State leave(const char *why);

  Socket socket_;
  const Secret *secret;
  Clock::time_point until;
  State state_ = State::Speaks;
  std::string why_;
  size_t heard = 0; ///< received bytes of the hello and the proof
  Hello hello_;
  Challenge challenge;
  Digest proof = {};
};

/// The other side: sends `hello` on a new connection and proves that it knows the secret. Returns no socket if the
/// connection does not lead to rank `rank` of this job in time; `why` is then the reason.
Socket greet(Socket socket, int rank, Hello hello, const Secret &secret, Clock::time_point until, std::string &why);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_HANDSHAKE_H
