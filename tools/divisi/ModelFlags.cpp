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

/// "rmsprop (0.99), ...": the optimizers that use a constant, with its numbers unless the flag is given.
static std::string usersOf(StringRef name) {
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

void ModelFlags::addTo(CLI::App &command) {
  command.add_option("model", input, "an ONNX file, or a dump (.mlir) of any level")->required();

  auto *model = command.add_option_group("Model");
  model->add_option("--loss", loss,
                    "put a loss on an output: cross_entropy, bce or focal (of logits), mse, huber, l1, nll or kl (of "
                    "log-probabilities), triplet")
      ->check(CLI::IsMember(compiler::lossNames()));
  model->add_option("--output", import.output, "the output that is the loss, or that --loss is put on");
  model->add_option("--label", import.label, "name of the input that --loss compares with");
  model->add_option("--class-axis", import.classAxis, "axis of the classes: cross_entropy, nll (1; -1 is the last)");
  model->add_option("--label-smoothing", import.labelSmoothing,
                    "share of each label that goes to all classes: cross_entropy (0)");
  model->add_option("--z-loss", import.zLoss,
                    "factor of the squared logarithm of the softmax's denominator, added to the loss: cross_entropy (0)");
  model->add_option("--metric", metrics,
                    "also measured in evaluations: topK (such as top5), perplexity, f1, iou or auc of classes, mae (repeatable)");
  model->add_option("--predict", train.predictions,
                    "an output of the model that the program's --predict writes for data (repeatable)");
  model->add_option("--dim", dims, "size of a symbolic dimension: NAME=N (repeatable)");
  model->add_option("--freeze", import.freeze, "parameters that do not train: a pattern with * and ?");
  model->add_option("--train", import.train,
                    "tensors that train, whatever the file says: a pattern with * and ? (see --list-parameters)");
  model->add_option("--batch-norm", batchNorm, "batch norm exported for inference: training (default) or inference")
      ->check(CLI::IsMember({"training", "inference"}));

  auto *training = command.add_option_group("Training");
  std::vector<std::string> optimizers;
  for (const auto &kind : training::optimizerKinds())
    optimizers.push_back(kind.name.str());
  training->add_option("--optimizer", train.optimizer, training::optimizerNames() + "; sgd without this flag")
      ->check(CLI::IsMember(optimizers));
  training->add_option("--lr", defaults.lr, "learning rate; the program's --lr overrides it")->capture_default_str();
  auto add = [&](const char *flag, double &number, const std::string &text) {
    constants[flag] = training->add_option("--" + std::string(flag), number, text + ": " + usersOf(flag));
  };
  auto addSwitch = [&](const char *flag, bool &isOn, const std::string &text) {
    constants[flag] = training->add_flag("--" + std::string(flag), isOn, text + ": " + usersOf(flag));
  };
  add("momentum", train.momentum, "momentum");
  addSwitch("nesterov", train.nesterov, "Nesterov's momentum");
  add("alpha", train.alpha, "decay of the moving averages");
  addSwitch("centered", train.centered, "divide by the estimated standard deviation of the gradient");
  add("beta1", train.beta1, "decay of the first moment");
  add("beta2", train.beta2, "decay of the second moment");
  add("eps", train.eps, "added to the denominator");
  add("trust-coefficient", train.trustCoefficient, "factor of the trust ratio");
  add("beta2-decay", train.beta2Decay, "X: the squares of step t have the weight t^-X");
  addSwitch("match-rms", train.matchRms, "changes as large as those of adamw, so that its learning rates fit");
  training->add_option("--adamw", train.byAdamw,
                       "with muon: parameters that adamw updates, as it does all that are no matrices (embeddings, the last layer): a "
                       "pattern with * and ?");
  training->add_option("--weight-decay", train.weightDecay, "decoupled for adamw, lion, lamb, adafactor and muon, else L2");
  training->add_option("--ema", train.ema,
                       "keep an exponential moving average of the weights, of which this share stays in each step (0.999); the program's "
                       "--ema evaluates and saves it");
  training->add_option("--no-decay", train.noDecay,
                       "parameters without weight decay and, with lamb and lars, without trust ratio: a pattern with * "
                       "and ?");
  training->add_option("--lr-factor", train.lrFactors,
                       "PATTERN=FACTOR: a factor of the learning rate for the parameters that a pattern with * and ? "
                       "names");
  training->add_option("--clip-norm", train.clipNorm, "largest global norm of the gradients; 0: any");
  training->add_flag("--log-noise-scale", train.noiseScale,
                     "the program logs the noise scale of the gradients, for which it compares those of replicas (mesh axis data) or of "
                     "microbatches with that of the batch");
  training->add_option("--lr-schedule", defaults.schedule, "constant, linear, cosine, step, polynomial, one-cycle or wsd; the program's flags have more")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "step", "polynomial", "one-cycle", "wsd"}));
  training->add_option("--warmup-steps", defaults.warmupSteps, "steps in which the learning rate grows to --lr");

  training
      ->add_flag("!--no-fused-attention", train.fusedAttention,
                 "on GPUs in 16 bits, attention as products and a softmax, with its scores in memory");
  training
      ->add_option("--precision", train.precision,
                   "fp32 (default); bf16 or fp16: products of 16 bits, sums in fp32, with loss scaling for fp16 (faster on GPUs, "
                   "bf16 also on CPUs with AVX512-BF16 or AMX); "
                   "tf32: products of TF32 on GPUs")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
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
    if (!isAmount(number))
      return "--" + constant.name.str() + " expects a finite number that is not negative";
    if (constant.isBelowOne && number >= 1)
      return "--" + constant.name.str() + " expects a number from 0 to below 1";
  }
  if (!train.byAdamw.empty() && train.optimizer != "muon")
    return "--adamw needs --optimizer muon";
  if (!(train.ema >= 0 && train.ema < 1))
    return "--ema expects a number from 0 to below 1";
  if (train.nesterov && (train.momentum == 0 || train.optimizer != "sgd"))
    return "--nesterov needs --optimizer sgd and --momentum";
  for (const auto &[name, flag] : constants)
    if (!flag->empty() && !used.count(name))
      return "--" + name + " is no constant of --optimizer " + train.optimizer + ", but of: " + usersOf(name);
  return "";
}

/// Checks the other numbers of the training step and of the program.
static std::string checkNumbers(const compiler::TrainOptions &train, const compiler::RunDefaults &defaults) {
  for (auto [flag, number] : {std::pair{"--lr", defaults.lr}, {"--clip-norm", train.clipNorm}})
    if (!isAmount(number))
      return std::string(flag) + " expects a finite number that is not negative";
  if (defaults.warmupSteps < 0)
    return "--warmup-steps expects a number that is not negative";
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
      if (loss != "mse" && loss != "huber" && loss != "l1")
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

std::string ModelFlags::finish() {
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
