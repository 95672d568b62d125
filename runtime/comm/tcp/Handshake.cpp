#include "runtime/comm/tcp/Handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace divisi::runtime;

namespace {
constexpr const char *waiting = "waiting", *coming = "coming"; // names of the speakers
constexpr auto patience = std::chrono::seconds(10);

template <size_t Size> bool fillNonce(char (&nonce)[Size]) {
  Result<std::string> digits = randomDigits(Size);
  if (digits.ok())
    std::memcpy(nonce, digits->data(), Size);
  return digits.ok();
}

template <typename T> std::string_view bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}
} // namespace

Digest divisi::runtime::proofOf(const Secret &secret, std::string_view speaker, const Hello &hello,
                                const Challenge &challenge) {
  std::string words(speaker);
  words.append(bytesOf(hello)).append(bytesOf(challenge.magic)).append(bytesOf(challenge.rank));
  return hmacSha256(secret.text, words.append(challenge.nonce, sizeof challenge.nonce));
}

Visitor::Visitor(Socket socket, const Secret &secret, int rank)
    : socket_(std::move(socket)), secret(&secret), until(Clock::now() + patience) {
  challenge.rank = rank;
}

Visitor::State Visitor::leave(const char *why) {
  why_ = why;
  return state_ = State::Stranger;
}

bool Visitor::read(void *to, size_t bytes) {
  ssize_t got = ::recv(socket_.get(), to, bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (got <= 0) {
    leave(heard == 0              ? ""
          : heard < sizeof hello_ ? "went away before it had said who it is"
                                  : "went away when it was asked for a proof: its secret is another one");
    return false;
  }
  heard += static_cast<size_t>(got);
  return true;
}

Visitor::State Visitor::listen() {
  if (heard < sizeof hello_) {
    if (!read(reinterpret_cast<char *>(&hello_) + heard, sizeof hello_ - heard))
      return state_;
    if (std::memcmp(&hello_, &Hello::known, std::min(heard, sizeof Hello::known)) != 0)
      return leave("does not speak as a rank does");
    if (heard < sizeof hello_)
      return state_;
    if (!fillNonce(challenge.nonce))
      return leave("came when the system had no random numbers");
    challenge.proof = proofOf(*secret, waiting, hello_, challenge);
    if (!sendAll(socket_, &challenge, sizeof challenge, Clock::now())) // nothing else is in progress
      return leave("does not listen");
  }
  size_t proved = heard - sizeof hello_;
  if (!read(proof.data() + proved, proof.size() - proved) || heard < sizeof hello_ + proof.size())
    return state_;
  if (!sameDigest(proof, proofOf(*secret, coming, hello_, challenge)))
    return leave("does not know the secret of this job");
  hello_.host[sizeof hello_.host - 1] = 0;
  return state_ = State::Known;
}

Socket divisi::runtime::greet(Socket socket, int rank, Hello hello, const Secret &secret, Clock::time_point until,
                              std::string &why) {
  until = std::min(until, Clock::now() + patience);
  Challenge challenge;
  if (!fillNonce(hello.nonce) || !sendAll(socket, &hello, sizeof hello, until) ||
      !receiveAll(socket, &challenge, sizeof challenge, until) || challenge.magic != Hello::known) {
    why = "who answers there does not speak as a rank does";
    return Socket();
  }
  if (!sameDigest(challenge.proof, proofOf(secret, waiting, hello, challenge))) {
    why = "who answers there does not know the secret of this job";
    if (!secret.given)
      why += concat(": ", secretRemedy);
    return Socket();
  }
  if (challenge.rank != rank) {
    why = concat("rank ", challenge.rank, " answers there");
    return Socket();
  }
  Digest proof = proofOf(secret, coming, hello, challenge);
  if (sendAll(socket, proof.data(), proof.size(), until))
    return socket;
  why = concat("rank ", rank, " answers there, and goes away");
  return Socket();
}
