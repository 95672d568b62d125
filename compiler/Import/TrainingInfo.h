#pragma once
#include "compiler/Import/Import.h"
#include "compiler/Import/Tensors.h"
#include "passes/Training/OptimizerSettings.h"

#include <set>

namespace divisi::compiler {

/// What the training_info of a file says about training (ONNX's TrainingInfoProto): its algorithm is a graph with a Gradient
/// node and the updates x - r * gradient, or nodes of the optimizers Adagrad, Adam and Momentum.
struct TrainingInfo {
  /// Optimizer state of an initializer, as training::Optimizer names it, and the initializer that has its value.
  struct State {
    std::string of, moment, name;
  };
  /// How the initializers are updated; empty if flags name the optimizer.
  struct Optimizer {
    std::optional<training::OptimizerSettings> settings;
    std::optional<double> learningRate;
    bool rateIsInput = false, countIsInput = false; // of the algorithm: --lr gives the former, a program counts from 0
    std::vector<State> states;
    std::string count; // the initializer that counts updates; empty if there is none
  };

  std::string loss;              // the value whose gradients are taken
  std::set<std::string> updated; // initializers that train
  std::set<std::string> statistics; // running statistics of batch norm that are renewed

  Optimizer optimizer;

  std::map<std::string, InitialValue> initials; // by initializer: what its initialization does
  std::vector<std::string> computed;            // initializers that the initialization computes in other ways

  /// Numbers of the graph's entries before those that the loss needs were copied to it from the algorithm.
  int inputs = 0, initializers = 0, nodes = 0, outputs = 0;
};

/// Reads the training_info of a model; null if it has none that trains. Copies to the model's graph what the loss needs of
/// the algorithm. Throws ImportError for an algorithm that is of another kind.
std::optional<TrainingInfo> readTrainingInfo(onnx::ModelProto &model, TensorReader &reader, bool optimizerIsGiven);

} // namespace divisi::compiler
