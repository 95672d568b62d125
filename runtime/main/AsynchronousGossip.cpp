#include "runtime/main/AsynchronousGossip.h"
#include "runtime/core/BlockSignals.h"
#include "runtime/main/Tags.h"

#include <cstring>
#include <random>
#include <set>

using namespace divisi::runtime;

namespace {
/// The first rank of each replica.
std::vector<int> leadersOf(const Mesh &mesh, int64_t axis) {
  std::vector<int> leaders;
  for (int64_t replica = 0; replica < mesh.axes()[static_cast<size_t>(axis)].size; ++replica)
    leaders.push_back(static_cast<int>(mesh.withIndex(0, axis, replica)));
  return leaders;
}

std::vector<int> ranksOf(const Mesh &mesh, int64_t axis, int64_t replica) {
  std::vector<int> all;
  for (int64_t rank = 0; rank < mesh.size(); ++rank)
    if (mesh.index(rank, axis) == replica)
      all.push_back(static_cast<int>(rank));
  return all;
}
} // namespace

AsynchronousGossip::AsynchronousGossip(const Manifest &manifest, const Arena &arena, Communicator &ranks, std::vector<const State *> averaged,
                                       DeviceCopies device)
    : manifest(manifest), arena(arena), ranks(ranks), averaged(std::move(averaged)), device(std::move(device)), own(manifest.mesh.index(manifest.rank, manifest.sync->axis)),
      count(manifest.mesh.axes()[static_cast<size_t>(manifest.sync->axis)].size), leaders(leadersOf(manifest.mesh, manifest.sync->axis)),
      team(ranksOf(manifest.mesh, manifest.sync->axis, own)), sameOrder(ranks, team, gossipTags::event) {
  size_t bytes = 0;
  for (const State *state : this->averaged)
    bytes += static_cast<size_t>(state->bytes);
  live.resize(bytes);
  before.resize(bytes);
  if (isActive())
    return;
  for (int64_t neighbour : neighbours())
    askers.push_back({neighbour, manifest.workerRank(neighbour), std::vector<char>(bytes + sizeof(int64_t)), std::vector<char>(bytes + sizeof(int64_t)), false, nullptr, nullptr});
}

