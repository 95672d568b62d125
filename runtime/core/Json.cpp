#include "runtime/core/Json.h"

using namespace divisi::runtime;

Result<Json> divisi::runtime::parseJson(std::string_view text, const std::string &what) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return failure(what, " is not valid JSON");
  return json;
}

std::string divisi::runtime::dumpJson(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string divisi::runtime::dumpJson(const OrderedJson &json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

JsonReader::JsonReader(const Json &object, std::string what) : object_(&object), what_(std::move(what)) {
  if (!object.is_object())
    fail("is not an object");
}

void JsonReader::fail(const std::string &message) {
  if (status_.ok())
    status_ = failure(what_, " ", message);
}

bool JsonReader::has(const char *key) const { return object_->is_object() && object_->contains(key); }

const Json *JsonReader::find(const char *key, const char *kind, bool (Json::*is)() const noexcept) {
  if (has(key) && (object_->at(key).*is)())
    return &object_->at(key);
  fail(concat("has no ", kind, " '", key, "'"));
  return nullptr;
}

std::string JsonReader::text(const char *key) {
  const Json *value = find(key, "text", &Json::is_string);
  return value ? value->get<std::string>() : std::string();
}

int64_t JsonReader::integer(const char *key) {
  const Json *value = find(key, "integer", &Json::is_number_integer);
  if (value && value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX))
    fail(concat("has a '", key, "' that is too large"));
  return value ? value->get<int64_t>() : 0;
}

double JsonReader::number(const char *key) {
  const Json *value = find(key, "number", &Json::is_number);
  return value ? value->get<double>() : 0;
}

bool JsonReader::boolean(const char *key, bool otherwise) {
  if (!has(key))
    return otherwise;
  const Json *value = find(key, "truth value", &Json::is_boolean);
  return value ? value->get<bool>() : otherwise;
}

DataType JsonReader::dataType(const char *key) {
  std::string name = text(key);
  std::optional<DataType> type = parseDataType(name);
  if (!type)
    fail(concat("has the unknown element type '", name, "'"));
  return type.value_or(DataType::F32);
}

Shape JsonReader::shape(const char *key) {
  Shape shape;
  if (const Json *value = find(key, "shape", &Json::is_array))
    for (const Json &size : *value) {
      bool fine = size.is_number_unsigned() && size.get<uint64_t>() <= uint64_t(INT64_MAX);
      if (!fine)
        fail(concat("has a '", key, "' that is not a list of sizes"));
      shape.push_back(fine ? size.get<int64_t>() : 0);
    }
  return shape;
}

const Json &JsonReader::array(const char *key) {
  static const Json empty = Json::array();
  const Json *value = has(key) ? find(key, "list", &Json::is_array) : nullptr;
  return value ? *value : empty;
}

const Json &JsonReader::object(const char *key) {
  static const Json empty = Json::object();
  const Json *value = has(key) ? find(key, "object", &Json::is_object) : nullptr;
  return value ? *value : empty;
}
