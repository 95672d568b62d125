// The environment variables of launchers, delays and the secret: one value a line. The last one is what the secret's
// file contains.
#include "runtime/comm/LocalRank.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/main/Delay.h"
#include "test/fuzz/parsers/Input.h"

#include <cstdlib>

using namespace divisi;

namespace {
const char *const names[] = {"RANK",
                             "WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "PMI_RANK",
                             "LOCAL_RANK",
                             "DIVISI_LISTENER",
                             "LOCAL_WORLD_SIZE",
                             "DIVISI_DELAYS",
                             "DIVISI_SECRET"};

/// Sets the variables, and returns what is behind them.
std::string_view set(std::string_view rest) {
  for (const char *name : names) {
    size_t end = rest.find('\n');
    std::string value(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (value.empty() || value.find('\0') != std::string::npos)
      ::unsetenv(name);
    else
      ::setenv(name, value.c_str(), 1);
  }
  return rest;
}

/// Whether a variable is this number, also for the C library.
bool is(const char *name, int number) { return std::strtold(std::getenv(name), nullptr) == number; }

void expect(bool good) {
  if (!good)
    std::abort(); // accepted, although invalid
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view contents = set(fuzz::text(data, size));
  if (auto where = runtime::Rendezvous::fromEnvironment(); where.ok() && *where) {
    const runtime::Rendezvous &found = **where;
    expect(found.rank >= 0 && found.rank < found.size && is("RANK", found.rank) && is("WORLD_SIZE", found.size));
    expect(found.port > 0 && found.port < 65536);
  }
  if (auto rank = runtime::localRankOfLauncher(); rank.ok() && *rank)
    expect(is("LOCAL_RANK", **rank));
  if (auto delay = runtime::Delay::ofRank(1); delay.ok())
    expect(delay->from >= 0 && delay->to >= delay->from);
  if (!contents.empty())
    ::setenv("DIVISI_SECRET_FILE", fuzz::fileOf(contents).c_str(), 1);
  if (!contents.empty() || std::getenv("DIVISI_SECRET")) // (else the user's own would be made)
    if (auto secret = runtime::Secret::ofJob(); secret.ok())
      expect(secret->text.size() >= 16 && secret->text.find('\n') == secret->text.npos);
  ::unsetenv("DIVISI_SECRET_FILE");
  return 0;
}
