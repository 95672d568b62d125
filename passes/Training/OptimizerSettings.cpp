#include "passes/Training/OptimizerSettings.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace divisi::training;
using llvm::StringRef;
using Settings = OptimizerSettings;
using Constant = OptimizerConstant;

static constexpr Constant weightDecay{"weight-decay", &Settings::weightDecay};
static constexpr Constant momentum{"momentum", &Settings::momentum};
static constexpr Constant beta1{"beta1", &Settings::beta1, nullptr, 0.9, true};
static constexpr Constant beta2{"beta2", &Settings::beta2, nullptr, 0.999, true};
static constexpr Constant eps{"eps", &Settings::eps, nullptr, 1e-8};

static constexpr Constant ofSgd[] = {momentum, {"nesterov", nullptr, &Settings::nesterov}, weightDecay};
static constexpr Constant ofAdam[] = {beta1, beta2, eps, weightDecay};
static constexpr Constant ofAdagrad[] = {{"eps", &Settings::eps, nullptr, 1e-10}, weightDecay};
static constexpr Constant ofRmsprop[] = {{"alpha", &Settings::alpha, nullptr, 0.99, true},
                                         eps,
                                         momentum,
                                         {"centered", nullptr, &Settings::centered},
                                         weightDecay};
static constexpr Constant ofLion[] = {beta1, {"beta2", &Settings::beta2, nullptr, 0.99, true}, weightDecay};
static constexpr Constant ofLamb[] = {beta1, beta2, {"eps", &Settings::eps, nullptr, 1e-6}, weightDecay};
static constexpr Constant ofLars[] = {
    momentum, {"trust-coefficient", &Settings::trustCoefficient, nullptr, 1e-3}, eps, weightDecay};

static constexpr Constant ofAdafactor[] = {
    {"beta2-decay", &Settings::beta2Decay, nullptr, 0.8}, {"eps", &Settings::eps, nullptr, 1e-3}, weightDecay};
static constexpr Constant ofMuon[] = {{"momentum", &Settings::momentum, nullptr, 0.95, true},
                                      {"match-rms", nullptr, &Settings::matchRms},
                                      beta1,
                                      beta2,
                                      eps,
                                      weightDecay};

static constexpr OptimizerKind kinds[] = {{"sgd", ofSgd},         {"adam", ofAdam}, {"adamw", ofAdam}, {"adagrad", ofAdagrad},
                                          {"rmsprop", ofRmsprop}, {"lion", ofLion}, {"lamb", ofLamb},  {"lars", ofLars},
                                          {"adafactor", ofAdafactor}, {"muon", ofMuon}};

static constexpr Constant countsThis{"counts-this", nullptr, &Settings::countsThis};
static constexpr Constant ofOnnxMomentum[] = {
    momentum, {"gradient-factor", &Settings::gradientFactor, nullptr, 1}, {"nesterov", nullptr, &Settings::nesterov}, weightDecay, countsThis};
static constexpr Constant ofOnnxAdagrad[] = {eps, {"decay-factor", &Settings::decayFactor}, weightDecay, countsThis};
static constexpr Constant ofOnnxAdam[] = {beta1, beta2, eps, weightDecay, {"decay-post", &Settings::decayPost}, countsThis};

static constexpr OptimizerKind kindsOfFiles[] = {
    {"onnx-momentum", ofOnnxMomentum}, {"onnx-adagrad", ofOnnxAdagrad}, {"onnx-adam", ofOnnxAdam}};

llvm::ArrayRef<OptimizerKind> divisi::training::optimizerKinds() { return kinds; }

const OptimizerKind *divisi::training::findOptimizer(StringRef name) {
  for (llvm::ArrayRef<OptimizerKind> all : {llvm::ArrayRef(kinds), llvm::ArrayRef(kindsOfFiles)})
    for (const OptimizerKind &kind : all)
      if (kind.name == name)
        return &kind;
  return nullptr;
}

std::string divisi::training::wrongConstant(const OptimizerSettings &settings) {
  for (const OptimizerConstant &constant : findOptimizer(settings.optimizer)->constants) {
    if (!constant.number)
      continue;
    const double number = settings.*constant.number;
    if (!std::isfinite(number) || number < 0)
      return constant.name.str() + " expects a finite number that is not negative";
    if (constant.isBelowOne && number >= 1)
      return constant.name.str() + " expects a number from 0 to below 1";
  }
  return "";
}

std::string divisi::training::optimizerNames() {
  std::string text;
  for (const OptimizerKind &kind : kinds)
    text += (&kind == kinds ? "" : &kind == std::end(kinds) - 1 ? " or " : ", ") + kind.name.str();
  return text;
}
