#include "compiler/Profile/Database.h"
#include "compiler/Profile/JsonFile.h"
#include "passes/Planning/Pipeline/LayerProfile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/LineIterator.h"

#include <algorithm>
#include <cmath>

using namespace divisi::compiler;
namespace json = llvm::json;
using llvm::StringRef;

static bool isTime(std::optional<double> value) {
  return value && std::isfinite(*value) && *value >= 0 && *value < 1e12;
}

std::string ProfileDatabase::defaultFile() {
  return cachedFile("DIVISI_PROFILE", "profile.json");
}

llvm::Expected<ProfileDatabase> ProfileDatabase::read(const std::string &file) {
  ProfileDatabase result;
  if (!llvm::sys::fs::exists(file))
    return result;
  auto text = readText(file);
  if (!text)
    return text.takeError();
  auto parsed = json::parse((*text)->getBuffer());
  if (!parsed)
    return llvm::createStringError("'" + file + "' is no profile: " + llvm::toString(parsed.takeError()));
  const json::Object *top = parsed->getAsObject();
  const json::Object *times = top ? top->getObject("microseconds") : nullptr;
  if (!times || top->getInteger("divisi_profile") != 1)
    return llvm::createStringError("'" + file +
                                   "' is no profile: expected {\"divisi_profile\": 1, \"microseconds\": {...}}");
  for (const auto &[key, value] : *times) {
    const json::Array *list = value.getAsArray();
    if (!list || list->empty() ||
        !llvm::all_of(*list, [](const json::Value &time) { return isTime(time.getAsNumber()); }))
      return llvm::createStringError("'" + file + "': '" + planning::shownName(key) + "' has no times in microseconds");
    for (const json::Value &time : *list)
      result.entries[StringRef(key).str()].push_back(*time.getAsNumber());
  }
  return result;
}

llvm::Error ProfileDatabase::write(const std::string &file) const {
  json::Object times;
  for (const auto &[key, values] : entries)
    times[key] = json::Array(values);
  return writeJson(file, json::Object{{"divisi_profile", 1}, {"microseconds", std::move(times)}});
}

llvm::Error ProfileDatabase::fold(const std::string &runFile) {
  auto text = readText(runFile);
  if (!text)
    return text.takeError();
  RunSetting setting;
  std::map<std::string, double> fresh;
  bool headed = false;
  for (llvm::line_iterator line(**text); !line.is_at_end(); ++line) {
    auto parsed = json::parse(*line);
    const json::Object *object = parsed ? parsed->getAsObject() : nullptr;
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    auto complain = [&](const char *what) {
      return llvm::createStringError(runFile + ":" + std::to_string(line.line_number()) + ": " + what);
    };
    if (!object)
      return complain("is no line of a profile (what a program's --profile writes)");
    if (!headed) {
      auto ranks = object->getInteger("ranks"), threads = object->getInteger("threads");
      if (object->getInteger("profile") != 1 || !ranks || !threads || *ranks < 1 || *threads < 1)
        return complain("is no head of a profile: expected \"profile\": 1, \"ranks\" and \"threads\"");
      setting = {*ranks, *threads};
      headed = true;
      auto task = object->getNumber("task_us"), step = object->getNumber("us");
      auto bytes = object->getInteger("input_bytes");
      if (isTime(task) && isTime(step) && bytes)
        fresh[setting.text() + feedKey(*bytes)] = std::max(0.0, *step - *task);
      continue;
    }
    auto key = object->getString("key");
    auto time = object->getNumber("us");
    if (!key || !isTime(time))
      return complain("has no \"key\" and \"us\"");
    if (!key->empty() && json::isUTF8(*key))
      fresh[setting.text() + key->str()] = *time;
  }
  if (!headed)
    return llvm::createStringError("'" + runFile + "' is empty");
  for (const auto &[key, time] : fresh) {
    std::vector<double> &values = entries[key];
    values.push_back(time);
    if (values.size() > kept)
      values.erase(values.begin(), values.end() - kept);
  }
  return llvm::Error::success();
}

std::optional<double> ProfileDatabase::microseconds(const RunSetting &setting, StringRef key) const {
  auto it = entries.find(setting.text() + key.str());
  if (it == entries.end())
    return std::nullopt;
  std::vector<double> sorted = it->second;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::vector<RunSetting> ProfileDatabase::settings() const {
  std::vector<RunSetting> result;
  for (const auto &entry : entries) {
    StringRef text = entry.first;
    RunSetting setting;
    if (text.consume_front("ranks ") && !text.consumeInteger(10, setting.ranks) && text.consume_front(" threads ") &&
        !text.consumeInteger(10, setting.threads) && (result.empty() || !(result.back() == setting)))
      result.push_back(setting);
  }
  return result;
}
