#include "divisi/ModelFlags.h"

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
  training->add_option("--clip-norm", train.clipNorm, "largest global norm of the gradients");
  training->add_option("--lr-schedule", defaults.schedule, "constant, linear, cosine or step")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "step"}));
  training->add_option("--warmup-steps", defaults.warmupSteps, "steps in which the learning rate grows to --lr");

  training
      ->add_option("--precision", train.precision,
                   "fp32 (default); bf16 or fp16: products of 16 bits, sums in fp32, with loss scaling for fp16; "
                       "tf32: products of TF32 on GPUs")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
}

/// NAME=N pairs.
static std::string parseDims(const std::vector<std::string> &texts, std::map<std::string, int64_t> &dims) {
  for (const std::string &text : texts) {
    auto [name, value] = StringRef(text).split('=');
    int64_t size;
    if (name.empty() || value.getAsInteger(10, size) || size < 1)
      return "--dim expects NAME=N with a positive N, got '" + text + "'";
    dims[name.str()] = size;
  }
  return "";
}

std::string ModelFlags::finish() {
  static const std::map<std::string, ImportOptions::Loss> losses = {
      {"cross_entropy", ImportOptions::Loss::crossEntropy},
      {"mse", ImportOptions::Loss::mse},
      {"bce", ImportOptions::Loss::bce}};
  if (std::string wrong = parseDims(dims, import.dims); !wrong.empty())
    return wrong;
  if (!loss.empty() && import.label.empty())
    return "--loss needs --label NAME, the name of the input that it compares with";
  if (!loss.empty())
    import.loss = losses.at(loss);
  import.batchNormTraining = batchNorm == "training";
  return "";
}
