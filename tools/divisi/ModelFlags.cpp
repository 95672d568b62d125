#include "divisi/ModelFlags.h"

#include <cmath>

using namespace divisi;
using namespace divisi::tools;
using compiler::ImportOptions;
using llvm::StringRef;

void ModelFlags::addTo(CLI::App &command) {
  command.add_option("model", input, "an ONNX file, or a dump (.mlir) of any level")->required();

  auto *model = command.add_option_group("Model");
  model->add_option("--loss", loss, "put a loss on an output: cross_entropy, mse or bce (logits)")
      ->check(CLI::IsMember({"cross_entropy", "mse", "bce"}));
  model->add_option("--output", import.output, "the output that is the loss, or that --loss is put on");
  model->add_option("--label", import.label, "name of the input that --loss compares with");
  model->add_option("--dim", dims, "size of a symbolic dimension: NAME=N (repeatable)");
  model->add_option("--freeze", import.freeze, "parameters that do not train: a pattern with * and ?");
  model->add_option("--train", import.train,
                    "tensors that train, whatever the file says: a pattern with * and ? (see --list-parameters)");
  model->add_option("--batch-norm", batchNorm, "batch norm exported for inference: training (default) or inference")
      ->check(CLI::IsMember({"training", "inference"}));

  auto *training = command.add_option_group("Training");
  training->add_option("--optimizer", train.optimizer, "sgd (default), adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  training->add_option("--lr", defaults.lr, "learning rate; the program's --lr overrides it")->capture_default_str();
  training->add_option("--momentum", train.momentum, "momentum of sgd");
  training->add_flag("--nesterov", train.nesterov, "Nesterov's momentum");
  training->add_option("--beta1", train.beta1, "decay of adam's first moment")->capture_default_str();
  training->add_option("--beta2", train.beta2, "decay of adam's second moment")->capture_default_str();
  training->add_option("--eps", train.eps, "added to adam's denominator")->capture_default_str();
  training->add_option("--weight-decay", train.weightDecay, "L2 for sgd and adam, decoupled for adamw");
  training->add_option("--clip-norm", train.clipNorm, "largest global norm of the gradients; 0: any");
  training->add_option("--lr-schedule", defaults.schedule, "constant, linear, cosine or step")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "step"}));
  training->add_option("--warmup-steps", defaults.warmupSteps, "steps in which the learning rate grows to --lr");

  training
      ->add_flag("!--no-fused-attention", train.fusedAttention,
                 "on GPUs in 16 bits, attention as products and a softmax, with its scores in memory");
  training
      ->add_option("--precision", train.precision,
                   "fp32 (default); bf16 or fp16: products of 16 bits, sums in fp32, with loss scaling for fp16; "
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

/// Checks the optimizer's numbers by PyTorch's rules.
static std::string checkNumbers(const compiler::TrainOptions &train, const compiler::RunDefaults &defaults) {
  auto isAmount = [](double number) { return std::isfinite(number) && number >= 0; };
  struct Number {
    const char *flag;
    double value;
  };
  for (Number number : {Number{"--lr", defaults.lr},
                        {"--momentum", train.momentum},
                        {"--eps", train.eps},
                        {"--weight-decay", train.weightDecay},
                        {"--clip-norm", train.clipNorm}})
    if (!isAmount(number.value))
      return std::string(number.flag) + " expects a finite number that is not negative";
  for (Number number : {Number{"--beta1", train.beta1}, {"--beta2", train.beta2}})
    if (!isAmount(number.value) || number.value >= 1)
      return std::string(number.flag) + " expects a number from 0 to below 1";
  if (train.nesterov && (train.momentum == 0 || train.optimizer != "sgd"))
    return "--nesterov needs --optimizer sgd and --momentum";
  if (defaults.warmupSteps < 0)
    return "--warmup-steps expects a number that is not negative";
  return "";
}

std::string ModelFlags::finish() {
  static const std::map<std::string, ImportOptions::Loss> losses = {
      {"cross_entropy", ImportOptions::Loss::crossEntropy},
      {"mse", ImportOptions::Loss::mse},
      {"bce", ImportOptions::Loss::bce}};
  if (std::string wrong = parseDims(dims, import.dims); !wrong.empty())
    return wrong;
  if (std::string wrong = checkNumbers(train, defaults); !wrong.empty())
    return wrong;
  if (!loss.empty() && import.label.empty())
    return "--loss needs --label NAME, the name of the input that it compares with";
  if (!loss.empty())
    import.loss = losses.at(loss);
  import.batchNormTraining = batchNorm == "training";
  return "";
}
