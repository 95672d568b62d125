//===- Json.h - parsing untrusted JSON --------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_JSON_H
#define DIVISI_RUNTIME_CORE_JSON_H

#include "runtime/core/DataType.h"
#include "runtime/core/Status.h"

#include <nlohmann/json.hpp>

namespace divisi::runtime {

using Json = nlohmann::json;
/// Keeps the order of keys, for output to users.
using OrderedJson = nlohmann::ordered_json;

/// Parses without exceptions; `what` names the text in the error.
Result<Json> parseJson(std::string_view text, const std::string &what);
/// One line; invalid UTF-8 is replaced.
std::string dumpJson(const Json &json);
std::string dumpJson(const OrderedJson &json);

/// Reads the members of one object and keeps the first error.
class JsonReader {
public:
  /// `what` names the object in errors.
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
  /// An array; empty if there is none.
  const Json &array(const char *key);
  /// An object; empty if there is none.
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
