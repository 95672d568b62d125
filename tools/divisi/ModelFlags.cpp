#include "divisi/ModelFlags.h"

#include "passes/Training/ParameterGroups.h"

using namespace divisi;
using namespace divisi::tools;

void ModelFlags::addTo(CLI::App &command) {
  command.add_option("model", input, "an ONNX file, or a dump (.mlir) of any level")->required();

  auto *model = ofModel = command.add_option_group("Model");
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

  auto *training = ofTraining = command.add_option_group("Training");
  std::vector<std::string> optimizers;
  for (const auto &kind : training::optimizerKinds())
    optimizers.push_back(kind.name.str());
  training->add_option("--optimizer", train.optimizer, training::optimizerNames() + "; sgd without this flag")
      ->check(CLI::IsMember(optimizers));
  training->add_option("--lr", defaults.lr, "learning rate (0.01); the program's --lr overrides it");
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
      ->check(CLI::IsMember(compiler::RunDefaults::schedules().vec()));
  training->add_option("--warmup-steps", defaults.warmupSteps, "steps in which the learning rate grows to --lr");

  training
      ->add_flag("!--no-fused-attention", train.fusedAttention,
                 "in bf16, and in fp16 on GPUs, attention as matmuls and a softmax, with its scores in memory");
  training
      ->add_option("--precision", train.precision,
                   "fp32 (default); bf16 or fp16: matmuls and convolutions in 16 bits with sums in fp32, and loss scaling for fp16 (faster on GPUs, "
                   "bf16 also on CPUs with AVX512-BF16 or AMX); "
                   "tf32: matmuls and convolutions in TF32 on GPUs")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
}
