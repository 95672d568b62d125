#include "test/runtime/comm/Conformance.h"
#include "runtime/core/DataType.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace divisi::runtime;
using namespace divisi::test;

CollectiveBlock::CollectiveBlock(int64_t kind, int64_t type, std::vector<int64_t> axes, std::vector<DivisiPart> parts)
    : memory((sizeof(DivisiCollective) + parts.size() * sizeof(DivisiPart)) / sizeof(int64_t)) {
  DivisiCollective &c = *operator->();
  c.id = 7;
  c.kind = kind;
  c.type = type;
  c.axis_count = static_cast<int64_t>(axes.size());
  std::copy(axes.begin(), axes.end(), c.axes);
  c.part_count = static_cast<int64_t>(parts.size());
  std::copy(parts.begin(), parts.end(), c.parts);
}

std::vector<Mesh> divisi::test::meshesOf(int ranks) {
  std::vector<Mesh> meshes = {Mesh({{"data", ranks}})};
  for (int a = 2; a < ranks; ++a)
    if (ranks % a == 0)
      meshes.push_back(Mesh({{"data", a}, {"model", ranks / a}}));
  if (ranks == 8)
    meshes.push_back(Mesh({{"data", 2}, {"model", 2}, {"pipe", 2}}));
  return meshes;
}