std::vector<int64_t> AsynchronousGossip::neighbours() const {
  std::vector<int64_t> found;
  for (int64_t other : {(own + count - 1) % count, (own + 1) % count})
    if (other % 2 != own % 2 && (found.empty() || found.front() != other)) // on an odd ring, the last and the first are of one kind
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

Status AsynchronousGossip::inTurn(const Event &event, const std::function<void()> &body) {
  const bool follows = !isActive() && !leads();
  if (follows)
    if (Status status = ranks.waitUntil([&] { return isOwnTurn.load(); }); !status.ok())
      return status;
  std::lock_guard lock(mutex);
  if (!isActive() && leads())
    sameOrder.tell(ownEvent);
  body();
  events.push_back(event);
  if (follows)
    isOwnTurn = false;
  return {};
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
  for (int64_t neighbour : neighbours())
    sent.push_back(ranks.post(manifest.workerRank(neighbour), gossipTags::ask, last.data(), last.size()));
  return ranks.waitUntil([&] { return std::all_of(sent.begin(), sent.end(), [](const auto &one) { return one->poll(); }); });
}

void AsynchronousGossip::add() {
  forEachTensor([&](int64_t count, auto *x, size_t at) {
    using Number = std::decay_t<decltype(*x)>;
    for (int64_t i = 0; i < count; ++i, at += sizeof(Number)) {
      Number sum = numberAt<Number>(live.data() + at) + (x[i] - numberAt<Number>(before.data() + at));
      std::memcpy(live.data() + at, &sum, sizeof(Number));
    }
  });
}

Status AsynchronousGossip::average(const Share &share) {
  std::vector<int64_t> all = neighbours();
  if (!isActive() || all.empty())
    return {};
  // Drawn by replica and share, so that no state is to be kept.
  std::seed_seq seed{static_cast<uint64_t>(share.batch), static_cast<uint64_t>(share.index), static_cast<uint64_t>(own)};
  std::mt19937_64 random(seed);
  const int64_t with = all[random() % all.size()];
  const int peer = manifest.workerRank(with);
  std::vector<char> reply(live.size() + sizeof(int64_t)), question(sizeof(int64_t)); // zeros: not the end
  question.insert(question.end(), live.begin(), live.end());
  std::unique_ptr<Message> asked = ranks.post(peer, gossipTags::ask, question.data(), question.size()), answered = ranks.accept(peer, gossipTags::answer, reply.data(), reply.size());
  if (Status status = ranks.waitUntil([&] { return asked->poll() && answered->poll(); }); !status.ok())
    return status;
  if (answered->isLost())
    return {}; // the next average is with another neighbour, perhaps
  std::memcpy(live.data(), reply.data() + sizeof(int64_t), live.size());
  events.push_back({Event::Average, share.batch, share.index, with, numberAt<int64_t>(reply.data())});
  return {};
}

void AsynchronousGossip::listen(Asker &asker) { asker.asked = ranks.accept(asker.rank, gossipTags::ask, asker.theirs.data(), asker.theirs.size()); }

bool AsynchronousGossip::hasAsked(Asker &asker) {
  if (asker.answered && !asker.answered->poll())
    return false; // the reply is on its way
  asker.answered.reset();
  if (asker.ended || !asker.asked->poll())
    return asker.ended;
  asker.ended = asker.asked->isLost() || asker.theirs[0] != 0;
  return true;
}

void AsynchronousGossip::reply(Asker &asker) {
  std::lock_guard lock(mutex);
  if (leads())
    sameOrder.tell(&asker - askers.data());
  forEachTensor([&](int64_t count, auto *x, size_t at) {
    using Number = std::decay_t<decltype(*x)>;
    for (int64_t i = 0; i < count; ++i, at += sizeof(Number)) {
      Number mean = (numberAt<Number>(live.data() + at) + numberAt<Number>(asker.theirs.data() + sizeof(int64_t) + at)) / 2;
      std::memcpy(live.data() + at, &mean, sizeof(Number));
    }
  });
  int64_t number = earlier + static_cast<int64_t>(events.size());
  events.push_back({Event::Average, events.empty() ? first : events.back().batch, 0, asker.replica, -1});
  std::memcpy(asker.reply.data(), &number, sizeof(number));
  std::memcpy(asker.reply.data() + sizeof(number), live.data(), live.size());
  asker.answered = ranks.post(asker.rank, gossipTags::answer, asker.reply.data(), asker.reply.size());
  listen(asker);
}

Status AsynchronousGossip::answer() {
  Status status = ranks.waitUntil([&] {
    for (Asker &asker : askers)
      if (hasAsked(asker) && !asker.ended)
        reply(asker);
    return std::all_of(askers.begin(), askers.end(), [](const Asker &asker) { return asker.ended && !asker.answered; });
  });
  if (!status.ok() || isActive())
    return status;
  std::lock_guard lock(mutex); // all have applied their last share
  sameOrder.tell(noMore);
  return sameOrder.finish();
}

Status AsynchronousGossip::follow() {
  for (;;) {
    Result<int64_t> what = sameOrder.next();
    if (!what.ok())
      return what.status();
    Status status;
    if (*what == noMore) {
      return ranks.waitUntil([&] { return std::all_of(askers.begin(), askers.end(), [&](Asker &asker) { return hasAsked(asker) && asker.ended; }); });
    } else if (*what == ownEvent) {
      isOwnTurn = true;
      status = ranks.waitUntil([&] { return !isOwnTurn; });
    } else {
      Asker &asker = askers.at(static_cast<size_t>(*what));
      status = ranks.waitUntil([&] { return hasAsked(asker); });
      if (status.ok())
        reply(asker);
    }
    if (!status.ok())
      return status;
  }
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
  std::vector<Peer> peers(static_cast<size_t>(count));
  auto listen = [&](int64_t replica) {
    Peer &peer = peers[static_cast<size_t>(replica)];
    peer.said.resize(helloBytes());
    peer.hello = ranks.accept(leader(replica), gossipTags::hello, peer.said.data(), peer.said.size());
  };
  auto tell = [&](int64_t replica, const Order &order) {
    Peer &peer = peers[static_cast<size_t>(replica)];
    peer.told = order;
    peer.order = ranks.post(leader(replica), gossipTags::order, &peer.told, sizeof(Order));
    peer.waits = false;
    peer.isBusy = order.batch >= 0;
    peer.ended = !peer.isBusy;
    if (!peer.ended)
      listen(replica);
  };
  for (int64_t replica = 1; replica < count; ++replica)
    listen(replica);
  return ranks.waitUntil([&] {
    bool all = true;
    for (int64_t replica = 1; replica < count; ++replica) {
      Peer &peer = peers[static_cast<size_t>(replica)];
      if (peer.order && !peer.order->poll()) {
        all = false;
        continue;
      }
      if (peer.ended)
        continue;
      all = false;
      if (!peer.waits) {
        if (!peer.hello->poll()) // asked once: the replica may be lost at any time
          continue;
        if (peer.hello->isLost()) {
          std::lock_guard lock(mutex);
          if (peer.isBusy)
            deals->dealer.takeBack({peer.told.batch, peer.told.share});
          peer.ended = true;
          continue;
        }
        auto [hello, results] = unpacked(peer.said);
        take(hello, results.data());
        peer.waits = true;
        peer.isBusy = false;
      }
      if (std::optional<Order> order = deal()) // perhaps one of a replica that was lost
        tell(replica, *order);
      else if (isDone()) // nobody asks for an average any more
        tell(replica, {-1, 0});
    }
    return all;
  });
}

std::vector<char> AsynchronousGossip::packed(const Hello &hello, const std::vector<double> &results) const {
  std::vector<char> said(helloBytes());
  std::memcpy(said.data(), &hello, sizeof(hello));
  std::memcpy(said.data() + sizeof(hello), results.data(), results.size() * sizeof(double));
  return said;
}

std::pair<AsynchronousGossip::Hello, std::vector<double>> AsynchronousGossip::unpacked(const std::vector<char> &said) const {
  std::vector<double> results(manifest.results.size());
  std::memcpy(results.data(), said.data() + sizeof(Hello), results.size() * sizeof(double));
  return {numberAt<Hello>(said.data()), std::move(results)};
}

Status AsynchronousGossip::collect(Hello &hello, std::vector<double> &results) {
  std::set<int64_t> stages = {manifest.stageOf(team.front())};
  for (size_t i = 1; i < team.size(); ++i) {
    std::vector<char> said(helloBytes());
    std::unique_ptr<Message> message = ranks.accept(team[i], gossipTags::hello, said.data(), said.size());
    if (Status status = ranks.waitUntil([&] { return message->poll(); }); !status.ok())
      return status;
    auto [others, theirs] = unpacked(said);
    hello.stops |= others.stops;
    const int64_t stage = manifest.stageOf(team[i]);
    const bool isFirst = stages.insert(stage).second;
    for (size_t n = 0; isFirst && n < results.size(); ++n)
      if (manifest.results[n].stage == stage)
        results[n] = theirs[n];
  }
  return {};
}

Result<AsynchronousGossip::Order> AsynchronousGossip::dealt(const Hello &hello, const std::vector<double> &results) {
  Order order{-1, 0};
  if (ranks.rank() == 0) {
    take(hello, results.data());
    std::optional<Order> found;
    // The end comes when the others have finished, too; if one of them is lost, its share is dealt again.
    Status status = ranks.waitUntil([&] { return (found = deal()) || isDone(); });
    return status.ok() ? Result(found.value_or(order)) : status;
  }
  std::vector<char> said = packed(hello, results);
  const int from = leads() ? 0 : team.front();
  std::unique_ptr<Message> told = ranks.accept(from, gossipTags::order, &order, sizeof(order)), asks;
  if (leads() || hello.batch >= 0)
    asks = ranks.post(from, gossipTags::hello, said.data(), said.size());
  Status status = ranks.waitUntil([&] { return told->poll() && (!asks || asks->poll()); });
  return status.ok() ? Result(order) : status;
}

Result<AsynchronousGossip::Order> AsynchronousGossip::next(const Hello &hello, const std::vector<double> &results) {
  Result<Order> order = dealt(hello, results);
  if (!order.ok() || !leads())
    return order;
  std::vector<std::unique_ptr<Message>> sent;
  for (size_t i = 1; i < team.size(); ++i)
    sent.push_back(ranks.post(team[i], gossipTags::order, &*order, sizeof(Order)));
  Status status = ranks.waitUntil([&] { return std::all_of(sent.begin(), sent.end(), [](const auto &one) { return one->poll(); }); });
  return status.ok() ? order : status;
}

Status AsynchronousGossip::work(const FreeWork &work) {
  Hello hello{-1, 0, 0};
  for (;;) {
    std::vector<double> results(manifest.results.size());
    if (hello.batch >= 0)
      results = work.results();
    if (hello.batch >= 0 && leads())
      if (Status status = collect(hello, results); !status.ok())
        return status;
    Result<Order> order = next(hello, results);
    if (!order.ok() || order->batch < 0)
      return order.status();
    Share share{order->batch, order->share};
    auto copyOut = [&] {
      before = live;
      toArena();
    };
    if (Status status = inTurn({Event::Compute, share.batch, share.index, 0, 0}, copyOut); !status.ok())
      return status;
    if (Status status = copyAll(device.to); !status.ok())
      return status;
    if (Status status = work.compute(share); !status.ok())
      return status;
    if (Status status = copyAll(device.from); !status.ok())
      return status;
    if (Status status = average(share); !status.ok())
      return status;
    if (Status status = inTurn({Event::Apply, share.batch, share.index, 0, 0}, [&] { add(); }); !status.ok())
      return status;
    hello = {share.batch, share.index, work.isAskedToStop()};
  }
}

Status AsynchronousGossip::copyAll(const DeviceCopies::Copy &copy) const {
  for (const State *state : averaged)
    if (Status status = copy(state->offset, state->bytes); !status.ok())
      return status;
  return {};
}

Status AsynchronousGossip::gatherEvents() {
  std::string bytes(reinterpret_cast<const char *>(events.data()), events.size() * sizeof(Event));
  Result<std::vector<std::string>> all = ranks.gather(bytes);
  if (!all.ok())
    return all.status();
  allEvents.clear();
  for (int64_t replica = 0; ranks.rank() == 0 && replica < count; ++replica) {
    const std::string &theirs = (*all)[static_cast<size_t>(leader(replica))];
    std::vector<Event> &list = allEvents.emplace_back(theirs.size() / sizeof(Event));
    std::memcpy(list.data(), theirs.data(), theirs.size());
  }
  return {};
}

Result<FreeRun> AsynchronousGossip::run(int64_t from, int64_t end, const FreeWork &work) {
  earlier += static_cast<int64_t>(events.size());
  events.clear();
  first = from;
  if (Status status = copyAll(device.from); !status.ok())
    return status;
  begin();
  for (Asker &asker : askers) {
    asker.ended = false;
    listen(asker);
  }
  if (ranks.rank() == 0)
    deals.emplace(ShareDealer(from, end, count, {}), BatchResults(manifest, from, count, work));
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
    blockSignals();
    others = safely([&] { return ranks.rank() == 0 ? dealToOthers() : isActive() || leads() ? answer() : follow(); });
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
  if (status.ok())
    status = copyAll(device.to);
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
