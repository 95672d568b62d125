#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace divisi::training {

/// The optimizer and its constants, with PyTorch's names. Each optimizer uses those that its kind lists.
struct OptimizerSettings {
  std::string optimizer = "sgd";
  double momentum = 0, alpha = 0.99, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, trustCoefficient = 1e-3, weightDecay = 0,
         beta2Decay = 0.8;
  bool nesterov = false, centered = false, matchRms = false;
  // Of the optimizers of ONNX, with ONNX's names: beta of Momentum, decay_factor of Adagrad, norm_coefficient_post of Adam.
  double gradientFactor = 1, decayFactor = 0, decayPost = 0;
  bool countsThis = false; // the number of updates that these optimizers get counts the present one, too
};

/// A constant that an optimizer uses: a number or a switch.
struct OptimizerConstant {
  llvm::StringLiteral name; // its flag's name, without dashes
  double OptimizerSettings::*number = nullptr;
  bool OptimizerSettings::*isOn = nullptr; // of a switch
  double initial = 0;                      // the number without the flag
  bool isBelowOne = false;                 // what a moving average keeps in each step
};

struct OptimizerKind {
  llvm::StringLiteral name;
  llvm::ArrayRef<OptimizerConstant> constants; // in the order in which a program's meaning names them
};

/// All optimizers that flags name, sgd first.
llvm::ArrayRef<OptimizerKind> optimizerKinds();
/// Null if there is no optimizer of that name. The optimizers of ONNX files (ai.onnx.preview.training) are found, too:
/// onnx-momentum, onnx-adagrad, onnx-adam.
const OptimizerKind *findOptimizer(llvm::StringRef name);
/// What is wrong with the numbers of the settings' optimizer, as the name of the constant and what it must be; "" if nothing is.
std::string wrongConstant(const OptimizerSettings &settings);
/// "sgd, adam or adamw", of all names.
std::string optimizerNames();

} // namespace divisi::training
