#include "runtime/main/RunProgram.h"
#include "runtime/core/MappedFile.h"
#include "runtime/main/Describe.h"
#include "runtime/main/Trainer.h"

#include <iostream>

using namespace divisi::runtime;

namespace {
Result<int> run(const DivisiProgram &program, int argc, const char *const *argv) {
  Result<Manifest> manifest = parseManifest(program);
  if (!manifest.ok())
    return manifest.status();
  Result<std::optional<Options>> options = parseOptions(*manifest, argc, argv);
  if (!options.ok())
    return options.status();
  if (!*options)
    return 0;
  if ((*options)->info || (*options)->describe) {
    if ((*options)->describe)
      std::cout << describeJson(*manifest, program.arena_bytes) << std::endl;
    else
      std::cout << describeText(*manifest, program.arena_bytes) << std::flush;
    return 0;
  }
  return Trainer(program, std::move(*manifest), std::move(**options)).run();
}
} // namespace

int divisi::runtime::runProgram(const DivisiProgram &program, int argc, const char *const *argv) {
  explainBusErrors();
  Status status;
  try {
    Result<int> code = run(program, argc, argv);
    if (code.ok())
      return *code;
    status = code.status();
  } catch (const std::bad_alloc &) {
    status = Status::failure("out of memory");
  } catch (const std::exception &e) {
    status = Status::failure(e.what());
  }
  std::cout.flush();
  std::cerr << "error: " << status.message() << std::endl;
  return status.exitCode();
}
