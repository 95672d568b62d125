//===- Sha256.h - SHA-256 and HMAC ------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SHA256_H
#define DIVISI_RUNTIME_CORE_SHA256_H

#include <array>
#include <cstdint>
#include <string_view>

namespace divisi::runtime {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 (FIPS 180-4).
Digest sha256(std::string_view text);

/// HMAC-SHA-256 (RFC 2104): computing it requires `key`.
Digest hmacSha256(std::string_view key, std::string_view text);

/// Compares in a time that is independent of the digests.
bool sameDigest(const Digest &a, const Digest &b);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SHA256_H
