#pragma once
#include "test/gpu/fake/DnnGraph.h"

#include <cstring>

namespace fake {

/// An attribute: its name and type, its number of values, and which objects if its values are objects. One of FloatType
/// may be of DoubleType.
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
  FloatType = 4,
  DoubleType = 5,
  PointerType = 6,
  ConvolutionType = 7,
  HeuristicType = 8,
  NoteType = 11,
  PointwiseType = 14,
  ObjectTypeType = 15,
  ReductionType = 18,
};
/// The attributes of each type of object.
const std::map<int, std::vector<Rule>> &rules();

/// An object of the backend API.
struct Object {
  int type;
  bool finished = false;
  std::map<int, std::vector<char>> values = {};
  std::map<int, int> types = {}; // of attributes' values
  std::map<int, std::vector<std::shared_ptr<const Object>>> objects = {};
  // Set when they are finalized:
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
/// Builds an object from its attributes, which are complete. Returns an error text, or "".
std::string build(Object &object);

} // namespace fake
