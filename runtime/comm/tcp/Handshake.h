//===- Handshake.h - two ranks prove that they belong together --*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_HANDSHAKE_H
#define DIVISI_RUNTIME_COMM_TCP_HANDSHAKE_H

#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"
#include "runtime/core/Sha256.h"

#include <optional>

namespace divisi::runtime {

/// What a process says first on every connection that it makes.
struct Hello {
  static constexpr uint32_t known = 0x44695632; // DiV2
  uint32_t magic = known;
  int32_t rank = 0, size = 0, port = 0; ///< `port`: where it waits for ranks above it
  char host[64] = {};
  char nonce[32] = {};
};

/// What the process that waits answers: that it knows the secret, and a question of its own.
struct Challenge {
  uint32_t magic = Hello::known;
  int32_t rank = 0;
  char nonce[32] = {};
  Digest proof = {};
};

/// Proofs are HMACs, under the secret, of both sides' words with their random numbers, and of who speaks: one that was
/// overheard proves nothing on another connection or in the other direction. Messages after it are not protected.
Digest proofOf(const Secret &secret, std::string_view speaker, const Hello &hello, const Challenge &challenge);

/// A process that has connected to this one: at most `longest` bytes are read of it before it has proved that it knows
/// the secret, for which it has ten seconds.
class Visitor {
public:
  Visitor(Socket socket, const Secret &secret, int rank);

  enum class State { Speaks, Known, Stranger };
  /// Reads what has come, without waiting.
  State listen();
  State state() const { return state_; }
  /// Why a stranger is one; empty if it said nothing.
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
  size_t heard = 0; ///< bytes of the hello and the proof
  Hello hello_;
  Challenge challenge;
  Digest proof = {};
};

/// The other side: says `hello` on a new connection, and proves it. No socket if it does not lead to rank `rank` of
/// this job, or not in time; `why` then says so.
Socket greet(Socket socket, int rank, Hello hello, const Secret &secret, Clock::time_point until, std::string &why);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_HANDSHAKE_H
