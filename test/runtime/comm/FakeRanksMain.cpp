// A program for 2 x 2 ranks after linking, with the runtime's own main(); with `--stages` as first argument, one of two
// stages; with `--conformance`, the checks of communication over these ranks.
#include "runtime/comm/tcp/TcpTransport.h"
#include "runtime/main/RunProgram.h"
#include "test/runtime/comm/FakeRanks.h"
#include "test/runtime/comm/FakeStages.h"
#include "test/runtime/comm/TransferChecks.h"

#include <iostream>

using namespace divisi::runtime;
using namespace divisi::test;

static int conform() {
  Status error;
  std::unique_ptr<Transport> ranks;
  if (Result<std::optional<Rendezvous>> where = Rendezvous::fromEnvironment(); !where.ok())
    error = where.status();
  else if (!*where)
    ranks.reset(divisi_transport_create(&error));
  else if (Result<std::unique_ptr<Transport>> joined = joinByTcp(**where); joined.ok())
    ranks = std::move(*joined);
  else
    error = joined.status();
  if (!ranks) {
    std::cerr << error.message() << std::endl;
    return 1;
  }
  std::vector<std::string> mistakes = checkHosts(*ranks);
  int64_t checks = 0;
  for (const Mesh &mesh : meshesOf(ranks->size()))
    for (const auto &found : {checkCollectives(*ranks, mesh, checks), checkAllReduces(*ranks, mesh, checks, true)})
      mistakes.insert(mistakes.end(), found.begin(), found.end());
  for (const std::string &mistake : checkTransfers(*ranks))
    mistakes.push_back(mistake);
  for (size_t i = 0; i < std::min<size_t>(3, mistakes.size()); ++i)
    std::cerr << mistakes[i] << std::endl;
  return mistakes.empty() && checks > 10000 ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--conformance")
    return conform();
  if (argc > 1 && std::string_view(argv[1]) == "--stages")
    return runProgram(FakeStages<2, 2>::program(), argc - 1, argv + 1);
  return runProgram(FakeRanks<2, 2>::program(), argc, argv);
}
