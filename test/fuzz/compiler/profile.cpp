// Measured times: the database, and what a program's --profile writes.
#include "compiler/Profile/Database.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto check = [](llvm::Error error) {
    if (!error)
      return;
    if (std::string said = llvm::toString(std::move(error)); said.empty())
      std::abort();
  };
  std::string file = fuzz::fileOf(fuzz::text(data, size));
  auto database = compiler::ProfileDatabase::read(file);
  if (!database)
    check(database.takeError());
  else
    for (compiler::RunSetting setting : database->settings())
      (void)database->microseconds(setting, compiler::feedKey(64));
  compiler::ProfileDatabase fresh;
  check(fresh.fold(file));
  check(fresh.fold(file));
  if (!fresh.empty()) {
    std::string out = fuzz::temporary() + "/profile.json";
    check(fresh.write(out));
    if (!compiler::ProfileDatabase::read(out))
      std::abort(); // what was written is refused
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return seed % 2 ? fuzz::mutateJson(data, size, most, seed / 2) : fuzz::mutateTokens(data, size, most, seed);
}