namespace {
constexpr DataType types[] = {DataType::F32, DataType::F64, DataType::BF16, DataType::F16, DataType::I64,
                              DataType::I32, DataType::I16, DataType::I8,   DataType::U8};

/// Small integers: their sums over eight ranks are exact in every type.
double value(int64_t rank, size_t part, int64_t index) {
  return static_cast<double>((rank * 7 + static_cast<int64_t>(part) * 3 + index * 5) % 11);
}

/// The members of a group by definition: all ranks with this one's indices except along `axes`, in order.
std::vector<int64_t> membersOf(const Mesh &mesh, int64_t rank, const std::vector<int64_t> &axes) {
  auto key = [&](int64_t r) {
    std::vector<int64_t> indices;
    for (int64_t axis : axes)
      indices.push_back(mesh.index(r, axis));
    return indices;
  };
  std::vector<int64_t> members;
  for (int64_t r = 0; r < mesh.size(); ++r) {
    bool same = true;
    for (int64_t a = 0; a < static_cast<int64_t>(mesh.axes().size()); ++a)
      same &= mesh.index(r, a) == mesh.index(rank, a) || std::find(axes.begin(), axes.end(), a) != axes.end();
    if (same)
      members.push_back(r);
  }
  std::sort(members.begin(), members.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  return members;
}

/// Coordinates of element `index` of a tensor with these five sizes.
struct Place {
  int64_t o, f, m, s, i;
  static Place of(int64_t index, const DivisiPart &p) {
    return {index / (p.inner * p.second * p.middle * p.first), index / (p.inner * p.second * p.middle) % p.first,
            index / (p.inner * p.second) % p.middle, index / p.inner % p.second, index % p.inner};
  }
  int64_t in(const DivisiPart &p) const { return (((o * p.first + f) * p.middle + m) * p.second + s) * p.inner + i; }
};
int64_t elements(const DivisiPart &p) { return p.outer * p.first * p.middle * p.second * p.inner; }

/// Checks one collective on one rank.
class Checker {
public:
  Checker(Communicator &ranks, const CollectiveBlock &block, const std::vector<int> &hosts, bool tree,
          std::vector<std::string> &mistakes, int64_t &checks)
      : ranks(ranks), c(block.get()), hosts(hosts), tree(tree), mistakes(mistakes), checks(checks) {
    members = membersOf(ranks.mesh(), ranks.rank(), {c->axes, c->axes + c->axis_count});
    n = static_cast<int64_t>(members.size());
    me = std::find(members.begin(), members.end(), ranks.rank()) - members.begin();
  }

  void run() {
    auto type = types[c->type];
    int64_t width = widthOf(type);
    auto count = static_cast<size_t>(c->part_count);
    std::vector<std::vector<char>> memory(2 * count);
    std::vector<void *> buffers;
    int64_t bytes = 0;
    for (size_t p = 0; p < count; ++p) {
      memory[p].resize(static_cast<size_t>(elements(c->parts[p]) * width));
      bytes += static_cast<int64_t>(memory[p].size());
      for (int64_t i = 0; i < elements(c->parts[p]); ++i)
        writeNumber(memory[p].data() + i * width, type, value(ranks.rank(), p, i));
      memory[count + p].assign(static_cast<size_t>(elements(resultOf(c->parts[p])) * width), 0x55);
    }
    auto operands = memory;
    for (auto &m : memory)
      buffers.push_back(m.data());
    ranks.takeUsage();
    Status status = ranks.start(c, buffers.data());
    if (status.ok())
      status = ranks.await(c->id);
    if (!status.ok())
      return mistake(status.message());
    for (size_t p = 0; p < count; ++p) {
      if (memory[p] != operands[p])
        mistake("an operand has changed");
      for (int64_t i = 0; i < elements(resultOf(c->parts[p])); ++i, ++checks)
        if (double got = readNumber(memory[count + p].data() + i * width, type), want = expected(p, i); got != want)
          return mistake(concat("part ", p, " element ", i, " is ", got, " instead of ", want));
    }
    checkWire(ranks.takeUsage().bytes, bytes);
  }

private:
  DivisiPart resultOf(DivisiPart p) const {
    if (c->kind == DIVISI_ALL_GATHER)
      p.first *= n;
    if (c->kind == DIVISI_REDUCE_SCATTER)
      p.first /= n;
    if (c->kind == DIVISI_ALL_TO_ALL) {
      p.first = c->backward ? p.first / n : p.first * n;
      p.second = c->backward ? p.second * n : p.second / n;
    }
    return p;
  }

  double combined(size_t part, int64_t index) const {
    double result = value(members[0], part, index);
    for (int64_t member : members) {
      double x = value(member, part, index);
      if (c->reduction == DIVISI_MAX)
        result = std::max(result, x);
      else if (c->reduction == DIVISI_MIN)
        result = std::min(result, x);
      else
        result += member == members[0] ? 0 : x;
    }
    return result;
  }

  double expected(size_t part, int64_t index) const {
    const DivisiPart &p = c->parts[part];
    Place at = Place::of(index, resultOf(p));
    int64_t from = me;
    switch (c->kind) {
    case DIVISI_ALL_REDUCE:
      return combined(part, index);
    case DIVISI_ALL_GATHER:
      from = at.f / p.first, at.f %= p.first;
      break;
    case DIVISI_REDUCE_SCATTER:
      at.f += me * (p.first / n);
      return combined(part, at.in(p));
    case DIVISI_ALL_TO_ALL:
      if (c->backward)
        from = at.s / p.second, at.s %= p.second, at.f += me * (p.first / n);
      else
        from = at.f / p.first, at.f %= p.first, at.s += me * (p.second / n);
      break;
    default:
      from = c->shift > -n && c->shift < n ? me - c->shift : -1;
    }
    return from < 0 || from >= n ? 0 : value(members[static_cast<size_t>(from)], part, at.in(p));
  }

  /// The bytes sent, compared with the requirement of each algorithm: exactly; for all_reduce over all ranks together.
  void checkWire(int64_t sent, int64_t bytes) {
    int64_t want = sent;
    if (c->kind == DIVISI_ALL_GATHER)
      want = (n - 1) * bytes;
    else if (c->kind == DIVISI_REDUCE_SCATTER || c->kind == DIVISI_ALL_TO_ALL)
      want = (n - 1) * bytes / n;
    else if (c->kind == DIVISI_PERMUTE)
      want = c->shift != 0 && c->shift > -n && c->shift < n && me + c->shift >= 0 && me + c->shift < n ? bytes : 0;
    else if (!tree && bytes / widthOf(types[c->type]) % n == 0 &&
             std::count(hosts.begin(), hosts.end(), hosts[0]) == ranks.size())
      want = 2 * (n - 1) * bytes / n;
    if (sent != want)
      mistake(concat(sent, " bytes were sent instead of ", want));
    if (c->kind != DIVISI_ALL_REDUCE)
      return;
    Result<std::vector<std::string>> all = ranks.gather(concat(sent));
    int64_t sum = 0;
    if (!all.ok())
      return mistake(all.status().message());
    for (const std::string &text : *all)
      sum += std::stoll(text);
    if (ranks.rank() == 0 && sum != groupMessages() * bytes)
      mistake(concat(sum, " bytes were sent by all ranks"));
  }

  /// How often the groups send all operands: around a ring or by hosts each chunk takes 2 (n-1) hops; in a tree every
  /// member sends all in each of log2 rounds, those beyond a power of two once and their partners once more, and the
  /// first member of a host to the others of its host.
  int64_t groupMessages() const {
    if (!tree)
      return ranks.size() / n * 2 * (n - 1);
    auto doubled = [](int64_t members) {
      int64_t power = int64_t(std::exp2(std::floor(std::log2(double(members)))));
      return power * int64_t(std::log2(double(power))) + 2 * (members - power);
    };
    int64_t messages = 0;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      std::vector<int64_t> group = membersOf(ranks.mesh(), rank, {c->axes, c->axes + c->axis_count});
      if (group[0] != rank)
        continue;
      std::map<int, int64_t> members; // by host
      for (int64_t one : group)
        ++members[hosts[size_t(one)]];
      for (auto [host, count] : members)
        messages += doubled(count) + (members.size() > 1 ? count - 1 : 0);
      messages += doubled(int64_t(members.size()));
    }
    return messages;
  }

  void mistake(const std::string &what) {
    std::string axes;
    for (int64_t i = 0; i < c->axis_count; ++i)
      axes += concat(" ", c->axes[i]);
    mistakes.push_back(concat("rank ", ranks.rank(), " of ", ranks.size(), ", axes", axes, ", kind ", c->kind, " type ",
                              nameOf(types[c->type]), " reduction ", c->reduction, " shift ", c->shift, " backward ",
                              c->backward, " parts ", c->part_count, ": ", what));
  }

  Communicator &ranks;
  const DivisiCollective *c;
  const std::vector<int> &hosts;
  bool tree;
  std::vector<std::string> &mistakes;
  int64_t &checks;
  std::vector<int64_t> members;
  int64_t n = 1, me = 0;
};

std::vector<std::vector<int64_t>> subsets(const Mesh &mesh) {
  if (mesh.axes().size() == 1)
    return {{0}, {}};
  if (mesh.axes().size() == 2)
    return {{0}, {1}, {0, 1}, {1, 0}};
  return {{0}, {1}, {2}, {0, 2}, {2, 0}, {2, 0, 1}};
}

/// Rounding depends on the order of a sum; the result must still be the same on all ranks.
void checkBits(Communicator &ranks, int64_t type, std::deque<CollectiveBlock> &blocks,
               std::vector<std::string> &mistakes) {
  constexpr int64_t count = 1003;
  int64_t width = widthOf(types[type]);
  std::vector<char> in(count * width), out(count * width);
  for (int64_t i = 0; i < count; ++i)
    writeNumber(in.data() + i * width, types[type], std::sin(1.0 + static_cast<double>(i * (ranks.rank() + 2))));
  std::vector<int64_t> axes;
  for (size_t a = 0; a < ranks.mesh().axes().size(); ++a)
    axes.push_back(static_cast<int64_t>(a));
  CollectiveBlock &block =
      blocks.emplace_back(DIVISI_ALL_REDUCE, type, axes, std::vector<DivisiPart>{{1, count, 1, 1, 1}});
  void *buffers[] = {in.data(), out.data()};
  Status status = ranks.start(block.get(), buffers);
  if (status.ok())
    status = ranks.await(block->id);
  Result<std::vector<std::string>> all = ranks.gather({out.data(), out.size()});
  if (!status.ok() || !all.ok())
    mistakes.push_back(status.message() + all.status().message());
  for (size_t r = 0; all.ok() && r < all->size(); ++r)
    if ((*all)[r] != (*all)[0])
      mistakes.push_back(concat("all_reduce of ", nameOf(types[type]), " has other bits on rank ", r));
}
} // namespace

