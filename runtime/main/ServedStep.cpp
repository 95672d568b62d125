#include "runtime/main/ServedStep.h"
#include "runtime/comm/Reduce.h"
#include "runtime/main/Tags.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
int64_t reductionOf(Servers::Combine how) {
  return how == Servers::Combine::Max ? DIVISI_MAX : how == Servers::Combine::Min ? DIVISI_MIN : DIVISI_SUM;
}
} // namespace

ServedStep::ServedStep(const Manifest &manifest, const Arena &arena, Communicator &ranks, DeviceCopies device)
    : manifest(manifest), servers(*manifest.servers), arena(arena), ranks(ranks), device(std::move(device)) {
  for (size_t number = 0; number < manifest.updates().size(); ++number) {
    const Servers::Update &update = manifest.updates()[number];
    Places &places = ofServers.emplace_back();
    for (const Servers::Pushed &pushed : update.pushed)
      places.pushed.push_back({pushed.offset, pushed.bytes});
    for (const State &state : manifest.state) {
      if (!state.here || std::find(update.renews.begin(), update.renews.end(), state.name) == update.renews.end())
        continue;
      Piece piece{state.offset, state.bytes};
      if (state.role == Role::Parameter || state.role == Role::Buffer)
        places.read.push_back(piece);
      else if (state.average)
        places.averages.push_back(piece);
      else if (state.role == Role::Moment || (state.role == Role::Step && number == 0))
        places.saved.push_back(piece);
    }
  }
  if (!manifest.server)
    return;
  peers.resize(static_cast<size_t>(workers()));
  for (Peer &peer : peers)
    peer.pushed.resize(sizeOf(ofServer(*manifest.server).pushed));
}

std::vector<ServedStep::Piece> ServedStep::renewedBy(int64_t number, int64_t worker, bool last) const {
  const Places &places = ofServer(number);
  std::vector<Piece> pieces = places.read;
  if (last)
    pieces.insert(pieces.end(), places.averages.begin(), places.averages.end());
  if (last && worker == 0)
    pieces.insert(pieces.end(), places.saved.begin(), places.saved.end());
  return pieces;
}

Status ServedStep::copyAll(const std::vector<Piece> &pieces, const DeviceCopies::Copy &copy) const {
  for (const Piece &piece : pieces)
    if (Status status = copy(piece.offset, piece.bytes); !status.ok())
      return status;
  return {};
}

Status ServedStep::gather(const std::vector<Piece> &pieces, std::vector<char> &to) const {
  to.clear();
  if (Status status = copyAll(pieces, device.from); !status.ok())
    return status;
  for (const Piece &piece : pieces)
    to.insert(to.end(), arena.data() + piece.offset, arena.data() + piece.offset + piece.bytes);
  return {};
}

void ServedStep::scatter(const std::vector<Piece> &pieces, const char *from) const {
  for (const Piece &piece : pieces) {
    std::memcpy(arena.data() + piece.offset, from, static_cast<size_t>(piece.bytes));
    from += piece.bytes;
  }
}

size_t ServedStep::sizeOf(const std::vector<Piece> &pieces) {
  size_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += static_cast<size_t>(piece.bytes);
  return bytes;
}

Status ServedStep::receive(int from, int tag, void *data, size_t bytes) {
  if (bytes == 0)
    return {};
  std::unique_ptr<Message> message = ranks.accept(from, tag, data, bytes);
  return ranks.waitUntil([&] { return message->poll(); });
}

//===- workers ------------------------------------------------------------===//

Status ServedStep::work(const FreeWork &work) {
  const int64_t count = servers.count();
  std::vector<std::vector<char>> pulled(static_cast<size_t>(count));
  for (;;) {
    Order order{};
    if (Status status = receive(leader(), servedTags::order, &order, sizeof(order)); !status.ok())
      return status;
    const bool last = order.kind == Order::End;
    std::vector<std::unique_ptr<Message>> coming; // in any order
    for (int64_t number = 0; number < count; ++number) {
      std::vector<char> &bytes = pulled[static_cast<size_t>(number)];
      bytes.resize(sizeOf(renewedBy(number, own(), last)));
      if (!bytes.empty())
        coming.push_back(ranks.accept(manifest.serverRank(number), servedTags::pull, bytes.data(), bytes.size()));
    }
    if (Status status = finish(coming); !status.ok())
      return status;
    for (int64_t number = 0; number < count; ++number) {
      const std::vector<Piece> renewed = renewedBy(number, own(), last);
      scatter(renewed, pulled[static_cast<size_t>(number)].data());
      if (Status status = copyAll(renewed, device.to); !status.ok())
        return status;
    }
    if (last)
      return {};
    if (Status status = work.compute({order.batch, order.share}); !status.ok())
      return status;
    std::vector<std::vector<char>> pushes(static_cast<size_t>(count));
    Hello hello{order.batch, order.share, order.version, work.isAskedToStop()};
    std::vector<std::unique_ptr<Message>> sent; // of both: destroyed before them
    if (manifest.serverRank(0) == leader())
      sent.push_back(ranks.post(leader(), servedTags::hello, &hello, sizeof(hello)));
    for (int64_t i = 0; i < count; ++i) { // workers begin with different ones, so that links are evenly busy
      const int64_t number = (own() + i) % count;
      std::vector<char> &bytes = pushes[static_cast<size_t>(number)];
      if (Status status = gather(ofServer(number).pushed, bytes); !status.ok())
        return status;
      if (!bytes.empty())
        sent.push_back(ranks.post(manifest.serverRank(number), servedTags::push, bytes.data(), bytes.size()));
    }
    if (Status status = finish(sent); !status.ok())
      return status;
  }
}

