// Of ModelFlags: what the flags say together.
#include "divisi/ModelFlags.h"

#include "passes/Training/ParameterGroups.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <set>

using namespace divisi;
using namespace divisi::tools;
using compiler::ImportOptions;
using llvm::StringRef;

std::string tools::usersOf(StringRef name) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const auto &kind : training::optimizerKinds())
    for (const auto &constant : kind.constants)
      if (constant.name == name) {
        out << (text.empty() ? "" : ", ") << kind.name;
        if (constant.number)
          out << llvm::format(" (%g)", constant.initial);
      }
  return text;
}

/// Parses NAME=N pairs.
static std::string parseDims(const std::vector<std::string> &texts, std::map<std::string, int64_t> &dims) {
  for (const std::string &text : texts) {
    auto [name, value] = StringRef(text).split('=');
    int64_t size;
    if (name.empty() || value.getAsInteger(10, size) || size < 1)
      return "--dim expects NAME=N with a positive N, got '" + text + "'";
    if (auto [known, fresh] = dims.try_emplace(name.str(), size); !fresh && known->second != size)
      return "--dim " + name.str() + " is given twice, as " + std::to_string(known->second) + " and " + value.str();
  }
  return "";
}

static bool isAmount(double number) { return std::isfinite(number) && number >= 0; }

/// Sets the optimizer's constants that are not given, and checks those that are.
std::string ModelFlags::finishConstants() {
  std::set<std::string> used;
  for (const auto &constant : training::findOptimizer(train.optimizer)->constants) {
    used.insert(constant.name.str());
    if (!constant.number)
      continue;
    double &number = train.*constant.number;
    if (auto flag = constants.find(constant.name.str()); flag != constants.end() && flag->second->empty())
      number = constant.initial;
  }
  if (std::string wrong = training::wrongConstant(train); !wrong.empty())
    return "--" + wrong;
  if (!train.byAdamw.empty() && train.optimizer != "muon")
    return "--adamw needs --optimizer muon";
  if (!(train.ema >= 0 && train.ema < 1))
    return "--ema expects a number from 0 to below 1";
  if (train.nesterov && (train.momentum == 0 || train.optimizer != "sgd"))
    return "--nesterov needs --optimizer sgd and --momentum";
  import.optimizerIsGiven = llvm::is_contained(trainFlags, "--optimizer") || llvm::is_contained(trainFlags, "--weight-decay") ||
                            llvm::any_of(constants, [](const auto &constant) { return !constant.second->empty(); });
  for (const auto &[name, flag] : constants)
    if (!flag->empty() && !used.count(name))
      return "--" + name + " is no constant of --optimizer " + train.optimizer + ", but of: " + usersOf(name);
  return "";
}

/// Checks the other numbers of the training step and of the program.
static std::string checkNumbers(const compiler::TrainOptions &train, const compiler::RunDefaults &defaults) {
  for (auto [flag, number] : {std::pair{"--lr", defaults.lr.value_or(0)}, {"--clip-norm", train.clipNorm}})
    if (!isAmount(number))
      return std::string(flag) + " expects a finite number that is not negative";
  if (int64_t steps = defaults.warmupSteps.value_or(0); steps < 0 || steps > 1000000000000)
    return "--warmup-steps expects a number from 0 to 1e12";
  for (const std::string &text : train.lrFactors)
    if (auto parsed = training::LrFactor::parse(text); !parsed)
      return llvm::toString(parsed.takeError());
  bool hasRatio = train.optimizer == "lamb" || train.optimizer == "lars";
  if (!train.noDecay.empty() && train.weightDecay == 0 && !hasRatio)
    return "--no-decay needs --weight-decay";
  return "";
}

std::string ModelFlags::finishMetrics() {
  for (llvm::StringRef name : metrics) {
    int64_t k = 0;
    if (name == "mae") {
      if (!isDump() && loss != "mse" && loss != "huber" && loss != "l1")
        return "--metric mae needs --loss mse, huber or l1";
    } else if (llvm::StringRef digits = name; !llvm::is_contained({"perplexity", "f1", "iou", "auc"}, name) && (!digits.consume_front("top") || digits.starts_with("0") ||
                                                                        digits.getAsInteger(10, k) || k < 1)) {
      return "--metric expects topK (such as top5), perplexity, f1, iou, auc or mae, got '" + name.str() + "'";
    }
    if (!llvm::is_contained(train.metrics, name))
      train.metrics.push_back(name.str());
  }
  std::vector<std::string> outputs;
  for (const std::string &name : train.predictions)
    if (!llvm::is_contained(outputs, name))
      outputs.push_back(name);
  train.predictions = std::move(outputs);
  train.output = import.output;
  train.label = import.label;
  // The loss is then not what the perplexity is made of.
  if ((import.labelSmoothing > 0 || import.zLoss > 0) && !llvm::is_contained(train.metrics, "perplexity"))
    train.metrics.push_back("perplexity");
  return "";
}

/// Lists the flags that a dump cannot follow, or only one that is no training step yet.
void ModelFlags::listFlags() {
  auto given = [](CLI::App *group, llvm::function_ref<bool(llvm::StringRef)> counts) {
    std::vector<std::string> names;
    for (const CLI::Option *option : group->get_options())
      if (option->count() > 0 && counts(option->get_lnames()[0]))
        names.push_back("--" + option->get_lnames()[0]);
    return names;
  };
  auto ofStep = [](llvm::StringRef name) { return llvm::is_contained({"output", "label", "metric", "predict"}, name); };
  importFlags = given(ofModel, [&](llvm::StringRef name) { return !ofStep(name); });
  trainFlags = given(ofModel, ofStep);
  llvm::append_range(trainFlags, given(ofTraining, [](llvm::StringRef name) {
                       return name != "lr" && name != "lr-schedule" && name != "warmup-steps"; // of the program
                     }));
}

std::string ModelFlags::finish() {
  listFlags();
  if (std::string wrong = parseDims(dims, import.dims); !wrong.empty())
    return wrong;
  if (std::string wrong = finishConstants(); !wrong.empty())
    return wrong;
  if (std::string wrong = checkNumbers(train, defaults); !wrong.empty())
    return wrong;
  if (loss == "triplet" && !import.label.empty())
    return "--loss triplet compares parts of the output with each other: leave out --label";
  if (!loss.empty() && loss != "triplet" && import.label.empty())
    return "--loss needs --label NAME, the name of the input that it compares with";
  if (!loss.empty())
    import.loss = compiler::parseLoss(loss);
  if (import.classAxis && loss != "cross_entropy" && loss != "nll")
    return "--class-axis is for --loss cross_entropy and nll";
  if (import.labelSmoothing != 0 && loss != "cross_entropy")
    return "--label-smoothing is for --loss cross_entropy";
  if (import.zLoss != 0 && loss != "cross_entropy")
    return "--z-loss is for --loss cross_entropy";
  if (!isAmount(import.zLoss))
    return "--z-loss expects a finite number that is not negative";
  if (!(import.labelSmoothing >= 0 && import.labelSmoothing <= 1))
    return "--label-smoothing expects a number from 0 to 1";
  if (std::string wrong = finishMetrics(); !wrong.empty())
    return wrong;
  import.batchNormTraining = batchNorm == "training";
  return "";
}