namespace {
using Blocks = std::deque<CollectiveBlock>;

void addAllReduces(Blocks &blocks, const std::vector<int64_t> &axes, int64_t size) {
  const std::vector<std::vector<DivisiPart>> flat = {
      {{1, 1, 1, 1, 1}},
      {{1, 3, 1, 1, 1}},
      {{1, 8 * size, 1, 1, 1}},
      {{1, 5, 1, 1, 1}, {1, 0, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 17, 1, 1, 1}},
      {{1, 0, 1, 1, 1}}};
  for (int64_t type = DIVISI_F32; type <= DIVISI_U8; ++type)
    for (int64_t reduction = DIVISI_SUM; reduction <= DIVISI_MIN; ++reduction)
      for (const auto &parts : flat) {
        blocks.emplace_back(DIVISI_ALL_REDUCE, type, axes, parts);
        blocks.back()->reduction = reduction;
      }
}

/// Runs the collectives, which must outlive the communicator: it identifies them by their addresses.
std::vector<std::string> check(Transport &transport, const Mesh &mesh, Blocks &blocks, int64_t &checks,
                               std::optional<Reducers> reducers, bool tree) {
  std::vector<std::string> mistakes;
  Communicator ranks(transport, mesh, {{7, "the collective"}});
  ranks.reduceBy(reducers);
  // Each message takes a second, or none does, and bytes are slow between hosts.
  ranks.linkBy(tree ? divisi::HostLinks{{0.5, 1e15}, {1, 1e15}} : divisi::HostLinks{{0, 1e30}, {0, 1}});
  for (const CollectiveBlock &block : blocks)
    Checker(ranks, block, transport.hosts(), tree, mistakes, checks).run();
  for (int64_t type : {DIVISI_F32, DIVISI_F64, DIVISI_BF16, DIVISI_F16})
    checkBits(ranks, type, blocks, mistakes);
  return mistakes;
}
} // namespace

