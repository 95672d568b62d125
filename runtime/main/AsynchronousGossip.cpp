#include "runtime/main/AsynchronousGossip.h"

#include <csignal>
#include <cstring>
#include <random>

using namespace divisi::runtime;

AsynchronousGossip::AsynchronousGossip(const Manifest &manifest, const Arena &arena, Communicator &ranks, std::vector<const State *> averaged)
    : manifest(manifest), arena(arena), ranks(ranks), averaged(std::move(averaged)) {
  size_t bytes = 0;
  for (const State *state : this->averaged)
    bytes += static_cast<size_t>(state->bytes);
  live.resize(bytes);
  before.resize(bytes);
  if (isActive())
    return;
  for (int neighbour : neighbours())
    askers.push_back({neighbour, std::vector<char>(bytes + sizeof(int64_t)), std::vector<char>(bytes + sizeof(int64_t)), false, nullptr, nullptr});
}

std::vector<int> AsynchronousGossip::neighbours() const {
  int me = ranks.rank(), count = ranks.size();
  std::vector<int> found;
  for (int other : {(me + count - 1) % count, (me + 1) % count})
    if (other % 2 != me % 2 && (found.empty() || found.front() != other)) // on an odd ring, the last and the first are of one kind
      found.push_back(other);
  return found;
}

template <typename Body> void AsynchronousGossip::forEachTensor(const Body &body) const {
  size_t offset = 0;
  for (const State *state : averaged) {
    if (state->dtype == DataType::F64)
      body(state->elements(), reinterpret_cast<double *>(arena.at(*state)), offset);
    else
      body(state->elements(), reinterpret_cast<float *>(arena.at(*state)), offset);
    offset += static_cast<size_t>(state->bytes);
  }
}

void AsynchronousGossip::begin() {
  forEachTensor([&](int64_t count, auto *x, size_t at) { std::memcpy(live.data() + at, x, static_cast<size_t>(count) * sizeof(*x)); });
}

void AsynchronousGossip::toArena() const {
  forEachTensor([&](int64_t count, auto *x, size_t at) { std::memcpy(x, live.data() + at, static_cast<size_t>(count) * sizeof(*x)); });
}

void AsynchronousGossip::copyOut(const Share &share) {
  std::lock_guard lock(mutex);
  before = live;
  toArena();
  events.push_back({Event::Compute, share.batch, share.index, 0, 0});
}

namespace {
template <typename Number> Number numberAt(const char *place) {
  Number value;
  std::memcpy(&value, place, sizeof(Number));
  return value;
}
} // namespace

Status AsynchronousGossip::sayEnd() {
  if (!isActive())
    return {};
  std::vector<char> last(live.size() + sizeof(int64_t));
  last[0] = 1;
  std::vector<std::unique_ptr<Message>> sent;
  for (int neighbour : neighbours())
    sent.push_back(ranks.post(neighbour, askTag, last.data(), last.size()));
  return ranks.waitUntil([&] { return std::all_of(sent.begin(), sent.end(), [](const auto &one) { return one->poll(); }); });
}

void AsynchronousGossip::apply(const Share &share) {
  std::lock_guard lock(mutex);
  forEachTensor([&](int64_t count, auto *x, size_t at) {
    using Number = std::decay_t<decltype(*x)>;
    for (int64_t i = 0; i < count; ++i, at += sizeof(Number)) {
      Number sum = numberAt<Number>(live.data() + at) + (x[i] - numberAt<Number>(before.data() + at));
      std::memcpy(live.data() + at, &sum, sizeof(Number));
    }
  });
  events.push_back({Event::Apply, share.batch, share.index, 0, 0});
}

Status AsynchronousGossip::average(const Share &share) {
  std::vector<int> all = neighbours();
  if (!isActive() || all.empty())
    return {};
  // Drawn by replica and share, so that no state is to be kept.
  std::seed_seq seed{static_cast<uint64_t>(share.batch), static_cast<uint64_t>(share.index), static_cast<uint64_t>(ranks.rank())};
  std::mt19937_64 random(seed);
  int with = all[random() % all.size()];
  std::vector<char> reply(live.size() + sizeof(int64_t)), question(sizeof(int64_t)); // zeros: not the end
  question.insert(question.end(), live.begin(), live.end());
  std::unique_ptr<Message> asked = ranks.post(with, askTag, question.data(), question.size()), answered = ranks.accept(with, answerTag, reply.data(), reply.size());
  if (Status status = ranks.waitUntil([&] { return asked->poll() && answered->poll(); }); !status.ok())
    return status;
  if (answered->isLost())
    return {}; // the next average is with another neighbour, perhaps
  std::memcpy(live.data(), reply.data() + sizeof(int64_t), live.size());
  events.push_back({Event::Average, share.batch, share.index, with, numberAt<int64_t>(reply.data())});
  return {};
}

