#include "divisi/SyncFlags.h"

using namespace divisi;
using namespace divisi::tools;

static constexpr const char *everyFlag = "--average-every", *stateFlag = "--average-state", *overlapFlag = "--overlap-average", *outerFlag = "--outer-optimizer",
                            *rateFlag = "--outer-lr", *momentumFlag = "--outer-momentum", *topologyFlag = "--topology",
                            *serversFlag = "--servers", *stalenessFlag = "--max-staleness",
                            *asynchronousFlag = "--asynchronous";

void SyncFlags::addTo(CLI::App &command) {
  auto *group = command.add_option_group("Synchronisation of replicas");
  group
      ->add_option("--sync", mode,
                   "how the replicas along the axis data are kept in step: all-reduce (default) of the gradients in every step, local "
                   "steps after which parameters are averaged, gossip: parameters are averaged with neighbours in every step (both: other "
                   "numbers, docs/synchronisation.md), driver: as all-reduce, by messages to and from the first replica, server: as "
                   "all-reduce, by parameter servers that have a shard of the update each, or async-server: servers update by the "
                   "gradient of each replica as it comes (other numbers)")
      ->check(CLI::IsMember({"all-reduce", "local", "gossip", "driver", "server", "async-server"}));
  group->add_option(everyFlag, sync.every, "for --sync local: the number of steps from one average to the next")
      ->check(CLI::Range(1, 1'000'000));
  group->add_flag(stateFlag, sync.averageState, "for --sync local: the optimizer's state is averaged, too");
  group->add_flag(overlapFlag, sync.overlap,
                  "for --sync local: the next steps are computed during an average; their changes are added to it when it counts, after the next one");
  group
      ->add_option(outerFlag, outer,
                   "for --sync local: the parameters after an average: the mean (default), or the ones before, updated by sgd or "
                   "nesterov with their distance from the mean as gradient (DiLoCo)")
      ->check(CLI::IsMember({"mean", "sgd", "nesterov"}));
  group->add_option(rateFlag, sync.outerRate, "its learning rate (default: 1, of nesterov 0.7)");
  group->add_option(momentumFlag, sync.outerMomentum, "its momentum (default: 0, of nesterov 0.9)");
  group
      ->add_option(topologyFlag, topology,
                   "for --sync gossip: a replica's neighbours: both on a ring (default), one at distances 1, 2, 4, ... in turn "
                   "(exponential), or the one before and the one after it in turn (pairs)")
      ->check(CLI::IsMember({"ring", "exponential", "pairs"}));
  group->add_flag(asynchronousFlag, sync.asynchronous,
                  "for --sync gossip: on a ring, each averages with one neighbour at a time and does not wait for the others (AD-PSGD)");
  group
      ->add_option(serversFlag, servers,
                   "for --sync server: every replica is a server, too (colocated, default); for it and async-server (default: 1): N "
                   "devices that are servers and compute no batch; --devices counts them, --mesh does not")
      ->type_name("N|colocated");
  group
      ->add_option(stalenessFlag, staleness,
                   "for --sync async-server: the number of batches by which a replica may be ahead of the slowest one (default: none, "
                   "which is any number)")
      ->type_name("S|none");
}

std::string SyncFlags::first(const CLI::App &command) {
  for (const char *flag : {"--sync", everyFlag, stateFlag, overlapFlag, outerFlag, rateFlag, momentumFlag, topologyFlag, serversFlag, stalenessFlag, asynchronousFlag})
    if (command.count(flag))
      return flag;
  return "";
}

std::string SyncFlags::finish(const CLI::App &command) {
  const bool followsDump = ofDump && first(command).empty();
  std::string wrong = followsDump ? "" : complete(command);
  if (followsDump)
    sync = *ofDump;
  else if (wrong.empty() && ofDump && *ofDump != sync)
    return text() + " is another way than the dump's: leave it out, or edit 'dist.sync' in the dump";
  return wrong;
}

std::string SyncFlags::complete(const CLI::App &command) {
  sync.mode = *dist::Sync::parseMode(mode);
  sync.outer = *dist::Sync::parseOuter(outer);
  sync.topology = *dist::Sync::parseTopology(topology);
  if (sync.mode != dist::Sync::Mode::gossip && command.count(topologyFlag))
    return std::string(topologyFlag) + " is for --sync gossip";
  if (sync.mode != dist::Sync::Mode::gossip && command.count(asynchronousFlag))
    return std::string(asynchronousFlag) + " is for --sync gossip" + (sync.mode == dist::Sync::Mode::server ? ": servers that do not wait are --sync async-server" : "");
  const bool asynchronous = sync.mode == dist::Sync::Mode::asyncServer;
  if (sync.mode != dist::Sync::Mode::server && !asynchronous && command.count(serversFlag))
    return std::string(serversFlag) + " is for --sync server and async-server";
  if (!asynchronous && command.count(stalenessFlag))
    return std::string(stalenessFlag) + " is for --sync async-server";
  if (asynchronous && servers == "colocated")
    return "--sync async-server has servers of its own: --servers N";
  sync.servers = asynchronous ? 1 : 0;
  if (!servers.empty() && servers != "colocated" && (llvm::StringRef(servers).getAsInteger(10, sync.servers) || sync.servers < 1 || sync.servers > 1024))
    return std::string(serversFlag) + ": expected colocated or a number from 1 to 1024, got '" + servers + "'";
  int64_t most = 0;
  if (!staleness.empty() && staleness != "none") {
    if (llvm::StringRef(staleness).getAsInteger(10, most))
      return std::string(stalenessFlag) + ": expected none or a number, got '" + staleness + "'";
    sync.maxStaleness = most;
  }
  if (sync.mode != dist::Sync::Mode::local)
    for (const char *flag : {everyFlag, stateFlag, overlapFlag, outerFlag, rateFlag, momentumFlag})
      if (command.count(flag))
        return std::string(flag) + " is for --sync local";
  if (sync.mode == dist::Sync::Mode::local && !command.count(everyFlag))
    return "--sync local needs --average-every N: the number of steps after which the replicas' parameters are averaged";
  for (const char *flag : {rateFlag, momentumFlag})
    if (sync.outer == dist::Sync::Outer::mean && command.count(flag))
      return std::string(flag) + " is for --outer-optimizer sgd or nesterov";
  if (sync.outer == dist::Sync::Outer::nesterov) {
    sync.outerRate = command.count(rateFlag) ? sync.outerRate : 0.7;
    sync.outerMomentum = command.count(momentumFlag) ? sync.outerMomentum : 0.9;
  }
  return sync.invalid();
}