std::vector<std::string> divisi::test::checkAllReduces(Transport &transport, const Mesh &mesh, int64_t &checks,
                                                       bool tree) {
  Blocks blocks;
  for (const std::vector<int64_t> &axes : subsets(mesh))
    addAllReduces(blocks, axes, transport.size());
  return check(transport, mesh, blocks, checks, {}, tree);
}

std::vector<std::string> divisi::test::checkCollectives(Transport &transport, const Mesh &mesh, int64_t &checks,
                                                          std::optional<Reducers> reducers) {
  Blocks blocks;
  for (const std::vector<int64_t> &axes : subsets(mesh)) {
    int64_t n = mesh.count(axes);
    addAllReduces(blocks, axes, transport.size());
    for (int64_t type = DIVISI_F32; type <= DIVISI_U8; ++type)
      for (int64_t reduction = DIVISI_SUM; reduction <= DIVISI_MIN; ++reduction)
        for (std::vector<DivisiPart> parts : std::vector<std::vector<DivisiPart>>{
                 {{1, 2 * n, 1, 1, 3}}, {{3, n, 1, 1, 5}}, {{2, 3 * n, 1, 1, 1}, {1, n, 1, 1, 7}}}) {
          blocks.emplace_back(DIVISI_REDUCE_SCATTER, type, axes, parts);
          blocks.back()->reduction = reduction;
        }
    for (int64_t type = DIVISI_F32; type <= DIVISI_U8; ++type) {
      for (std::vector<DivisiPart> parts : std::vector<std::vector<DivisiPart>>{
               {{1, 2, 1, 1, 3}}, {{3, 2, 1, 1, 5}}, {{1, 1, 1, 1, 1}, {4, 3, 1, 1, 2}, {2, 0, 1, 1, 2}}})
        blocks.emplace_back(DIVISI_ALL_GATHER, type, axes, parts);
      for (int64_t backward : {0, 1})
        for (std::vector<DivisiPart> parts : std::vector<std::vector<DivisiPart>>{
                 {{1, n, 1, n, 1}}, {{2, n, 3, 2 * n, 5}}, {{1, 2 * n, 1, n, 2}, {3, n, 2, n, 1}}}) {
          blocks.emplace_back(DIVISI_ALL_TO_ALL, type, axes, parts);
          blocks.back()->backward = backward;
        }
      for (int64_t shift : {int64_t(0), int64_t(1), int64_t(-1), int64_t(2), -n, n, INT64_MIN}) {
        blocks.emplace_back(DIVISI_PERMUTE, type, axes, std::vector<DivisiPart>{{1, 6, 1, 1, 1}, {1, 1, 1, 1, 3}});
        blocks.back()->shift = shift;
      }
    }
  }
  return check(transport, mesh, blocks, checks, reducers, false);
}

std::vector<std::string> divisi::test::checkHosts(Transport &transport) {
  std::vector<std::string> mistakes;
  Communicator ranks(transport, Mesh({{"data", transport.size()}}));
  auto check = [&](bool holds, const std::string &what) {
    if (!holds)
      mistakes.push_back(concat("rank ", transport.rank(), ": ", what));
  };
  int n = ranks.size(), me = ranks.rank();
  check(ranks.barrier().ok(), "barrier");
  for (int largest = 0; largest < n; ++largest) {
    Result<int64_t> most = ranks.maximum(me == largest ? 5 : -me);
    check(most.ok() && *most == 5, "maximum");
    std::string text = me == largest ? std::string(100 * largest, 'x') + "end" : "other";
    check(ranks.broadcast(text, largest).ok() && text == std::string(100 * largest, 'x') + "end", "broadcast");
    for (int from : {0, largest}) {
      std::string own = ranks.rank() == from ? "mine" : "none";
      check(ranks.toFirst(own.data(), own.size(), from).ok() && own == (ranks.rank() == 0 || ranks.rank() == from ? "mine" : "none"), "to the first");
    }
  }
  Result<std::vector<std::string>> all = ranks.gather(std::string(static_cast<size_t>(me) * 3, 'a'));
  check(all.ok() && all->size() == (me == 0 ? static_cast<size_t>(n) : 0), "gather");
  for (size_t r = 0; all.ok() && r < all->size(); ++r)
    check((*all)[r] == std::string(r * 3, 'a'), "what was gathered");
  Result<int64_t> flag = ranks.agree({}, me == n - 1 ? 15 : 0);
  check(flag.ok() && *flag == 15, "agreement on a flag");
  // All ranks but rank 0 fail: the error is that of the lowest one.
  flag = ranks.agree(me == 0 ? Status() : Status::usage(concat("message ", me)));
  std::string want = "rank 1: message 1";
  check(n == 1 ? flag.ok() : !flag.ok() && flag.status().message() == want && flag.status().exitCode() == 2,
        "agreement on a failure");
  return mistakes;
}