Status AsynchronousGossip::answer() {
  for (Asker &asker : askers) {
    asker.ended = false;
    asker.asked = ranks.accept(asker.rank, askTag, asker.theirs.data(), asker.theirs.size());
  }
  return ranks.waitUntil([&] {
    for (Asker &asker : askers) {
      if (asker.answered && !asker.answered->poll())
        continue; // the reply is on its way
      asker.answered.reset();
      if (asker.ended || !asker.asked->poll())
        continue;
      if ((asker.ended = asker.asked->isLost()))
        continue;
      if ((asker.ended = asker.theirs[0] != 0))
        continue;
      std::lock_guard lock(mutex);
      forEachTensor([&](int64_t count, auto *x, size_t at) {
        using Number = std::decay_t<decltype(*x)>;
        for (int64_t i = 0; i < count; ++i, at += sizeof(Number)) {
          Number mean = (numberAt<Number>(live.data() + at) + numberAt<Number>(asker.theirs.data() + sizeof(int64_t) + at)) / 2;
          std::memcpy(live.data() + at, &mean, sizeof(Number));
        }
      });
      int64_t number = earlier + static_cast<int64_t>(events.size());
      events.push_back({Event::Average, events.empty() ? first : events.back().batch, 0, asker.rank, -1});
      std::memcpy(asker.reply.data(), &number, sizeof(number));
      std::memcpy(asker.reply.data() + sizeof(number), live.data(), live.size());
      asker.answered = ranks.post(asker.rank, answerTag, asker.reply.data(), asker.reply.size());
      asker.asked = ranks.accept(asker.rank, askTag, asker.theirs.data(), asker.theirs.size());
    }
    return std::all_of(askers.begin(), askers.end(), [](const Asker &asker) { return asker.ended && !asker.answered; });
  });
}

void AsynchronousGossip::take(const Hello &hello, const double *results) {
  std::lock_guard lock(mutex);
  if (hello.stops)
    deals->dealer.stop();
  if (hello.batch >= 0) {
    deals->dealer.finish({hello.batch, hello.share});
    if (deals->results.add(hello.batch, {results, results + manifest.results.size()}))
      deals->dealer.stop();
  }
}

bool AsynchronousGossip::isDone() {
  std::lock_guard lock(mutex);
  return deals->dealer.isDone();
}

std::optional<AsynchronousGossip::Order> AsynchronousGossip::deal() {
  std::lock_guard lock(mutex);
  if (std::optional<Share> share = deals->dealer.deal())
    return Order{share->batch, share->index};
  return std::nullopt;
}

Status AsynchronousGossip::dealToOthers() {
  struct Peer {
    std::vector<char> said;
    std::unique_ptr<Message> hello, order;
    Order told{};
    bool waits = false, ended = false;
    bool isBusy = false; ///< has a share
  };
  std::vector<Peer> peers(static_cast<size_t>(ranks.size()));
  auto listen = [&](int rank) {
    Peer &peer = peers[static_cast<size_t>(rank)];
    peer.said.resize(sizeof(Hello) + manifest.results.size() * sizeof(double));
    peer.hello = ranks.accept(rank, helloTag, peer.said.data(), peer.said.size());
  };
  auto tell = [&](int rank, const Order &order) {
    Peer &peer = peers[static_cast<size_t>(rank)];
    peer.told = order;
    peer.order = ranks.post(rank, orderTag, &peer.told, sizeof(Order));
    peer.waits = false;
    peer.isBusy = order.batch >= 0;
    peer.ended = !peer.isBusy;
    if (!peer.ended)
      listen(rank);
  };
  for (int rank = 1; rank < ranks.size(); ++rank)
    listen(rank);
  return ranks.waitUntil([&] {
    bool all = true;
    for (int rank = 1; rank < ranks.size(); ++rank) {
      Peer &peer = peers[static_cast<size_t>(rank)];
      if (peer.order && !peer.order->poll()) {
        all = false;
        continue;
      }
      if (peer.ended)
        continue;
      all = false;
      if (!peer.waits && peer.hello->poll() && peer.hello->isLost()) {
        std::lock_guard lock(mutex);
        if (peer.isBusy)
          deals->dealer.takeBack({peer.told.batch, peer.told.share});
        peer.ended = true;
        continue;
      }
      if (!peer.waits && peer.hello->poll()) {
        Hello hello = numberAt<Hello>(peer.said.data());
        std::vector<double> results(manifest.results.size());
        std::memcpy(results.data(), peer.said.data() + sizeof(Hello), results.size() * sizeof(double));
        take(hello, results.data());
        peer.waits = true;
        peer.isBusy = false;
      }
      if (!peer.waits)
        continue;
      if (std::optional<Order> order = deal()) // perhaps one of a replica that was lost
        tell(rank, *order);
      else if (isDone()) // nobody asks for an average any more
        tell(rank, {-1, 0});
    }
    return all;
  });
}

