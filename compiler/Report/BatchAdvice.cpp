#include "compiler/Report/BatchAdvice.h"

#include "compiler/Profile/JsonFile.h"
#include "compiler/Report/Lines.h"
#include "compiler/Report/Numbers.h"
#include "runtime/include/divisi/file_kind.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

/// The version of the fields that is read (docs/log.md).
static constexpr int64_t schema = 1;

namespace {
/// The estimates of a step.
struct StepNoise {
  int64_t step;
  double gradient, variance;
};
} // namespace

/// Why a file has no line of a log, or a first one of another schema.
static std::string noLog(std::string_view kind) {
  return "is not the first line of a log of schema " + std::to_string(schema) +
         (kind.empty() ? "" : ", and the file looks like " + std::string(kind)) + ": --log takes what a program writes by --log";
}

llvm::Expected<MeasuredNoise> MeasuredNoise::parse(llvm::StringRef name, llvm::StringRef text) {
  std::vector<StepNoise> steps;
  const llvm::StringRef whole = text;
  int64_t number = 0;
  bool begun = false;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    const std::string where = name.str() + ":" + std::to_string(++number) + ": ";
    auto parsed = json::parse(line);
    const json::Object *object = parsed ? parsed->getAsObject() : nullptr;
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    if (!object || !object->get("step"))
      continue; // of others, which may write to the file, too; or the program is still writing it
    if (!begun && object->getInteger("schema") != schema)
      return llvm::createStringError(where + noLog(""));
    begun = true;
    if (!object->get("grad_sq"))
      continue;
    std::string wrong; // the last field that is neither a number nor the null of a step that was skipped
    auto numberOf = [&](const char *field) {
      const json::Value *value = object->get(field);
      if (!value || (value->kind() != json::Value::Null && value->kind() != json::Value::Number))
        wrong = field;
      return value ? value->getAsNumber() : std::nullopt;
    };
    auto step = numberOf("step"), gradient = numberOf("grad_sq"), variance = numberOf("grad_variance");
    if (!wrong.empty())
      return llvm::createStringError(where + "'" + wrong + "' is no number: this is no line of a log (docs/log.md)");
    if (step && gradient && variance && *step >= 1 && *step < 1e15)
      steps.push_back({static_cast<int64_t>(*step), *gradient, *variance});
  }
  if (!begun && !whole.trim().empty())
    return llvm::createStringError(name.str() + ": " + noLog(nameOf(kindOfFile(std::string_view(whole)))));
  if (steps.empty())
    return llvm::createStringError("'" + name.str() + "' has no estimates of the noise: compile the program with --log-noise-scale");
  llvm::ArrayRef<StepNoise> half = llvm::ArrayRef(steps).drop_front(steps.size() / 2);
  MeasuredNoise noise;
  noise.first = half.front().step;
  noise.last = half.back().step;
  for (const StepNoise &step : half) {
    noise.gradient += step.gradient / static_cast<double>(half.size());
    noise.variance += step.variance / static_cast<double>(half.size());
  }
  if (!(noise.gradient > 0 && noise.variance > 0 && std::isfinite(noise.scale())))
    return llvm::createStringError("'" + name.str() + "': the estimates of steps " + std::to_string(noise.first) + " to " +
                                   std::to_string(noise.last) + " are too few to tell the gradient from its noise: log more steps, or larger batches");
  return noise;
}

llvm::Expected<MeasuredNoise> MeasuredNoise::read(const std::string &file) {
  auto text = readText(file, "log");
  return text ? parse(file, (*text)->getBuffer()) : text.takeError();
}

double BatchAdvice::goodput(const BatchPrice &price) const {
  const double own = prices[present].samples;
  return price.samples / price.seconds * (noise.scale() + own) / (noise.scale() + price.samples);
}

int BatchAdvice::best() const {
  int found = -1;
  for (size_t i = 0; i < prices.size(); ++i)
    if (prices[i].fits && (found < 0 || goodput(prices[i]) > goodput(prices[found])))
      found = static_cast<int>(i);
  return found;
}

json::Object BatchAdvice::describe() const {
  json::Array batches;
  for (const BatchPrice &price : prices)
    batches.push_back(json::Object{{"size", price.size},
                                   {"plan", price.plan},
                                   {"fits", price.fits},
                                   {"step_ms", price.seconds * 1e3},
                                   {"samples_per_s", price.samples / price.seconds},
                                   {"efficiency", efficiency(price)},
                                   {"goodput", goodput(price)}});
  json::Object object{{"noise_scale", noise.scale()}, {"steps", json::Array{noise.first, noise.last}}, {"batches", std::move(batches)},
                      {"present", prices[present].size}};
  if (!dimension.empty())
    object["dimension"] = dimension;
  if (int index = best(); index >= 0)
    object["best"] = prices[index].size;
  return object;
}

void BatchAdvice::print(llvm::raw_ostream &out) const {
  const BatchPrice &own = prices[present];
  out << "\nBatch size, by the noise scale of " << digits(noise.scale()) << " samples (steps " << noise.first << " to " << noise.last
      << " of " << log << ")\n";
  row(out, {{"batch", -8}, {"step ms", -10}, {"samples/s", -12}, {"efficiency", -12}, {"goodput", -12}, {"plan", 4}});
  for (const BatchPrice &price : prices)
    row(out, {{std::to_string(price.size), -8},
              {digits(price.seconds * 1e3), -10},
              {digits(price.samples / price.seconds), -12},
              {percent(efficiency(price)), -12},
              {digits(goodput(price)), -12},
              {price.fits ? price.plan : "no plan fits", 4}});
  const int index = best();
  if (dimension.empty())
    out << "no flag sets the batch of this model: other sizes are not searched (export it with a symbolic dimension)\n";
  else if (index >= 0 && index != static_cast<int>(present))
    out << "best goodput: --dim " << dimension << "=" << prices[index].size << ", " << digits(goodput(prices[index]) / goodput(own)) << " times that of "
        << own.size << "\n";
  else if (index >= 0)
    out << "best goodput: the present batch of " << own.size << "\n";
}
