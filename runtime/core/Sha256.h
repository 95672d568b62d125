//===- Sha256.h - who knows a secret ----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SHA256_H
#define DIVISI_RUNTIME_CORE_SHA256_H

#include <array>
#include <cstdint>
#include <string_view>

namespace divisi::runtime {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 (FIPS 180-4).
Digest sha256(std::string_view text);

/// HMAC-SHA-256 (RFC 2104): only who knows `key` can compute it.
Digest hmacSha256(std::string_view key, std::string_view text);

/// Compares in a time that does not depend on where the digests differ.
bool sameDigest(const Digest &a, const Digest &b);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SHA256_H
