#include "compiler/Executable.h"

#include "compiler/ProgramMeaning.h"
#include "compiler/WeightsFile.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

std::string Executable::about() const {
  return hasSeveral() && added < numbers.size() ? "with --devices " + std::to_string(numbers[added]) + ": " : "";
}

/// The first program has the name that the runtime knows.
std::string Executable::suffix(size_t number) const { return number == 0 ? "" : "." + std::to_string(numbers[number]); }

std::string Executable::next() const { return added + 1 < numbers.size() ? "divisi_program" + suffix(added + 1) : ""; }

llvm::Expected<WeightsReference> Executable::weights(ArrayRef<Weight> values) {
  if (!written) {
    if (llvm::Error foreign = checkReplaceable(weightsFile()))
      return foreign;
    auto reference = writeWeights(partial(), values);
    if (!reference)
      return reference.takeError();
    written = std::move(*reference);
    written->file = llvm::sys::path::filename(weightsFile()).str();
  }
  return *written;
}

llvm::Error Executable::check(ModuleOp module, int64_t devices) {
  if (!hasSeveral())
    return llvm::Error::success();
  if (devices != numbers[added])
    return llvm::createStringError("the plan has " + llvm::Twine(devices) + (devices == 1 ? " device" : " devices") +
                                   ": leave this number out, or take --strategy data");
  std::map<std::string, std::string> own;
  for (const auto &[part, text] : meaningOf(module))
    own[StringRef(part).str()] = text.getAsString().value_or("").str();
  if (isFirst())
    meaning = own;
  for (const auto &[part, text] : own)
    if (auto before = meaning.find(part); before == meaning.end() || before->second != text)
      return llvm::createStringError("the program would compute other numbers than with " + llvm::Twine(numbers[0]) +
                                     " (" + part + ": " + text +
                                     "), and could not go on from its checkpoints: compile it apart");
  return llvm::Error::success();
}

llvm::Error Executable::add(ModuleOp module, const codegen::CpuTarget &target, bool manyRanks) {
  auto code = module.lookupSymbol<LLVM::GlobalOp>("device_code");
  libraries.cuda |= code && cast<LLVM::LLVMArrayType>(code.getType()).getNumElements() > 0;
  libraries.mpi |= manyRanks;
  for (StringRef service : {"divisi_collective", "divisi_send", "divisi_receive"}) // also for a dump
    libraries.mpi |= module.lookupSymbol(service) != nullptr;
  auto own = codegen::emitObjects(module, target, threads, suffix(added));
  if (!own)
    return own.takeError();
  std::move(own->begin(), own->end(), std::back_inserter(objects));
  ++added;
  return llvm::Error::success();
}

llvm::Error Executable::link(const std::string &libraryFolder) const {
  if (llvm::Error wrong = linkProgram(objects, output, libraryFolder, libraries))
    return wrong;
  if (auto code = written ? llvm::sys::fs::rename(partial(), weightsFile()) : std::error_code())
    return llvm::createStringError("cannot write '" + weightsFile() + "': " + code.message());
  return llvm::Error::success();
}

Executable::~Executable() {
  if (written)
    llvm::sys::fs::remove(partial());
}
