#include "test/runtime/comm/TransferChecks.h"
#include "test/runtime/comm/Conformance.h"

#include <algorithm>

using namespace divisi::runtime;

namespace divisi::test {
namespace {
constexpr DivisiPart many = {1, 50000, 1, 1, 1};

/// The bytes that rank `from` sends at each occurrence under an id.
char byteOf(int64_t from, int64_t id, int64_t occurrence, size_t at) {
  return static_cast<char>(from * 31 + id * 7 + occurrence * 3 + static_cast<int64_t>(at % 251));
}

class Checker {
public:
  explicit Checker(Transport &transport)
      : n(transport.size()), me(transport.rank()), sum(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {many}), in(many.first),
        out(many.first), ranks(transport, Mesh({{"stage", n}}), {{200, "the sum"}}) {
    sum->id = 200;
    std::fill(in.begin(), in.end(), static_cast<float>(me + 1));
  }

  /// Every rank sends several times under several ids to the next rank, to the one after it, and to itself.
  void allAtOnce() {
    constexpr int64_t sizes[] = {1, 4000, 0, 200000, 17}, occurrences = 5, ids = 4;
    struct Expected {
      int64_t from, id, occurrence;
      std::vector<char> data;
    };
    std::vector<Expected> expected;
    for (int64_t round = 0; round < 3; ++round) {
      expected.clear();
      for (int64_t distance : {0, 1, 2})
        for (int64_t id = ids; id-- > 0;)
          for (int64_t o = 0; o < occurrences; ++o)
            expected.push_back({(me - distance + 2 * n) % n, distance * ids + id, o,
                                std::vector<char>(static_cast<size_t>(sizes[(o + id) % 5]), 'x')});
      auto receive = [&] {
        for (Expected &e : expected) {
          DivisiTransfer params{e.id, e.from, static_cast<int64_t>(e.data.size())};
          keep(ranks.receive(params, e.data.data()));
        }
      };
      if (me % 2 == 0)
        receive();
      startSum();
      for (int64_t id = 0; id < 3 * ids; ++id)
        for (int64_t o = 0; o < occurrences; ++o) {
          std::vector<char> data(static_cast<size_t>(sizes[(o + id % ids) % 5]));
          for (size_t i = 0; i < data.size(); ++i)
            data[i] = byteOf(me, id, o, i);
          DivisiTransfer params{id, (me + id / ids) % n, static_cast<int64_t>(data.size())};
          keep(ranks.send(params, data.data()));
          std::fill(data.begin(), data.end(), 'y');
        }
      startSum();
      if (me % 2 != 0)
        receive();
      for (int64_t id = 3 * ids; id-- > 0;)
        keep(ranks.await(id));
      for (const Expected &e : expected)
        for (size_t i = 0; i < e.data.size(); ++i)
          if (e.data[i] != byteOf(e.from, e.id, e.occurrence, i)) {
            say(concat("the message ", e.occurrence, " under ", e.id, " of rank ", e.from, " is another one"));
            break;
          }
      awaitSum();
      keep(ranks.finish());
      Result<int64_t> most = ranks.maximum(me + round);
      if (!most.ok() || *most != n - 1 + round)
        say("the largest number of all is another one");
    }
  }

  /// Rank 0 starts a collective and then sends. Its neighbour joins the collective only after it has received the
  /// message, and answers; rank 0 waits for the answer with the collective in flight.
  void besideCollectives() {
    if (n < 2)
      return;
    int64_t value = 7 + me, got = 0;
    DivisiTransfer there{1, 1, 8}, back{2, 0, 8}, fromThere{2, 1, 8}, fromFirst{1, 0, 8};
    if (me == 0) {
      keep(ranks.receive(fromThere, &got));
      startSum();
      keep(ranks.send(there, &value));
      keep(ranks.await(2));
      check(got, 8);
    } else if (me == 1) {
      keep(ranks.receive(fromFirst, &got));
      keep(ranks.await(1));
      check(got, 7);
      keep(ranks.send(back, &value));
      startSum();
    } else {
      startSum();
    }
    awaitSum();
    keep(ranks.finish());
  }

  std::vector<std::string> mistakes;

private:
  void startSum() {
    void *buffers[] = {in.data(), out.data()};
    keep(ranks.start(sum.get(), buffers));
  }
  void awaitSum() {
    keep(ranks.await(200));
    auto want = static_cast<float>(n * (n + 1) / 2);
    if (std::any_of(out.begin(), out.end(), [&](float x) { return x != want; }))
      say("the sum beside transfers is another one");
  }
  void check(int64_t got, int64_t want) {
    if (got != want)
      say(concat("got ", got, " and not ", want));
  }
  void keep(const Status &status) {
    if (!status.ok())
      say(status.message());
  }
  void say(const std::string &mistake) { mistakes.push_back(concat("rank ", me, ": ", mistake)); }

  int64_t n, me;
  CollectiveBlock sum;
  std::vector<float> in, out;
  Communicator ranks;
};
} // namespace

std::vector<std::string> checkTransfers(Transport &transport) {
  Checker checker(transport);
  checker.allAtOnce();
  checker.besideCollectives();
  return checker.mistakes;
}
} // namespace divisi::test