Status AsynchronousGossip::work(const FreeWork &work) {
  Hello hello{-1, 0, 0};
  std::vector<char> said(sizeof(Hello) + manifest.results.size() * sizeof(double));
  for (;;) {
    std::vector<double> results(manifest.results.size());
    if (hello.batch >= 0)
      results = work.results();
    Order order{-1, 0};
    if (ranks.rank() == 0) {
      take(hello, results.data());
      std::optional<Order> dealt;
      // The end comes when the others have finished, too; if one of them is lost, its share is dealt again.
      if (Status status = ranks.waitUntil([&] { return (dealt = deal()) || isDone(); }); !status.ok() || !dealt)
        return status;
      order = *dealt;
    } else {
      std::memcpy(said.data(), &hello, sizeof(hello));
      std::memcpy(said.data() + sizeof(hello), results.data(), results.size() * sizeof(double));
      std::unique_ptr<Message> told = ranks.accept(0, orderTag, &order, sizeof(order)), asks = ranks.post(0, helloTag, said.data(), said.size());
      if (Status status = ranks.waitUntil([&] { return told->poll() && asks->poll(); }); !status.ok())
        return status;
      if (order.batch < 0)
        return {};
    }
    Share share{order.batch, order.share};
    copyOut(share);
    if (Status status = work.compute(share); !status.ok())
      return status;
    if (Status status = average(share); !status.ok())
      return status;
    apply(share);
    hello = {share.batch, share.index, work.isAskedToStop()};
  }
}

Status AsynchronousGossip::gatherEvents() {
  std::string bytes(reinterpret_cast<const char *>(events.data()), events.size() * sizeof(Event));
  Result<std::vector<std::string>> all = ranks.gather(bytes);
  if (!all.ok())
    return all.status();
  allEvents.clear();
  for (const std::string &ofRank : *all) {
    std::vector<Event> &list = allEvents.emplace_back(ofRank.size() / sizeof(Event));
    std::memcpy(list.data(), ofRank.data(), ofRank.size());
  }
  return {};
}

Result<FreeRun> AsynchronousGossip::run(int64_t from, int64_t end, const FreeWork &work) {
  earlier += static_cast<int64_t>(events.size());
  events.clear();
  first = from;
  begin();
  if (ranks.rank() == 0)
    deals.emplace(ShareDealer(from, end, ranks.size(), {}), BatchResults(manifest, from, ranks.size(), work));
  Status others;
  // What is thrown becomes a failure, so that both threads end.
  auto safely = [](const auto &body) -> Status {
    try {
      return body();
    } catch (const std::bad_alloc &) {
      return failure("out of memory");
    } catch (const std::exception &error) {
      return failure(error.what());
    }
  };
  std::thread helper([&] {
    sigset_t all; // signals are for the thread that computes
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    others = safely([&] { return ranks.rank() == 0 ? dealToOthers() : answer(); });
    if (!others.ok())
      ranks.fail(ranks.located(others));
  });
  Status status = safely([&] {
    Status done = this->work(work);
    return done.ok() ? sayEnd() : done;
  });
  if (!status.ok())
    ranks.fail(ranks.located(status));
  helper.join();
  if (status.ok())
    status = others;
  // All have computed, and averaged, their last share.
  toArena();
  FreeRun done;
  if (deals)
    done = deals->results.take();
  deals.reset();
  if (status.ok())
    status = done.share(ranks, 0);
  if (status.ok())
    status = gatherEvents();
  return status.ok() ? Result<FreeRun>(std::move(done)) : ranks.located(status);
}
