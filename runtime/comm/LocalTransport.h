//===- LocalTransport.h - threads as ranks ----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_LOCALTRANSPORT_H
#define DIVISI_RUNTIME_COMM_LOCALTRANSPORT_H

#include "runtime/comm/Transport.h"

#include <memory>
#include <vector>

namespace divisi::runtime {

/// Connects ranks that are threads of one process. It must outlive their use of it.
class LocalHub {
public:
  /// `hosts`: numbers of hosts by rank, which collectives regard; empty: all are on one.
  explicit LocalHub(int size, std::vector<int> hosts = {});
  ~LocalHub();
  LocalHub(const LocalHub &) = delete;
  LocalHub &operator=(const LocalHub &) = delete;

  int size() const { return static_cast<int>(ends.size()); }
  /// The transport of one rank.
  Transport &rank(int number);
  /// Makes all ranks fail.
  void fail(const Status &why);

private:
  class End;
  struct Channel;
  Channel &channel(int from, int to) { return *channels[static_cast<size_t>(from * size() + to)]; }

  std::vector<int> hosts;
  std::vector<std::unique_ptr<End>> ends;
  std::vector<std::unique_ptr<Channel>> channels;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_LOCALTRANSPORT_H
