// The stages that `divisi plan --objective pipedream --json` prints, as `--stages` reads them.
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Pipeline/StageFile.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>
#include <numeric>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto found = planning::FoundStages::parse(fuzz::text(data, size), "stages.json");
  if (!found) {
    std::string said = llvm::toString(found.takeError());
    if (said.empty() || said.find('\n') != said.npos)
      std::abort(); // an error is one line
    return 0;
  }
  int64_t devices = std::accumulate(found->replicas.begin(), found->replicas.end(), int64_t(0));
  if (found->first.empty() || found->first.size() != found->replicas.size() || devices > planning::Cluster::mostDevices)
    std::abort(); // accepted, although invalid
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return seed % 2 ? fuzz::mutateJson(data, size, most, seed / 2) : fuzz::mutateTokens(data, size, most, seed);
}
