// Descriptions of clusters, in TOML.
#include "passes/Planning/Cost/Cluster.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto cluster = planning::parseClusterFile(fuzz::text(data, size), "cluster.toml");
  std::string said = cluster ? cluster->name : llvm::toString(cluster.takeError());
  if (said.empty() || said.find('\n') != said.npos)
    std::abort(); // an error is one line
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return fuzz::mutateTokens(data, size, most, seed);
}
