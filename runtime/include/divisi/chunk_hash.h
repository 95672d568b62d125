// Hashes of files by which the runtime checks what it reads, and the compiler says what it has written.
#ifndef DIVISI_CHUNK_HASH_H
#define DIVISI_CHUNK_HASH_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace divisi {

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv), of the bytes after those of `hash`.
inline uint64_t fnv1a(const void *data, size_t bytes, uint64_t hash = 0xcbf29ce484222325u) {
  const auto *p = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ p[i]) * 0x100000001b3u;
  return hash;
}

/// A hash in 16 hexadecimal digits.
inline std::string digitsOf(uint64_t hash) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += "0123456789abcdef"[(hash >> shift) & 15];
  return text;
}

/// FNV-1a of each chunk of a file, so that a reader can check only the chunks that it reads. The file may be passed in
/// parts of any size.
class ChunkHasher {
public:
  static constexpr size_t chunk = size_t(1) << 20;

  void add(const void *data, size_t bytes) {
    const auto *p = static_cast<const char *>(data);
    while (bytes > 0) {
      size_t part = std::min(bytes, chunk - filled);
      hash = fnv1a(p, part, hash);
      p += part, bytes -= part, filled += part;
      if (filled < chunk)
        continue;
      hashes += digitsOf(std::exchange(hash, fnv1a(nullptr, 0)));
      filled = 0;
    }
  }
  int64_t bytes() const { return static_cast<int64_t>(hashes.size() / 16 * chunk + filled); }
  /// The hashes of all chunks, 16 digits each. The file must be complete.
  std::string text() && {
    if (filled > 0)
      hashes += digitsOf(hash);
    return std::move(hashes);
  }
  /// Whether chunk `index` of a file has its hash in `text`; the last chunk may have fewer `bytes`.
  static bool matches(std::string_view text, size_t index, const void *data, size_t bytes) {
    return text.size() / 16 > index && text.substr(index * 16, 16) == digitsOf(fnv1a(data, bytes));
  }

private:
  std::string hashes;
  uint64_t hash = fnv1a(nullptr, 0);
  size_t filled = 0; // bytes of the last chunk
};

} // namespace divisi

#endif // DIVISI_CHUNK_HASH_H
