// ONNX models with their external data, which is a file `data` of 256 bytes beside them. What is accepted is a module that verifies.
#include "compiler/Import/Import.h"
#include "test/fuzz/compiler/Dumps.h"
#include "test/fuzz/compiler/Messages.h"

#include "mlir/IR/Verifier.h"

#include <cstdlib>

using namespace divisi;

static compiler::ImportOptions optionsOf(std::string_view model) {
  compiler::ImportOptions options;
  size_t choice = std::hash<std::string_view>()(model);
  if (model.find("\x12\x01N") != model.npos) // a dimension of this name; without one the option is refused
    options.dims = {{"N", 2}};
  options.forwardOnly = choice % 4 == 1;
  options.weightsOptional = choice % 4 == 2;
  if (choice % 4 == 3) {
    options.loss = static_cast<compiler::ImportOptions::Loss>(choice / 4 % 4);
    options.label = "label";
    options.accumulate = options.dims.empty() ? 1 : 2;
    options.batchNormTraining = choice % 8 == 3;
  }
  return options;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool once = (fuzz::write(fuzz::temporary() + "/data", std::string(256, '\1')), true);
  (void)once;
  std::string path = fuzz::temporary() + "/model.onnx";
  fuzz::write(path, fuzz::text(data, size));
  auto options = optionsOf(fuzz::text(data, size));
  mlir::MLIRContext &context = fuzz::context();
  {
    fuzz::Heard heard(context);
    heard.expectError(failed(compiler::listParameters(context, path, options)));
  }
  fuzz::Heard heard(context);
  auto model = compiler::importOnnx(context, path, options);
  heard.expectError(failed(model));
  if (failed(model))
    return 0;
  for (const compiler::Weight &weight : model->weights)
    fuzz::use(weight.bytes.data(), weight.bytes.size());
  if (failed(mlir::verify(*model->module))) {
    model->module->dump();
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  static const std::vector<std::string> operators = compiler::supportedOperators();
  return fuzz::mutateModel(data, size, most, seed, operators);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2, uint8_t *out,
                                            size_t most, unsigned seed) {
  return fuzz::crossModels(fuzz::text(data1, size1), fuzz::text(data2, size2), out, most, seed);
}
