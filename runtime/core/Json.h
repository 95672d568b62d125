//===- Json.h - reading JSON that may be anything ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_JSON_H
#define DIVISI_RUNTIME_CORE_JSON_H

#include "runtime/core/DataType.h"
#include "runtime/core/Status.h"

#include <nlohmann/json.hpp>

namespace divisi::runtime {

using Json = nlohmann::json;
/// Keeps the order of keys: for what people read.
using OrderedJson = nlohmann::ordered_json;

/// Parses without exceptions; `what` names the text in the message.
Result<Json> parseJson(std::string_view text, const std::string &what);
/// One line; text that is not UTF-8 is replaced.
std::string dumpJson(const Json &json);
std::string dumpJson(const OrderedJson &json);

/// Reads members of one object and remembers the first thing that is not as it should be.
class JsonReader {
public:
  /// `what` names the object in messages.
  JsonReader(const Json &object, std::string what);

  bool has(const char *key) const;
  std::string text(const char *key);
  std::string text(const char *key, std::string otherwise) { return has(key) ? text(key) : std::move(otherwise); }
  int64_t integer(const char *key);
  int64_t integer(const char *key, int64_t otherwise) { return has(key) ? integer(key) : otherwise; }
  double number(const char *key);
  double number(const char *key, double otherwise) { return has(key) ? number(key) : otherwise; }
  bool boolean(const char *key, bool otherwise);
  DataType dataType(const char *key);
  Shape shape(const char *key);
  /// An array (empty if there is none).
  const Json &array(const char *key);
  /// An object (empty if there is none).
  const Json &object(const char *key);

  void fail(const std::string &message);
  const Status &status() const { return status_; }

private:
  const Json *find(const char *key, const char *kind, bool (Json::*is)() const noexcept);
  const Json *object_;
  std::string what_;
  Status status_;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_JSON_H
