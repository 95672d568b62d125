#pragma once
#include "codegen/Emit/Program.h"
#include "compiler/Import/Import.h"
#include "compiler/Link.h"
#include "compiler/Manifest.h"

#include <map>

namespace divisi::compiler {

/// What `divisi compile` writes: a program, or one for each of several numbers of devices, which are linked together
/// and can go on from each other's checkpoints.
class Executable {
public:
  /// `numbers` of devices, ascending; at most one: a single program for what the other flags say.
  Executable(std::string output, std::vector<int64_t> numbers)
      : output(std::move(output)), numbers(std::move(numbers)) {}
  ~Executable();

  bool hasSeveral() const { return numbers.size() > 1; }
  bool isFirst() const { return added == 0; }
  /// The beginning of messages about the program that is compiled now: "with --devices 3: ", or "".
  std::string about() const;
  /// The name of the symbol of the program after the one that is compiled now; empty for the last.
  std::string next() const;
  /// The file of weights, which all programs share: written for the first. It takes its place when the executable is linked.
  llvm::Expected<WeightsReference> weights(llvm::ArrayRef<Weight> values);
  /// Checks that the program in the module uses all of its devices and computes what the first one does.
  llvm::Error check(mlir::ModuleOp module, int64_t devices);
  /// Compiles the module, at the level llvm; `manyRanks`: it needs the library for communication.
  llvm::Error add(mlir::ModuleOp module, const codegen::CpuTarget &target, bool manyRanks);
  llvm::Error link(const std::string &libraryFolder) const;

private:
  /// Fixed, so that the program does not depend on the machine on which it is compiled.
  static constexpr unsigned threads = 2;

  std::string suffix(size_t number) const;
  std::string weightsFile() const { return output + ".safetensors"; }
  std::string partial() const { return weightsFile() + ".partial"; }

  std::string output;
  std::vector<int64_t> numbers;
  size_t added = 0;
  std::optional<WeightsReference> written;
  std::map<std::string, std::string> meaning; // of the first program
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> objects;
  LinkOptions libraries;
};

} // namespace divisi::compiler
