#pragma once
#include "llvm/ADT/Hashing.h"

#include <unordered_map>
#include <vector>

namespace divisi::planning {

/// Gives equal things the same number.
template <class T> class Numbers {
public:
  int of(const T &thing) {
    auto [it, fresh] = numbers.try_emplace(thing, list.size());
    if (fresh)
      list.push_back(thing);
    return it->second;
  }
  const T &operator[](int number) const { return list[number]; }
  size_t size() const { return list.size(); }

private:
  struct Hash {
    size_t operator()(const T &thing) const {
      if constexpr (requires { thing.begin(); })
        return llvm::hash_combine_range(thing.begin(), thing.end());
      else
        return llvm::hash_value(thing);
    }
  };
  std::unordered_map<T, int, Hash> numbers;
  std::vector<T> list;
};

} // namespace divisi::planning
