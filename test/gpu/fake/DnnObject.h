#pragma once
#include "test/gpu/fake/DnnGraph.h"

#include <cstring>

namespace fake {

/// What an attribute is: its name and type, how many values it has, and which objects, if it has objects.
struct Rule {
  int name, type;
  int64_t least, most; // least 0: it may be left out
  std::vector<int> objects = {};
};
enum AttributeType { // cudnnBackendAttributeType_t
  HandleType = 0,
  DataTypeType = 1,
  BoolType = 2,
  IntType = 3,
  PointerType = 6,
  HeuristicType = 8,
  PointwiseType = 14,
  ObjectTypeType = 15,
  ReductionType = 18,
};
/// By the types of the objects that there are: their attributes.
const std::map<int, std::vector<Rule>> &rules();

/// An object of the backend API.
struct Object {
  int type;
  bool finished = false;
  std::map<int, std::vector<char>> values = {};
  std::map<int, std::vector<std::shared_ptr<const Object>>> objects = {};
  // What they are when they are finished:
  Tensor tensor = {};
  Operation operation = {};
  Graph graph = {}; // of a heuristic, a configuration and a plan, too

  template <typename T> std::vector<T> all(int name) const {
    auto it = values.find(name);
    std::vector<T> result(it == values.end() ? 0 : it->second.size() / sizeof(T));
    if (!result.empty())
      std::memcpy(result.data(), it->second.data(), it->second.size());
    return result;
  }
  template <typename T> T one(int name, T otherwise = {}) const {
    auto found = all<T>(name);
    return found.empty() ? otherwise : found[0];
  }
  const Object *object(int name) const {
    auto it = objects.find(name);
    return it == objects.end() ? nullptr : it->second[0].get();
  }
};
/// Makes what the attributes of an object say, all of which are there; what is wrong, or nothing.
std::string build(Object &object);

} // namespace fake
