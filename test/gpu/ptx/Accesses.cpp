// Loads and stores, and registers that are parts of others.
#include "test/gpu/ptx/Lanes.h"

#include <algorithm>
#include <cstring>

using namespace divisi::test::ptx;

namespace {
/// Addresses of the active lanes, which must be multiples of what is accessed.
struct Addresses {
  Addresses(Warp &warp, const Code &code, uint32_t slot) : bytes(code.bytes * code.count) {
    const auto *base = warp.at<uint64_t>(slot);
    uint64_t bits = 0;
    for (unsigned i = 0; i < warpSize; ++i) {
      of[i] = base[i] + (uint64_t)code.offset;
      bits |= warp.active >> i & 1 ? of[i] : 0;
    }
    if ((bits & (bytes - 1)) == 0)
      return;
    for (unsigned i = 0; i < warpSize; ++i)
      if (warp.active >> i & 1 && (of[i] & (bytes - 1)) != 0)
        throw Fault(i, "address " + std::to_string(of[i]) + " is no multiple of " + std::to_string(bytes));
  }
  unsigned bytes; ///< of an access
  uint64_t of[warpSize];
};

void requireGlobal(Warp &warp, const Addresses &addresses, bool writes) {
  const Memory &memory = warp.launch.memory;
  uint64_t least = ~0ull, most = 0;
  for (unsigned i = 0; i < warpSize; ++i) {
    bool isActive = warp.active >> i & 1;
    least = isActive && addresses.of[i] < least ? addresses.of[i] : least;
    most = isActive && addresses.of[i] > most ? addresses.of[i] : most;
  }
  auto isAllowed = [&](uint64_t begin, uint64_t end) {
    return writes ? memory.canWrite(begin, end) : memory.canRead(begin, end);
  };
  if (isAllowed(least, most + addresses.bytes))
    return;
  for (unsigned i = 0; i < warpSize; ++i)
    if (uint64_t at = addresses.of[i]; warp.active >> i & 1 && !isAllowed(at, at + addresses.bytes))
      throw Fault(i, std::string("out of bounds: ") + (writes ? "writes " : "reads ") +
                         std::to_string(addresses.bytes) + " bytes, " + memory.describe(at));
}
void requireLocal(Warp &warp, const Addresses &addresses) {
  uint64_t size = warp.launch.program.localBytes;
  for (unsigned i = 0; i < warpSize; ++i)
    if (uint64_t at = addresses.of[i] - windowBegin;
        warp.active >> i & 1 && (at >= size || size - at < addresses.bytes))
      throw Fault(i, "out of bounds of local memory");
}

/// Where each active lane's access is in this process; it has been checked.
template <Space space>
void locate(Warp &warp, const Code &code, const Addresses &addresses, bool writes, char *(&where)[warpSize]) {
  if constexpr (space == Space::global) {
    requireGlobal(warp, addresses, writes);
    for (unsigned i = 0; i < warpSize; ++i) {
      if (!(warp.active >> i & 1))
        continue;
      if (auto wrong = warp.global.access(writes, code.isConstant, addresses.of[i], addresses.bytes,
                                          warp.firstThread() + i, warp.epoch, code.line))
        throw Fault(i, *wrong);
      where[i] = (char *)(uintptr_t)addresses.of[i];
    }
  } else if constexpr (space == Space::local) {
    requireLocal(warp, addresses);
    for (unsigned i = 0; i < warpSize; ++i)
      where[i] = warp.active >> i & 1 ? warp.localOf(i) + (addresses.of[i] - windowBegin) : nullptr;
  } else {
    for (unsigned i = 0; i < warpSize; ++i) {
      if (!(warp.active >> i & 1))
        continue;
      unsigned thread = warp.firstThread() + i;
      if (auto wrong = warp.shared.access(writes, addresses.of[i], addresses.bytes, thread, warp.epoch, code.line))
        throw Fault(i, *wrong);
      where[i] = warp.shared.at(addresses.of[i]);
    }
  }
}

/// Numbers of type T in registers of type R.
template <Space space, typename T, typename R> void load(Warp &warp, const Code &code) {
  Addresses addresses(warp, code, code.a);
  char *from[warpSize] = {};
  locate<space>(warp, code, addresses, false, from);
  for (unsigned k = 0; k < code.count; ++k) {
    R *to = warp.at<R>(code.parts[k]);
    for (unsigned i = 0; i < warpSize; ++i)
      if (warp.active >> i & 1) {
        T value;
        std::memcpy(&value, from[i] + k * sizeof(T), sizeof(T));
        to[i] = (R)value;
      }
  }
}
template <Space space, typename T, typename R> void save(Warp &warp, const Code &code) {
  Addresses addresses(warp, code, code.d);
  char *to[warpSize] = {};
  locate<space>(warp, code, addresses, true, to);
  for (unsigned k = 0; k < code.count; ++k) {
    const R *from = warp.at<R>(code.parts[k]);
    for (unsigned i = 0; i < warpSize; ++i)
      if (warp.active >> i & 1) {
        T value = (T)from[i];
        std::memcpy(to[i] + k * sizeof(T), &value, sizeof(T));
      }
  }
}

template <Space space, typename T> Run runOf(bool writes, unsigned bytes) {
  if (writes)
    return bytes == 2 ? save<space, T, uint16_t> : bytes == 4 ? save<space, T, uint32_t> : save<space, T, uint64_t>;
  return bytes == 2 ? load<space, T, uint16_t> : bytes == 4 ? load<space, T, uint32_t> : load<space, T, uint64_t>;
}
template <Space space> Run runOf(bool writes, bool isSigned, unsigned bytes, unsigned registerBytes) {
  if (isSigned && !writes && bytes < 8)
    return bytes == 1   ? runOf<space, int8_t>(writes, registerBytes)
           : bytes == 2 ? runOf<space, int16_t>(writes, registerBytes)
                        : runOf<space, int32_t>(writes, registerBytes);
  return bytes == 1   ? runOf<space, uint8_t>(writes, registerBytes)
         : bytes == 2 ? runOf<space, uint16_t>(writes, registerBytes)
         : bytes == 4 ? runOf<space, uint32_t>(writes, registerBytes)
                      : runOf<space, uint64_t>(writes, registerBytes);
}

void loadParameter(Warp &warp, const Code &code) {
  uint64_t results[warpSize];
  std::fill_n(results, warpSize, warp.launch.arguments[(size_t)code.offset]);
  store(warp, code.d, results);
}

template <typename Whole, typename Part> void packAs(Warp &warp, const Code &code) {
  Whole results[warpSize] = {};
  for (unsigned k = 0; k < code.count; ++k) {
    const Part *from = warp.at<Part>(code.parts[k]);
    for (unsigned i = 0; i < warpSize; ++i)
      results[i] |= (Whole)((Whole)from[i] << (8 * sizeof(Part) * k));
  }
  store(warp, code.d, results);
}
template <typename Whole, typename Part> void unpackAs(Warp &warp, const Code &code) {
  Whole from[warpSize];
  std::memcpy(from, warp.at<Whole>(code.a), sizeof from);
  for (unsigned k = 0; k < code.count; ++k)
    if (code.parts[k] != Code::none) {
      Part results[warpSize];
      for (unsigned i = 0; i < warpSize; ++i)
        results[i] = (Part)(from[i] >> (8 * sizeof(Part) * k));
      store(warp, code.parts[k], results);
    }
}
} // namespace

Run divisi::test::ptx::accessOf(Space space, bool writes, bool isSigned, unsigned bytes, unsigned registerBytes) {
  switch (space) {
  case Space::global:
    return runOf<Space::global>(writes, isSigned, bytes, registerBytes);
  case Space::shared:
    return runOf<Space::shared>(writes, isSigned, bytes, registerBytes);
  case Space::local:
    return runOf<Space::local>(writes, isSigned, bytes, registerBytes);
  default:
    return loadParameter;
  }
}

Run divisi::test::ptx::packOf(unsigned whole, unsigned part) {
  return whole == 4 && part == 2   ? packAs<uint32_t, uint16_t>
         : whole == 8 && part == 4 ? packAs<uint64_t, uint32_t>
         : whole == 8 && part == 2 ? packAs<uint64_t, uint16_t>
                                   : nullptr;
}
Run divisi::test::ptx::unpackOf(unsigned whole, unsigned part) {
  return whole == 4 && part == 2   ? unpackAs<uint32_t, uint16_t>
         : whole == 8 && part == 4 ? unpackAs<uint64_t, uint32_t>
         : whole == 8 && part == 2 ? unpackAs<uint64_t, uint16_t>
                                   : nullptr;
}