Status ServedStep::finish(std::vector<std::unique_ptr<Message>> &messages) {
  return ranks.waitUntil([&] {
    std::erase_if(messages, [](const auto &one) { return one->poll(); });
    return messages.empty();
  });
}

//===- servers ------------------------------------------------------------===//

Status ServedStep::hand(int64_t worker, bool last) {
  Peer &peer = peers[static_cast<size_t>(worker)];
  if (Status status = ranks.waitUntil([&] { return !peer.pull || peer.pull->poll(); }); !status.ok())
    return status;
  int to = manifest.workerRank(worker);
  if (Status status = gather(renewedBy(*manifest.server, worker, last), peer.sent); !status.ok())
    return status;
  peer.pull = peer.sent.empty() ? nullptr : ranks.post(to, servedTags::pull, peer.sent.data(), peer.sent.size());
  peer.push.reset();
  peer.greeting.reset();
  peer.isBusy = !last;
  peer.isConfirmed = false;
  peer.confirmed = 0;
  if (last)
    return {};
  if (manifest.processRank == leader())
    peer.greeting = ranks.accept(to, servedTags::hello, &peer.hello, sizeof(peer.hello));
  if (!peer.pushed.empty())
    peer.push = ranks.accept(to, servedTags::push, peer.pushed.data(), peer.pushed.size());
  return {};
}

void ServedStep::add(int64_t worker) const {
  const char *from = peers[static_cast<size_t>(worker)].pushed.data();
  for (const Servers::Pushed &pushed : manifest.updates()[static_cast<size_t>(*manifest.server)].pushed) {
    char *to = arena.data() + pushed.offset;
    if (pushed.combine != Servers::Combine::Copy)
      combine(to, to, from, pushed.bytes / widthOf(pushed.dtype), *abiType(pushed.dtype), reductionOf(pushed.combine));
    from += pushed.bytes;
  }
}

Result<std::vector<double>> ServedStep::update(int64_t worker, int64_t batch, const FreeWork &work) {
  for (int64_t one = 0; one < workers(); ++one) {
    if (worker >= 0 && one != worker)
      continue;
    const Peer &peer = peers[static_cast<size_t>(one)];
    if (Status status = ranks.waitUntil([&] { return peer.isHere(); }); !status.ok())
      return status;
    if (one == 0 || worker >= 0)
      scatter(ofServer(*manifest.server).pushed, peer.pushed.data());
    else
      add(one);
  }
  if (Status status = copyAll(ofServer(*manifest.server).pushed, device.to); !status.ok())
    return status;
  if (Status status = work.update(batch); !status.ok())
    return status;
  return collect(work.results());
}

Result<std::vector<double>> ServedStep::collect(std::vector<double> results) {
  const size_t bytes = results.size() * sizeof(double);
  if (*manifest.server != 0 || manifest.rank != manifest.firstOf(manifest.stageOf(manifest.rank)) || bytes == 0)
    return results;
  if (manifest.processRank != leader()) {
    std::unique_ptr<Message> message = ranks.post(leader(), servedTags::result, results.data(), bytes);
    Status status = ranks.waitUntil([&] { return message->poll(); });
    return status.ok() ? Result(std::move(results)) : status;
  }
  std::vector<double> theirs(results.size());
  for (int64_t stage = 1; stage < manifest.stages(); ++stage) {
    if (Status status = receive(manifest.serverRank(0, manifest.firstOf(stage)), servedTags::result, theirs.data(), bytes);
        !status.ok())
      return status;
    for (size_t i = 0; i < results.size(); ++i)
      if (manifest.results[i].stage == stage)
        results[i] = theirs[i];
  }
  return results;
}

