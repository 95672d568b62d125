#include "passes/Planning/Simulator/ServedReplicas.h"

using namespace divisi::planning::pipeline;

//===- synchronous --------------------------------------------------------===//

Served::Served(const ReplicaOptions &options)
    : ReplicaRun(options), servers(options.isColocated() ? options.workers : options.dedicatedServers()), here(servers),
      fetched(options.workers) {}

void Served::begin() {
  for (int worker = 0; worker < o.workers; ++worker)
    if (o.isColocated())
      ready(worker, 0);
    else
      for (int i = 0; i < servers; ++i)
        hand((worker + i) % servers, worker, 0);
}

void Served::push(int worker, int batch) {
  for (int i = 0; i < servers; ++i) {
    int server = (worker + i) % servers;
    send(ReplicaEvent::push, {worker, placeOf(server), worker, batch}, 1.0 / servers,
         [=, this] { pushed(server, worker, batch); });
  }
}

void Served::hand(int server, int worker, int batch) {
  send(ReplicaEvent::pull, {placeOf(server), worker, worker, batch}, 1.0 / servers, [=, this] {
    if (++fetched[worker] < servers)
      return;
    fetched[worker] = 0;
    ready(worker, batch);
  });
}

void Served::ready(int worker, int batch) {
  if (batch < o.steps)
    goOn(worker, [=, this](int each) { compute(each, batch, each, [=, this] { push(each, batch); }); });
}

void Served::pushed(int server, int, int batch) {
  if (++here[server] < o.workers)
    return;
  here[server] = 0;
  update(placeOf(server), -1, batch, 1.0 / servers, [=, this] {
    if (!o.isColocated() && batch + 1 == o.steps)
      return;
    for (int i = 0; i < o.workers; ++i)
      hand(server, (server + i) % o.workers, batch + 1);
  });
}

//===- asynchronous -------------------------------------------------------===//

ServedAsynchronously::ServedAsynchronously(const ReplicaOptions &options)
    : Served(options), share(options.workers), pulled(options.workers),
      isHere(servers, std::vector<bool>(options.workers)), commands(servers), isUpdating(servers) {}

void ServedAsynchronously::begin() {
  for (int worker = 0; worker < o.workers; ++worker)
    idle.push_back(worker);
  dealAll();
}

void ServedAsynchronously::dealAll() {
  while (!idle.empty()) {
    std::optional<Share> dealt = shares.deal();
    if (!dealt)
      return;
    int worker = idle.front();
    idle.pop_front();
    share[worker] = *dealt;
    pulled[worker] = (int64_t)result.updates.size();
    for (int server = 0; server < servers; ++server) {
      commands[server].push_back({false, worker, *dealt});
      follow(server);
    }
  }
}

void ServedAsynchronously::ready(int worker, int batch) {
  compute(worker, batch, share[worker].second, [=, this] { push(worker, batch); });
}

void ServedAsynchronously::pushed(int server, int worker, int) {
  isHere[server][worker] = true;
  server == 0 ? lead() : follow(server);
}

void ServedAsynchronously::lead() {
  for (int i = 0; i < o.workers && !isDecided; ++i) {
    int worker = (turn + i) % o.workers;
    if (!isHere[0][worker])
      continue;
    isDecided = true;
    turn = worker + 1;
    for (int server = 0; server < servers; ++server) {
      commands[server].push_back({true, worker, share[worker]});
      follow(server);
    }
  }
}

void ServedAsynchronously::follow(int server) {
  while (!isUpdating[server] && !commands[server].empty()) {
    Command command = commands[server].front();
    if (command.updates && !isHere[server][command.worker])
      return;
    commands[server].pop_front();
    if (!command.updates) {
      hand(server, command.worker, command.share.first);
      continue;
    }
    isHere[server][command.worker] = false;
    isUpdating[server] = true;
    auto done = [=, this] {
      isUpdating[server] = false;
      if (server == 0)
        updated(command.worker, command.share);
      follow(server);
    };
    update(placeOf(server), command.worker, command.share.first, 1.0 / servers, done, command.share.second);
  }
}

void ServedAsynchronously::updated(int worker, const Share &finished) {
  result.updates.push_back({worker, finished.first, finished.second, pulled[worker]});
  shares.finish(finished);
  idle.push_back(worker);
  isDecided = false;
  dealAll();
  lead();
}
