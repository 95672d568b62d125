// The environment variables of launchers for the addresses of ranks: one value a line.
#include "runtime/comm/tcp/Rendezvous.h"
#include "test/fuzz/parsers/Input.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"RANK",     "WORLD_SIZE",           "MASTER_ADDR",
                                      "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
                                      "PMI_RANK"};
  std::string_view rest = fuzz::text(data, size);
  for (const char *name : names) {
    size_t end = rest.find('\n');
    std::string value(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (value.empty() || value.find('\0') != std::string::npos)
      ::unsetenv(name);
    else
      ::setenv(name, value.c_str(), 1);
  }
  auto where = runtime::Rendezvous::fromEnvironment();
  if (where.ok() && *where && ((*where)->rank < 0 || (*where)->rank >= (*where)->size))
    std::abort(); // accepted, although invalid
  return 0;
}