Status ServedStep::command(int to, const Order &order) {
  std::unique_ptr<Message> message = ranks.post(to, servedTags::order, &order, sizeof(order));
  return ranks.waitUntil([&] { return message->poll(); });
}

size_t ServedStep::takeNotes() {
  size_t forgotten = 0;
  for (Note &note : notes)
    while (note.message && note.message->poll()) {
      if (note.worker >= 0)
        ++peers[static_cast<size_t>(note.worker)].confirmed;
      forgotten += note.worker == Note::forgotten;
      note.message = note.worker == Note::end ? nullptr : ranks.accept(note.rank, servedTags::note, &note.worker, sizeof(note.worker));
    }
  return forgotten;
}

bool ServedStep::hasCome(int64_t worker) {
  const Peer &peer = peers[static_cast<size_t>(worker)];
  return peer.isBusy && peer.isWhole() && peer.confirmed >= notes.size();
}

ServedStep::News ServedStep::look(int64_t from) {
  takeNotes();
  for (int64_t i = 0; i < workers(); ++i)
    if (int64_t worker = (from + i) % workers(); hasCome(worker))
      return {worker, false};
  for (int64_t worker = 0; worker < workers(); ++worker)
    if (peers[static_cast<size_t>(worker)].isBusy && isLost(worker))
      return {worker, true};
  return {};
}

Status ServedStep::forget(int64_t worker) {
  if (Status status = tellServers({Order::Lost, worker, 0, 0, 0}); !status.ok())
    return status;
  size_t forgotten = 0; // what they have said before is of no use, so that it must have come
  if (Status status = ranks.waitUntil([&] { return (forgotten += takeNotes()) >= notes.size(); }); !status.ok())
    return status;
  peers[static_cast<size_t>(worker)].clear();
  return {};
}

Status ServedStep::tellServers(const Order &order) {
  for (int rank = leader() + 1; rank < ranks.size(); ++rank)
    if (Status status = command(rank, order); !status.ok())
      return status;
  return {};
}

Status ServedStep::tellWorkers(const std::vector<Order> &orders) {
  for (const Order &order : orders)
    for (int64_t rank = 0; rank < manifest.mesh.size(); ++rank)
      if (manifest.mesh.index(rank, servers.axis) == order.worker)
        if (Status status = command(static_cast<int>(rank), order); !status.ok())
          return status;
  // Servers begin with different workers, so that links are evenly busy.
  for (int rank = leader() + 1; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < orders.size(); ++i)
      if (Status status = command(rank, orders[(i + static_cast<size_t>(rank - leader())) % orders.size()]); !status.ok())
        return status;
  for (const Order &order : orders)
    if (Status status = hand(order.worker, order.kind == Order::End); !status.ok())
      return status;
  return {};
}

Status ServedStep::follow(const FreeWork &work) {
  for (int64_t ended = 0; ended < workers();) {
    Order order{};
    std::unique_ptr<Message> told = ranks.accept(leader(), servedTags::order, &order, sizeof(order));
    Note &note = notes.front();
    Status waited = ranks.waitUntil([&] {
      for (size_t worker = 0; confirms() && worker < peers.size(); ++worker) {
        Peer &peer = peers[worker];
        if ((note.message && !note.message->poll()) || !peer.isBusy || peer.isConfirmed || !peer.isWhole())
          continue;
        peer.isConfirmed = true;
        note.worker = static_cast<int64_t>(worker);
        note.message = ranks.post(leader(), servedTags::note, &note.worker, sizeof(note.worker));
      }
      return told->poll();
    });
    if (!waited.ok())
      return waited;
    if (order.kind == Order::Lost) {
      peers[static_cast<size_t>(order.worker)].clear();
      if (Status status = say(note, Note::forgotten); !status.ok())
        return status;
      continue;
    }
    bool updates = order.kind == Order::Update, last = order.kind == Order::End;
    if (Status status = updates ? update(order.worker, order.batch, work).status() : hand(order.worker, last);
        !status.ok())
      return status;
    ended += last;
  }
  return confirms() ? say(notes.front(), Note::end) : Status();
}

Status ServedStep::say(Note &note, int64_t what) {
  if (Status status = ranks.waitUntil([&] { return !note.message || note.message->poll(); }); !status.ok())
    return status;
  note.worker = what;
  note.message = ranks.post(leader(), servedTags::note, &note.worker, sizeof(note.worker));
  return {};
}

