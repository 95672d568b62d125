#include "runtime/main/Log.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"

#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>

using namespace divisi::runtime;

namespace {
/// The lines of steps up to `step`, without an incomplete last line and without lines of steps that will be repeated.
std::string linesUntil(std::string_view text, int64_t step, int64_t total) {
  std::string kept;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    Result<Json> json = parseJson(text.substr(0, end), "log");
    if (!json.ok() || !json->is_object() || !json->contains("step") || !json->at("step").is_number_integer())
      continue;
    int64_t found = json->at("step").get<int64_t>();
    if (found <= step && !(json->contains("eval") && found >= total))
      kept += text.substr(0, end + 1);
  }
  return kept;
}

std::string field(const char *name, double value) { return concat(",\"", name, "\":", formatNumber(value)); }
std::string field(const char *name, const std::optional<double> &value) { return value ? field(name, *value) : ""; }

/// Unix time in seconds, to the millisecond.
std::string wallTime() {
  using namespace std::chrono;
  auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  std::array<char, 40> text;
  int length = std::snprintf(text.data(), text.size(), "%lld.%03d", static_cast<long long>(now / 1000),
                             static_cast<int>(now % 1000));
  return {text.data(), static_cast<size_t>(length)};
}
} // namespace

std::string divisi::runtime::formatNumber(double value) {
  if (!std::isfinite(value))
    return "null";
  std::array<char, 40> text;
  int length = std::snprintf(text.data(), text.size(), "%.9g", value);
  return {text.data(), static_cast<size_t>(length)};
}

Result<Log> Log::open(const std::string &path, std::optional<int64_t> resumedStep, int64_t total) {
  Log log;
  log.path = path;
  if (path.empty())
    return log;
  std::error_code error;
  bool append = resumedStep && std::filesystem::is_regular_file(path, error);
  if (append) {
    Result<MappedFile> old = MappedFile::open(path);
    if (!old.ok())
      return old.status();
    std::string kept = linesUntil(old->text(), *resumedStep, total);
    log.begun = !kept.empty();
    if (Status status = writeFile(path, kept); !status.ok())
      return status;
  }
  log.file.reset(std::fopen(path.c_str(), append ? "ae" : "we"));
  if (!log.file)
    return failure("cannot write log '", path, "': ", systemError());
  return log;
}

Status Log::write(const std::string &members) {
  std::string line = begun ? "{" : concat("{\"schema\":", schema, ",");
  line += concat(members, ",\"wall_time\":", wallTime(), "}\n");
  begun = true;
  if (file && (std::fputs(line.c_str(), file.get()) < 0 || std::fflush(file.get()) != 0))
    return failure("cannot write log '", path, "': ", systemError());
  return {};
}

Status Log::step(const Step &s) {
  if (!file)
    return {};
  std::string line = concat("\"step\":", s.step, ",\"epoch\":", s.epoch);
  line += field("loss", s.measures.loss) + field("accuracy", s.measures.accuracy) +
          field("perplexity", s.measures.perplexity) + field("lr", s.learningRate);
  if (s.epochMeasures)
    line += field("epoch_loss", s.epochMeasures->loss) + field("epoch_accuracy", s.epochMeasures->accuracy) +
            field("epoch_perplexity", s.epochMeasures->perplexity);
  line += field("samples_per_s", s.samplesPerSecond) + field("tokens_per_s", s.tokensPerSecond) +
          field("step_ms", s.seconds * 1e3);
  if (s.comm)
    line += field("comm_ms", s.comm->seconds * 1e3) + field("comm_wait_ms", s.comm->waited * 1e3) +
            concat(",\"comm_bytes\":", s.comm->bytes);
  if (!s.gradNorms.empty()) {
    line += ",\"grad_norms\":{";
    for (size_t i = 0; i < s.gradNorms.size(); ++i)
      line += concat(i ? "," : "", dumpJson(Json(s.gradNorms[i].first)), ":", formatNumber(s.gradNorms[i].second));
    line += "}";
  }
  return write(line);
}

Status Log::evaluation(const Evaluation &e) {
  std::string line = concat("\"eval\":true,\"step\":", e.step, ",\"epoch\":", e.epoch);
  line += field("loss", e.measures.loss) + field("accuracy", e.measures.accuracy) +
          field("perplexity", e.measures.perplexity);
  if (e.history.bestStep >= 0)
    line += concat(field("best_loss", e.history.bestLoss), ",\"best_step\":", e.history.bestStep);
  line += concat(",\"without_improvement\":", e.history.withoutImprovement);
  return write(line + field("samples_per_s", e.samplesPerSecond) + field("tokens_per_s", e.tokensPerSecond));
}
