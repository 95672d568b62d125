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
/// The lines of steps up to `step` and those of no step, without an incomplete last line and without lines of steps that
/// will be repeated.
std::string linesUntil(std::string_view text, int64_t step, int64_t total) {
  std::string kept;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    Result<Json> json = parseJson(text.substr(0, end), "log");
    bool isStep = json.ok() && json->is_object() && json->contains("step") && json->at("step").is_number_integer();
    int64_t found = isStep ? json->at("step").get<int64_t>() : 0;
    if (!isStep || (found <= step && !(json->contains("eval") && found >= total)))
      kept += text.substr(0, end + 1);
  }
  return kept;
}

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

Result<Log> Log::open(const std::string &path, const std::string &board, std::optional<int64_t> resumedStep,
                      int64_t total) {
  Log log;
  if (Status status = log.openLines(path, resumedStep, total); !status.ok())
    return status;
  if (board.empty())
    return log;
  bool continues = resumedStep && *resumedStep < INT64_MAX; // an evaluation alone repeats no steps
  for (auto [events, name] : {std::pair(&log.training, "/train"), {&log.evaluations, "/eval"}}) {
    Result<EventFile> created = EventFile::create(board + name, continues ? *resumedStep + 1 : 0);
    if (!created.ok())
      return created.status();
    events->emplace(std::move(*created));
  }
  return log;
}

Status Log::openLines(const std::string &to, std::optional<int64_t> resumedStep, int64_t total) {
  path = to;
  if (path.empty())
    return {};
  std::error_code error;
  bool append = resumedStep && std::filesystem::is_regular_file(path, error);
  if (append) {
    Result<MappedFile> old = MappedFile::open(path);
    if (!old.ok())
      return old.status();
    std::string kept = linesUntil(old->text(), *resumedStep, total);
    begun = kept.find("\"schema\":") != std::string::npos;
    if (Status status = writeFile(path, kept); !status.ok())
      return status;
  }
  file.reset(std::fopen(path.c_str(), append ? "ae" : "we"));
  if (!file)
    return failure("cannot write log '", path, "': ", systemError());
  return {};
}

Status Log::write(EventFile *events, int64_t step, const std::string &start, const std::vector<Field> &fields,
                  const std::string &end) {
  if (events) {
    std::vector<std::pair<std::string, double>> values;
    for (const Field &field : fields)
      values.emplace_back(field.name, field.value);
    if (Status status = events->add(step, values); !status.ok())
      return status;
  }
  if (!file)
    return {};
  std::string line = begun ? "{" : concat("{\"schema\":", schema, ",");
  line += start;
  for (const Field &field : fields)
    line += concat(",\"", field.name, "\":",
                   field.isWhole ? std::to_string(static_cast<int64_t>(field.value)) : formatNumber(field.value));
  line += concat(end, ",\"wall_time\":", wallTime(), "}\n");
  begun = true;
  if (std::fputs(line.c_str(), file.get()) < 0 || std::fflush(file.get()) != 0)
    return failure("cannot write log '", path, "': ", systemError());
  return {};
}

Status Log::step(const Step &s) {
  if (!file && !training)
    return {};
  std::vector<Field> fields;
  for (const auto &[name, value] : s.measures.named())
    fields.push_back({name, value});
  fields.push_back({"lr", s.learningRate});
  if (s.epochMeasures)
    for (const auto &[name, value] : s.epochMeasures->named())
      fields.push_back({"epoch_" + name, value});
  fields.push_back({"samples_per_s", s.samplesPerSecond});
  if (s.tokensPerSecond)
    fields.push_back({"tokens_per_s", *s.tokensPerSecond});
  fields.push_back({"step_ms", s.seconds * 1e3});
  if (s.feedSeconds)
    fields.push_back({"feed_ms", *s.feedSeconds * 1e3});
  if (s.comm) {
    fields.push_back({"comm_ms", s.comm->seconds * 1e3});
    fields.push_back({"comm_wait_ms", s.comm->waited * 1e3});
    fields.push_back({"comm_bytes", static_cast<double>(s.comm->bytes), true});
  }
  if (s.noise)
    for (auto [name, value] : {std::pair("grad_sq_big", s.noise->big), {"grad_sq_small", s.noise->small},
                               {"grad_sq", s.noise->estimate.gradient}, {"grad_variance", s.noise->estimate.variance},
                               {"noise_scale", s.noise->scale}})
      fields.push_back({name, value});
  std::string norms;
  if (!s.gradNorms.empty()) {
    norms = ",\"grad_norms\":{";
    for (size_t i = 0; i < s.gradNorms.size(); ++i)
      norms += concat(i ? "," : "", dumpJson(Json(s.gradNorms[i].first)), ":", formatNumber(s.gradNorms[i].second));
    norms += "}";
  }
  return write(training ? &*training : nullptr, s.step, concat("\"step\":", s.step, ",\"epoch\":", s.epoch), fields,
               norms);
}

Status Log::update(const Update &u) {
  return write(nullptr, u.step, concat("\"update\":", u.number, ",\"step\":", u.step, ",\"share\":", u.share, ",\"worker\":", u.worker,
                                       ",\"pulled\":", u.pulled, ",\"staleness\":", u.number - 1 - u.pulled), {});
}

Status Log::gossip(int64_t replica, const AsynchronousGossip::Event &e) {
  using Event = AsynchronousGossip::Event;
  const char *kind = e.kind == Event::Compute ? "compute" : e.kind == Event::Apply ? "apply" : "average";
  std::string of = e.kind != Event::Average ? concat(",\"share\":", e.share)
                   : e.their < 0            ? concat(",\"with\":", e.with)
                                            : concat(",\"with\":", e.with, ",\"their\":", e.their);
  return write(nullptr, e.batch + 1, concat("\"event\":\"", kind, "\",\"step\":", e.batch + 1, ",\"worker\":", replica, of), {});
}

Status Log::average(const std::vector<int> &workers, int64_t step) {
  std::string all;
  for (int worker : workers)
    all += concat(all.empty() ? "" : ",", worker);
  return write(nullptr, step, concat("\"event\":\"average\",\"step\":", step, ",\"workers\":[", all, "]"), {});
}

Status Log::change(bool joined, int64_t worker, int64_t step) {
  return write(nullptr, step,
               concat("\"event\":\"", joined ? "joined" : "lost", "\",\"step\":", step, ",\"worker\":", worker), {});
}

Status Log::evaluation(const Evaluation &e) {
  if (!file && !evaluations)
    return {};
  std::vector<Field> fields;
  for (const auto &[name, value] : e.measures.named())
    fields.push_back({name, value});
  if (e.history.bestStep >= 0) {
    fields.push_back({"best_loss", e.history.bestLoss});
    fields.push_back({"best_step", static_cast<double>(e.history.bestStep), true});
  }
  fields.push_back({"without_improvement", static_cast<double>(e.history.withoutImprovement), true});
  fields.push_back({"samples_per_s", e.samplesPerSecond});
  if (e.tokensPerSecond)
    fields.push_back({"tokens_per_s", *e.tokensPerSecond});
  return write(evaluations ? &*evaluations : nullptr, e.step,
               concat("\"eval\":true,\"step\":", e.step, ",\"epoch\":", e.epoch), fields);
}