Result<FreeRun> ServedStep::lead(int64_t begin, int64_t end, const FreeWork &work) {
  ShareDealer dealer(begin, end, workers(), servers.asynchronous ? servers.maxStaleness : 0);
  // Servers that wait for all workers have the results of whole batches.
  BatchResults results(manifest, begin, servers.asynchronous ? workers() : 1, work);
  std::deque<int64_t> idle;
  for (int64_t worker = 0; worker < workers(); ++worker)
    if (!isLost(worker))
      idle.push_back(worker);
  int64_t version = 0, from = 0;
  std::vector<FreeRun::Push> pushes;
  std::vector<Share> dealt(static_cast<size_t>(workers())); // the newest one of each worker
  while (!dealer.isDone()) {
    std::vector<Order> orders;
    while (!idle.empty()) {
      std::optional<Share> share = dealer.deal();
      if (!share)
        break;
      auto worker = servers.asynchronous ? idle.begin() : std::find(idle.begin(), idle.end(), share->index);
      orders.push_back({Order::Compute, *worker, share->batch, share->index, version});
      dealt[static_cast<size_t>(*worker)] = *share;
      idle.erase(worker);
    }
    if (Status status = tellWorkers(orders); !status.ok())
      return status;
    if (!servers.asynchronous) {
      if (!idle.empty())
        break; // no batch is left
      const int64_t batch = begin + version;
      if (Status status = tellServers({Order::Update, -1, batch, 0, 0}); !status.ok())
        return status;
      Result<std::vector<double>> updated = update(-1, batch, work);
      if (!updated.ok())
        return updated.status();
      for (int64_t worker = 0; worker < workers(); ++worker) {
        dealer.finish({batch, worker});
        idle.push_back(worker);
      }
      ++version;
      bool stops = std::any_of(peers.begin(), peers.end(), [](const Peer &peer) { return peer.hello.stops != 0; });
      if (results.add(batch, *updated) || stops || work.isAskedToStop())
        dealer.stop();
      continue;
    }
    News news;
    if (Status status = ranks.waitUntil([&] {
          news = look(from);
          return news.worker >= 0;
        });
        !status.ok())
      return status;
    const int64_t worker = news.worker;
    if (news.isLost) {
      dealer.takeBack(dealt[static_cast<size_t>(worker)]);
      if (Status status = forget(worker); !status.ok())
        return status;
      continue;
    }
    from = worker + 1; // the others come first next time
    const Hello hello = peers[static_cast<size_t>(worker)].hello;
    if (Status status = tellServers({Order::Update, worker, hello.batch, hello.share, 0}); !status.ok())
      return status;
    Result<std::vector<double>> updated = update(worker, hello.batch, work);
    if (!updated.ok())
      return updated.status();
    peers[static_cast<size_t>(worker)].isBusy = false;
    idle.push_back(worker);
    dealer.finish({hello.batch, hello.share});
    pushes.push_back({worker, hello.batch, hello.share, hello.pulled});
    ++version;
    if (results.add(hello.batch, *updated) || hello.stops || work.isAskedToStop())
      dealer.stop();
  }
  std::vector<Order> orders;
  for (int64_t worker = 0; worker < workers(); ++worker)
    orders.push_back({Order::End, worker, 0, 0, version});
  if (Status status = tellWorkers(orders); !status.ok())
    return status;
  FreeRun done = results.take();
  done.pushes = std::move(pushes);
  return done;
}

Result<FreeRun> ServedStep::run(int64_t begin, int64_t end, const FreeWork &work) {
  FreeRun done;
  Status status;
  const bool leads = manifest.processRank == leader();
  notes.clear();
  if (manifest.server && !leads)
    notes.resize(1);
  for (int rank = leader() + 1; leads && confirms() && rank < ranks.size(); ++rank)
    notes.emplace_back().rank = rank;
  for (Note &note : notes)
    if (leads)
      note.message = ranks.accept(note.rank, servedTags::note, &note.worker, sizeof(note.worker));
  if (!manifest.server) {
    status = this->work(work);
  } else if (manifest.processRank != leader()) {
    status = follow(work);
  } else {
    Result<FreeRun> led = lead(begin, end, work);
    status = led.status();
    if (led.ok())
      done = std::move(*led);
  }
  // Messages to workers are on their way.
  for (Peer &peer : peers)
    if (status.ok() && peer.pull)
      status = ranks.waitUntil([&] { return peer.pull->poll(); });
  for (Peer &peer : peers)
    peer.pull.reset();
  auto isSaid = [](const Note &note) { return !note.message || note.message->poll(); };
  if (status.ok())
    status = ranks.waitUntil([&] {
      if (leads)
        takeNotes();
      return std::all_of(notes.begin(), notes.end(), isSaid);
    });
  if (!status.ok()) {
    ranks.fail(ranks.located(status));
    return ranks.located(status);
  }
  status = done.share(ranks, leader());
  return status.ok() ? Result<FreeRun>(std::move(done)) : status;
}
