#pragma once
#include "passes/Planning/Simulator/ReplicaRun.h"

#include <deque>

namespace divisi::planning::pipeline {

/// Servers update when the gradients of all workers have come. They are dedicated, or every worker is one, too.
class Served : public ReplicaRun {
public:
  explicit Served(const ReplicaOptions &options);

protected:
  void begin() override;
  /// The device of a server.
  int placeOf(int server) const { return o.isColocated() ? server : o.workers + server; }
  /// Sends a worker's gradients to all servers. The first is another one for each worker, so that links are evenly
  /// busy.
  void push(int worker, int batch);
  /// A server sends its parameters to a worker.
  void hand(int server, int worker, int batch);

  virtual void pushed(int server, int worker, int batch);
  /// A worker has the parameters of all servers for the next share.
  virtual void ready(int worker, int batch);

  const int servers;

private:
  std::vector<int> here;    // by server: workers whose gradients have come
  std::vector<int> fetched; // by worker: servers whose parameters have come
};

/// Servers update by the gradient of each share as it comes. Shares are dealt in order, each to the first worker that
/// is free.
class ServedAsynchronously : public Served {
public:
  explicit ServedAsynchronously(const ReplicaOptions &options);

protected:
  void begin() override;
  void pushed(int server, int worker, int batch) override;
  void ready(int worker, int batch) override;

private:
  using Share = Shares::Share;
  struct Command {
    bool updates; // else it hands parameters to the worker
    int worker;
    Share share;
  };

  void dealAll();
  /// The first server decides on the order of updates, which the others follow.
  void lead();
  void follow(int server);
  void updated(int worker, const Share &share);

  Shares shares{o};
  std::deque<int> idle;                      // workers
  std::vector<Share> share;                  // by worker
  std::vector<int64_t> pulled;               // by worker: the updates that its parameters have
  std::vector<std::vector<bool>> isHere;     // by server and worker: a gradient that waits for its update
  std::vector<std::deque<Command>> commands; // by server
  std::vector<bool> isUpdating;              // by server
  int turn = 0;                              // the worker that comes first if several gradients wait
  bool isDecided = false;                    // an update of the first server is under way
};

} // namespace divisi::planning::pipeline
