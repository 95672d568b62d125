//===- Hosts.cpp - what ranks tell each other between tasks ---------------===//
#include "runtime/comm/Communicator.h"

#include <algorithm>

using namespace divisi::runtime;

namespace {
/// Resizes `text` for the announced length of a message from `from`.
Status makeRoom(std::string &text, uint64_t length, int from) {
  if (length > uint64_t(1) << 31)
    return failure("rank ", from, " sent what is no message of this program");
  text.resize(length);
  return {};
}
} // namespace

/// Waits for the messages that were started.
Status Communicator::settled(bool hurry, const char *what) {
  Patience patience;
  return transport.wait([&] {
    return hurry && exhausted(patience)
               ? failure(place(), "waited in vain for ", what, ": one of the ranks has ended or hangs")
               : Status();
  });
}

Result<int64_t> Communicator::maximum(int64_t value, bool hurry) {
  // After round k a rank has heard from the 2^k ranks before it.
  for (int distance = 1; distance < size(); distance *= 2) {
    int64_t other = 0;
    transport.send((rank() + distance) % size(), &value, sizeof(value));
    transport.receive((rank() - distance + size()) % size(), &other, sizeof(other));
    if (Status status = settled(hurry, "the ranks to agree"); !status.ok())
      return status;
    value = std::max(value, other);
  }
  return value;
}

Status Communicator::send(int to, const void *data, size_t bytes) {
  transport.send(to, data, bytes);
  return transport.wait();
}

Status Communicator::receive(int from, void *data, size_t bytes) {
  transport.receive(from, data, bytes);
  return transport.wait();
}

Status Communicator::exchange(int to, const void *out, int from, void *in, size_t bytes) {
  auto begin = Clock::now();
  int64_t sent = transport.bytesSent();
  transport.send(to, out, bytes);
  transport.receive(from, in, bytes);
  Status status = settled(true, "a neighbour's parameters");
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::lock_guard lock(mutex);
  usage.bytes += transport.bytesSent() - sent;
  usage.seconds += seconds;
  usage.waited += seconds;
  return status;
}

Status Communicator::broadcast(std::string &bytes, int from, bool hurry) {
  Status told, status = beside([&] { told = broadcastNow(bytes, from, hurry); });
  return status.ok() ? told : status;
}

Status Communicator::broadcastNow(std::string &bytes, int from, bool hurry) {
  constexpr const char *what = "what another rank tells all";
  uint64_t length = bytes.size();
  if (rank() == from) {
    for (int to = 0; to < size(); ++to)
      if (to != from) {
        transport.send(to, &length, sizeof(length));
        transport.send(to, bytes.data(), bytes.size());
      }
    return settled(hurry, what);
  }
  transport.receive(from, &length, sizeof(length));
  if (Status status = settled(hurry, what); !status.ok())
    return status;
  if (Status status = makeRoom(bytes, length, from); !status.ok())
    return status;
  transport.receive(from, bytes.data(), length);
  return settled(hurry, what);
}

Status Communicator::toFirst(void *data, size_t bytes, int from, bool hurry) {
  if (from == 0 || (rank() != 0 && rank() != from))
    return {};
  Status told, status = beside([&] {
    if (rank() == from)
      transport.send(0, data, bytes);
    else
      transport.receive(from, data, bytes);
    told = settled(hurry, "what another rank has computed");
  });
  return status.ok() ? told : status;
}

Result<std::vector<std::string>> Communicator::gather(std::string_view bytes) {
  std::vector<std::string> all;
  uint64_t length = bytes.size();
  if (rank() != 0) {
    transport.send(0, &length, sizeof(length));
    transport.send(0, bytes.data(), bytes.size());
    if (Status status = transport.wait(); !status.ok())
      return status;
    return all;
  }
  all.emplace_back(bytes);
  for (int from = 1; from < size(); ++from) {
    if (Status status = receive(from, &length, sizeof(length)); !status.ok())
      return status;
    std::string &text = all.emplace_back();
    if (Status status = makeRoom(text, length, from); !status.ok())
      return status;
    if (Status status = receive(from, text.data(), length); !status.ok())
      return status;
  }
  return all;
}

Result<int64_t> Communicator::agree(const Status &mine, int64_t flag, bool hurry) {
  Result<int64_t> agreed = 0;
  Status status = beside([&] { agreed = agreeNow(mine, flag, hurry); });
  return status.ok() ? agreed : status;
}

Result<int64_t> Communicator::agreeNow(const Status &mine, int64_t flag, bool hurry) {
  constexpr int64_t failed = int64_t(1) << 32;
  Result<int64_t> most = maximum(mine.ok() ? flag : failed + size() - rank(), hurry);
  if (!most.ok() || *most < failed)
    return most;
  int64_t number = *most - failed;
  if (number < 1 || number > size())
    return failure("another rank sent what is no message of this program");
  int lowest = size() - static_cast<int>(number);
  std::string text = concat(mine.exitCode(), lowest == 0 ? "" : concat("rank ", lowest, ": "), mine.message());
  if (Status status = broadcastNow(text, lowest, false); !status.ok())
    return status;
  std::string message = printable(std::string_view(text).substr(1));
  return text.starts_with("2") ? Status::usage(message) : Status::failure(message);
}
