//===- Hosts.cpp - what ranks tell each other between tasks ---------------===//
#include "runtime/comm/Communicator.h"

#include <algorithm>
#include <cstring>

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
  if (outlives())
    return agreeByFirst({}, value, hurry);
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
  return counted([&] {
    transport.send(to, data, bytes);
    return transport.wait();
  });
}

Status Communicator::receive(int from, void *data, size_t bytes) {
  return counted([&] {
    transport.receive(from, data, bytes);
    return transport.wait();
  });
}

Status Communicator::exchange(int to, const void *out, int from, void *in, size_t bytes) {
  return counted([&] {
    transport.send(to, out, bytes);
    transport.receive(from, in, bytes);
    return settled(true, "a neighbour's parameters");
  });
}

Status Communicator::counted(const std::function<Status()> &body) {
  auto begin = Clock::now();
  int64_t sent = transport.bytesSent();
  Status status = body();
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

Status Communicator::tell(int to, std::string_view text) {
  uint64_t length = text.size();
  transport.send(to, &length, sizeof(length));
  transport.send(to, text.data(), text.size());
  return transport.wait();
}

bool Communicator::dropIfLost(int rank) {
  const bool lost = isLost(rank);
  if (lost)
    transport.drop(rank);
  return lost;
}

Status Communicator::hear(int from, std::string &text) {
  uint64_t length = 0;
  if (Status status = receive(from, &length, sizeof(length)); !status.ok())
    return status;
  if (dropIfLost(from))
    return {};
  if (Status status = makeRoom(text, length, from); !status.ok())
    return status;
  return receive(from, text.data(), text.size());
}

Result<std::vector<std::optional<std::string>>> Communicator::gatherFrom(std::string_view bytes, bool hurry) {
  std::vector<std::optional<std::string>> all(static_cast<size_t>(size()));
  std::vector<uint64_t> lengths(all.size(), bytes.size());
  const char *what = "the ranks to agree";
  if (rank() != 0) {
    transport.send(0, &lengths[0], sizeof(uint64_t));
    transport.send(0, bytes.data(), bytes.size());
    if (Status status = settled(hurry, what); !status.ok())
      return status;
    return all;
  }
  all[0] = bytes;
  for (int from = 1; from < size(); ++from)
    transport.receive(from, &lengths[static_cast<size_t>(from)], sizeof(uint64_t));
  if (Status status = settled(hurry, what); !status.ok())
    return status;
  for (int from = 1; from < size(); ++from) {
    if (dropIfLost(from))
      continue;
    std::string &text = all[static_cast<size_t>(from)].emplace();
    if (Status status = makeRoom(text, lengths[static_cast<size_t>(from)], from); !status.ok())
      return status;
    transport.receive(from, text.data(), text.size());
  }
  if (Status status = settled(hurry, what); !status.ok())
    return status;
  for (int from = 1; from < size(); ++from)
    if (isLost(from))
      all[static_cast<size_t>(from)].reset();
  return all;
}

Result<std::vector<std::string>> Communicator::gather(std::string_view bytes) {
  auto found = gatherFrom(bytes, false);
  if (!found.ok())
    return found.status();
  std::vector<std::string> all;
  for (std::optional<std::string> &text : *found)
    if (rank() == 0)
      all.push_back(std::move(text).value_or("")); // nothing of a rank that was lost
  return all;
}

Result<int64_t> Communicator::agree(const Status &mine, int64_t flag, bool hurry) {
  Result<int64_t> agreed = 0;
  Status status = beside([&] { agreed = agreeNow(mine, flag, hurry); });
  return status.ok() ? agreed : status;
}

void Communicator::outlive(const std::vector<bool> &spared) {
  transport.spare(spared);
  living.assign(static_cast<size_t>(size()), true);
}

Result<std::vector<int>> Communicator::letIn() {
  std::string newcomers = rank() == 0 ? transport.newcomers() : "";
  if (Status status = broadcast(newcomers); !status.ok())
    return status;
  std::vector<int> ranks = transport.meet(newcomers);
  for (int one : ranks)
    living[static_cast<size_t>(one)] = true;
  return ranks;
}

namespace {
/// What a rank says when ranks agree: its flag, and of a failure the exit code and the message.
struct Vote {
  int64_t flag = 0, code = 0;
};
std::string pack(const Vote &vote, std::string_view text) {
  return std::string(reinterpret_cast<const char *>(&vote), sizeof(Vote)) + std::string(text);
}
bool unpack(const std::string &from, Vote &vote, std::string &text) {
  if (from.size() < sizeof(Vote))
    return false;
  std::memcpy(&vote, from.data(), sizeof(Vote));
  text = from.substr(sizeof(Vote));
  return true;
}
} // namespace

Result<int64_t> Communicator::agreeByFirst(const Status &mine, int64_t flag, bool hurry) {
  auto votes = gatherFrom(pack({flag, mine.ok() ? 0 : mine.exitCode()}, mine.message()), hurry);
  if (!votes.ok())
    return votes.status();
  const Status nonsense = failure("another rank sent what is no message of this program");
  Vote all, one;
  std::string said, answer; // behind the answer: who took part, and of a failure the message
  for (int from = 0; rank() == 0 && from < size(); ++from) {
    const std::optional<std::string> &vote = (*votes)[static_cast<size_t>(from)];
    answer += vote ? '1' : '0';
    if (!vote)
      continue;
    if (!unpack(*vote, one, said))
      return nonsense;
    all.flag = std::max(all.flag, one.flag);
    if (one.code != 0 && all.code == 0) {
      all.code = one.code;
      answer.resize(static_cast<size_t>(from) + 1);
      answer += std::string(static_cast<size_t>(size() - from - 1), '1') +
                (from == 0 ? "" : concat("rank ", from, ": ")) + said;
      break;
    }
  }
  answer = pack(all, answer);
  if (Status status = broadcastNow(answer, 0, hurry); !status.ok())
    return status;
  if (!unpack(answer, all, said) || said.size() < living.size())
    return nonsense;
  for (int other = 0; other < size(); ++other) {
    bool took = said[static_cast<size_t>(other)] == '1';
    living[static_cast<size_t>(other)] = took;
    if (!took)
      transport.drop(other);
  }
  if (all.code == 0)
    return all.flag;
  std::string message = printable(std::string_view(said).substr(living.size()));
  return all.code == 2 ? Status::usage(message) : Status::failure(message);
}

Result<int64_t> Communicator::agreeNow(const Status &mine, int64_t flag, bool hurry) {
  if (outlives())
    return agreeByFirst(mine, flag, hurry);
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
