#include "runtime/core/Sha256.h"

#include <bit>
#include <cstring>
#include <string>

using namespace divisi::runtime;

namespace {
constexpr size_t blockBytes = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using HashState = std::array<uint32_t, 8>;

void absorb(HashState &state, const unsigned char *block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 | uint32_t(block[4 * i + 2]) << 8 |
           uint32_t(block[4 * i + 3]);
  for (int i = 16; i < 64; ++i) {
    uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  uint32_t mixed[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i)
    state[i] += mixed[i];
}
} // namespace

Digest divisi::runtime::sha256(std::string_view text) {
  HashState state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto *data = reinterpret_cast<const unsigned char *>(text.data());
  size_t whole = text.size() / blockBytes * blockBytes, rest = text.size() - whole;
  for (size_t at = 0; at < whole; at += blockBytes)
    absorb(state, data + at);
  // The remaining bytes, a bit that is 1, zeros, and the number of bits in the last 8 bytes.
  unsigned char last[2 * blockBytes] = {};
  size_t bytes = rest < blockBytes - 8 ? blockBytes : 2 * blockBytes;
  if (rest > 0)
    std::memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  for (size_t i = 0; i < 8; ++i)
    last[bytes - 1 - i] = static_cast<unsigned char>(uint64_t(text.size()) * 8 >> (8 * i));
  for (size_t at = 0; at < bytes; at += blockBytes)
    absorb(state, last + at);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest divisi::runtime::hmacSha256(std::string_view key, std::string_view text) {
  auto bytesOf = [](const Digest &digest) { return std::string(digest.begin(), digest.end()); };
  std::string padded = key.size() > blockBytes ? bytesOf(sha256(key)) : std::string(key);
  padded.resize(blockBytes);
  auto masked = [&](char mask) {
    std::string block = padded;
    for (char &byte : block)
      byte = static_cast<char>(byte ^ mask);
    return block;
  };
  return sha256(masked(0x5c) + bytesOf(sha256(masked(0x36).append(text))));
}

bool divisi::runtime::sameDigest(const Digest &a, const Digest &b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}
