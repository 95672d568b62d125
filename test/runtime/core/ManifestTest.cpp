#include "runtime/core/Manifest.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/Util.h"

#include <array>
#include <functional>
#include <random>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
Result<Manifest> parse(const Json &json) { return parseManifest(json.dump(), fakeArenaBytes); }
Json fake() { return Json::parse(fakeManifest); }

TEST(ManifestTest, ReadsEverything) {
  Result<Manifest> m = parseManifest(fakeProgram());
  ASSERT_TRUE(succeeded(m));
  EXPECT_EQ(m->model, "line");
  EXPECT_EQ(m->batch, 4);
  EXPECT_EQ(m->learningRate, 0.05);
  ASSERT_EQ(m->inputs.size(), 2u);
  EXPECT_EQ(m->inputs[0].shape, (Shape{4, 3}));
  EXPECT_FALSE(m->inputs[0].padding);
  EXPECT_EQ(m->inputs[1].padding, -100);
  EXPECT_EQ(m->inputs[1].range, (std::pair<int64_t, int64_t>{-50, 50}));
  ASSERT_EQ(m->state.size(), 7u);
  EXPECT_EQ(m->state[2].of, "w");
  EXPECT_EQ(m->state[0].init->kind, Initial::Kind::Uniform);
  EXPECT_EQ(m->state[0].init->value, 0.5);
  EXPECT_EQ(m->stateOf(Role::Step)->offset, 448);
  EXPECT_EQ(m->scalar("rows")->dtype, DataType::I64);
  EXPECT_EQ(m->scalar("nothing"), nullptr);
  EXPECT_EQ(m->result("train", "correct")->when, 2u);
  EXPECT_EQ(m->result("evaluate", "loss")->offset, 1024);
}

/// A place in a manifest, a value for it, and the expected error.
struct Refusal {
  const char *pointer, *value, *message;
};

void expectRefusals(const Json &manifest, std::initializer_list<Refusal> cases) {
  for (const Refusal &c : cases) {
    Json json = manifest;
    json[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    EXPECT_TRUE(failsWith(parse(json), c.message)) << c.pointer << " = " << c.value;
  }
}

TEST(ManifestTest, RefusesWhatItCannotTrust) {
  expectRefusals(fake(), {{"/abi", "1", "not of version 7"},
                          {"/batch", "0", "batch"},
                          {"/batch", "\"4\"", "no integer 'batch'"},
                          {"/inputs/0/offset", "-64", "outside of the arena"},
                          {"/inputs/0/offset", "1216", "outside of the arena"},
                          {"/inputs/0/offset", "9223372036854775807", "outside of the arena"},
                          {"/inputs/0/offset", "18446744073709551615", "too large"},
                          {"/inputs/0/offset", "2", "not aligned"},
                          {"/inputs/0/bytes", "52", "another size"},
                          {"/inputs/0/shape", "[4, -3]", "list of sizes"},
                          {"/inputs/0/shape", "[4, 4294967296, 4294967296]", "another size"},
                          {"/inputs/0/dtype", "\"F33\"", "unknown element type 'F33'"},
                          {"/inputs/0/name", "\"label\"", "two times"},
                          {"/inputs/1/range", "[1]", "range"},
                          {"/state/0/role", "\"king\"", "unknown role"},
                          {"/state/0/offset", "8", "in one place"},
                          {"/state/0/init/kind", "\"magic\"", "unknown kind"},
                          {"/state/5/dtype", "\"F64\"", "one integer"},
                          {"/scalars/0/offset", "2000", "outside"},
                          {"/scalars/1/shape", "[2]", "one number"},
                          {"/results/0/function", "\"test\"", "unknown function"},
                          {"/results/0/kind", "\"index\"", "no range around zero"},
                          {"/results/0/kind", "\"grad_sq_small\"", "fewer than two"},
                          {"/results/0/range", "[1]", "range"},
                          {"/results/0/offset", "null", "no integer 'offset'"},
                          {"/inputs", "3", "no list 'inputs'"},
                          {"/state/0", "[]", "not an object"}});
  EXPECT_TRUE(failsWith(parseManifest("{", 100), "not valid JSON"));
  EXPECT_TRUE(failsWith(parseManifest("[1]", 100), "not an object"));
  DivisiProgram program = fakeProgram();
  program.abi_version = 8;
  EXPECT_TRUE(failsWith(parseManifest(program), "version 8"));
}

/// Replicas that update apart have parameters and moments of their own in checkpoints; the state of an outer optimizer lies behind the arena.
TEST(ManifestTest, ReadsReplicas) {
  Json json = fake();
  json["mesh"] = {{{"name", "data"}, {"size", 2}}};
  json["sync"] = {{"mode", "local"}, {"axis", 0}, {"every", 3}, {"outer", {{"optimizer", "sgd"}, {"lr", 0.5}, {"momentum", 0.9}}}};
  Result<Manifest> m = parse(json);
  ASSERT_TRUE(succeeded(m));
  EXPECT_EQ(m->sync->every, 3);
  EXPECT_EQ(m->sync->outer, Sync::Outer::Sgd);
  EXPECT_EQ(m->sync->endFrom(4), 6);
  EXPECT_TRUE(m->state[0].apart);
  Shape stored = m->state[0].shape;
  stored.insert(stored.begin(), 2);
  EXPECT_EQ(m->storedShape(m->state[0], m->state[0].shape), stored);
  EXPECT_EQ(m->storedSlice(m->state[0], m->state[0], 1).start[0], 1);
  EXPECT_FALSE(m->stateOf(Role::Step)->apart);
  const State &last = m->state.back();
  EXPECT_TRUE(last.name.ends_with(outerMomentumSuffix));
  EXPECT_FALSE(last.apart);
  EXPECT_GE(last.offset, static_cast<int64_t>(fakeArenaBytes));
  EXPECT_EQ(m->arenas[0], static_cast<uint64_t>(last.offset + last.bytes));
  json.erase("sync");
  Result<Manifest> together = parse(json);
  ASSERT_TRUE(succeeded(together));
  EXPECT_NE(together->identity(), m->identity());
  json["sync"] = {{"mode", "driver"}, {"axis", 0}};
  Result<Manifest> driven = parse(json);
  ASSERT_TRUE(succeeded(driven));
  EXPECT_TRUE(driven->reducers && driven->reducers->axis == 0 && !driven->reducers->all);
  EXPECT_EQ(driven->identity(), together->identity());
  json["sync"] = {{"mode", "server"}, {"axis", 0}};
  Result<Manifest> served = parse(json);
  ASSERT_TRUE(succeeded(served));
  EXPECT_TRUE(served->reducers && served->reducers->axis == 0 && served->reducers->all);
  json["sync"] = {{"mode", "local"}, {"axis", 0}, {"every", 3}, {"outer", {{"optimizer", "sgd"}, {"lr", 1}, {"momentum", 0}}}};
  expectRefusals(json, {{"/sync/mode", "\"luck\"", "unknown mode"},
                        {"/sync/axis", "1", "no replicas"},
                        {"/sync/axis", "-1", "no replicas"},
                        {"/sync/every", "0", "no number of steps"},
                        {"/sync/outer/optimizer", "\"adam\"", "unknown"},
                        {"/mesh/0/name", "\"stage\"", "stage"},
                        {"/sync", "{\"mode\": \"gossip\", \"axis\": 0, \"topology\": \"star\"}", "unknown topology"},
                        {"/sync", "{\"mode\": \"driver\", \"axis\": 4}", "does not have"},
                        {"/sync", "{\"mode\": \"server\", \"axis\": -1}", "does not have"}});
}

/// A pipeline of two stages, two replicas, two servers. Each server has a rank for each stage, with updates of its own.
TEST(ManifestTest, ReadsServersOfStages) {
  Json json = fake();
  json["mesh"] = {{{"name", "stage"}, {"size", 2}}, {{"name", "data"}, {"size", 2}}};
  for (Json &state : json["state"])
    if (state["role"] != "step" && state["role"] != "seed")
      state["stage"] = state["name"].get<std::string>().starts_with("bias") ? 1 : 0;
  for (Json &result : json["results"])
    result["stage"] = 1;
  json["tasks"] = {"work 0", "work 1", "update w", "update bias", "count 0", "count 1", "evaluate"};
  json["tables"] = Json::parse(R"({"train": [[[0, 0, 0], [2, 0, 0], [4, 0, 0]], [[1, 0, 0], [3, 0, 0], [5, 0, 0]]], "evaluate": [[[6, 0, 0]], [[6, 0, 0]]]})");
  json["sync"] = Json::parse(R"({"mode": "server", "axis": 1, "updates": [
    {"task": 2, "pushed": [{"dtype": "F32", "shape": [3], "offset": 704, "combine": "sum"}], "renews": ["w", "w.momentum", "mean", "divisi.step"]},
    {"task": 4, "pushed": [], "renews": ["divisi.step"]},
    {"task": 3, "pushed": [{"dtype": "I64", "shape": [], "offset": 960, "combine": "copy"}], "renews": ["bias", "bias.momentum", "divisi.step"]},
    {"task": 5, "pushed": [], "renews": ["divisi.step"]}]})");
  Result<Manifest> m = parse(json);
  ASSERT_TRUE(succeeded(m));
  EXPECT_EQ(m->ranks(), 8);
  EXPECT_FALSE(m->canLoseWorkers());
  EXPECT_EQ(m->servers->count(), 2);
  m->localize(3); // of the second stage and replica
  EXPECT_FALSE(m->server);
  EXPECT_EQ(m->updates()[0].task, 3);
  EXPECT_EQ(m->updates()[0].pushed[0].bytes, 8);
  EXPECT_EQ(m->serverRank(1), 7);
  EXPECT_EQ(m->serverRank(1, m->firstOf(0)), 6);
  m->localize(6);
  EXPECT_EQ(m->server, 1);
  EXPECT_EQ(m->rank, 0);
  EXPECT_EQ(m->updates()[1].task, 4);
  EXPECT_EQ(m->workerRank(1), 1);
  EXPECT_EQ(m->ownMesh().inStage(6, 1), 7);
  EXPECT_FALSE(m->state[1].here);
  expectRefusals(json, {{"/sync/axis", "0", "no replicas"},
                        {"/sync/updates/0/task", "9", "training does not run"},
                        {"/sync/updates/0/task", "4", "two servers"},
                        {"/sync/updates/1/task", "1", "another number for another stage"},
                        {"/sync/updates/0/renews", "[\"w\", \"bias\"]", "'bias', which its stage does not have"},
                        {"/sync/updates/0/renews", "[\"mean\"]", "0 servers that renew 'w'"},
                        {"/sync/updates/1/renews", "[\"w\"]", "2 servers that renew 'w'"},
                        {"/sync/updates/0/renews/0", "3", "without a name"},
                        {"/sync/updates/0/pushed/0/offset", "-1", "no place in the arena"},
                        {"/sync/updates/0/pushed/0/combine", "\"luck\"", "no known way"}});
}

/// Damage never leads to a crash or to a range outside of the arena: checks many damaged manifests, of which some must
/// be accepted, but not all.
void checkMutations(const std::string &text, unsigned seed, const std::function<void(const Manifest &)> &check) {
  std::mt19937 random(seed);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string mutated = text;
    for (unsigned n = 0; n < 1 + random() % 3; ++n)
      mutated[random() % mutated.size()] = "0123456789-[]{},\":aeF"[random() % 21];
    Result<Manifest> m = parseManifest(mutated, fakeArenaBytes);
    if (m.ok()) {
      accepted += 1;
      check(*m);
    } else {
      EXPECT_FALSE(m.status().message().empty());
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 3000);
}

TEST(ManifestTest, SurvivesMutations) {
  checkMutations(fakeManifest, 1, [](const Manifest &m) {
    for (const State &s : m.state)
      ASSERT_TRUE(s.offset >= 0 && s.bytes >= 0 && uint64_t(s.offset) + uint64_t(s.bytes) <= fakeArenaBytes);
  });
}

TEST(ManifestTest, ReadsPredictionsAndAverages) {
  Json json = fake();
  json["predictions"] = Json::parse(R"([{"name": "scores", "dtype": "F32", "shape": [8, 2], "offset": 1024, "inputs": ["x"]}])");
  Json average = json["state"][2]; // of w
  average["average"] = true;
  json["state"][2] = average;
  Result<Manifest> m = parse(json);
  ASSERT_TRUE(succeeded(m));
  ASSERT_EQ(m->predictions.size(), 1u);
  EXPECT_EQ(m->predictions[0].shape, (Shape{8, 2}));
  EXPECT_EQ(m->predictions[0].inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(m->averageOf(m->state[0]), &m->state[2]);
  EXPECT_EQ(m->averageOf(m->state[1]), nullptr);
  expectRefusals(json, {{"/predictions/0/shape", "[6, 2]", "has no rows for each of the batch"},
                        {"/predictions/0/shape", "[]", "has no rows for each of the batch"},
                        {"/predictions/0/offset", "1000000", "outside of the arena"},
                        {"/predictions/0/name", "\"\"", "no name of its own"},
                        {"/predictions/0/inputs", "[3]", "a name that is no text among its inputs"},
                        {"/predictions/0/metrics", "[3]", "a name that is no text among its metrics"},
                        {"/state/2/of", "\"nothing\"", "is not like its parameter"},
                        {"/state/2/role", "\"parameter\"", "is an average of no parameter"}});
  checkMutations(json.dump(), 3, [](const Manifest &damaged) {
    for (const Prediction &p : damaged.predictions)
      ASSERT_TRUE(p.offset >= 0 && uint64_t(p.offset) + uint64_t(p.bytes) <= fakeArenaBytes && p.shape[0] % damaged.batch == 0);
  });
}

TEST(ManifestTest, IdentityFollowsTheState) {
  std::string identity = parse(fake())->identity();
  Json json = fake();
  json["inputs"][0]["name"] = "other";
  EXPECT_EQ(parse(json)->identity(), identity);
  json["state"][0]["name"] = "other";
  EXPECT_NE(parse(json)->identity(), identity);
  json = fake();
  json["state"][0]["shape"] = {3, 1};
  EXPECT_NE(parse(json)->identity(), identity);
}

TEST(HashTest, KnownValues) {
  EXPECT_EQ(fnv1a64("", 0), "fnv1a64:cbf29ce484222325");
  EXPECT_EQ(fnv1a64("a", 1), "fnv1a64:af63dc4c8601ec8c");
  EXPECT_EQ(fnv1a64("foobar", 6), "fnv1a64:85944171f73967e8");
  std::string large(3 << 20, 'x');
  large += "foobar";
  ChunkHasher whole, parts;
  whole.add(large.data(), large.size());
  for (size_t at = 0, bytes = 1; at < large.size(); at += bytes, bytes = bytes * 3 % 100003)
    parts.add(large.data() + at, std::min(bytes, large.size() - at));
  EXPECT_EQ(whole.bytes(), (3 << 20) + 6);
  std::string hashes = std::move(whole).text();
  EXPECT_EQ(std::move(parts).text(), hashes);
  EXPECT_EQ(hashes.substr(48), "85944171f73967e8"); // of "foobar"
  EXPECT_TRUE(ChunkHasher::matches(hashes, 1, large.data() + (1 << 20), 1 << 20));
  large[2 << 20] = 'y';
  EXPECT_TRUE(ChunkHasher::matches(hashes, 1, large.data() + (1 << 20), 1 << 20));
  EXPECT_FALSE(ChunkHasher::matches(hashes, 2, large.data() + (2 << 20), 1 << 20));
  EXPECT_FALSE(ChunkHasher::matches(hashes, 4, large.data(), 0));
}

/// A fake program's manifest on a mesh of 2 x 3, with an input sharded along both axes.
Json meshed() {
  Json json = fake();
  json["mesh"] = {{{"name", "data"}, {"size", 2}}, {{"name", "model"}, {"size", 3}}};
  json["inputs"][0]["global_shape"] = {8, 9};
  json["inputs"][0]["split"] = {{0}, {1}};
  json["collectives"] = {{{"id", 4}, {"name", "all_reduce of w"}}};
  return json;
}

using Runs = std::vector<std::array<int64_t, 3>>;
/// Index in the tensor, index in the slice, count.
Runs runsOf(const Slice &slice) {
  Runs runs;
  slice.forEachRun([&](int64_t there, int64_t here, int64_t count) { runs.push_back({there, here, count}); });
  return runs;
}

TEST(SliceTest, LeavesOutWhatPaddingAdded) {
  // 7 x 5 padded to 8 x 6: the last of 2 x 1 shards, 4 x 6, has 3 rows of 5 elements.
  EXPECT_EQ(runsOf({{7, 5}, {4, 6}, {4, 0}}), (Runs{{20, 0, 5}, {25, 6, 5}, {30, 12, 5}}));
  // A shard that is completely in the padding.
  EXPECT_EQ(runsOf({{3}, {2}, {4}}), Runs());
  // Unsharded minor dimensions make long runs.
  EXPECT_EQ(runsOf({{8, 5}, {4, 5}, {4, 0}}), (Runs{{20, 0, 20}}));
  EXPECT_EQ(runsOf({{}, {}, {}}), (Runs{{0, 0, 1}}));
}

TEST(ManifestTest, KnowsThePiecesOfRanks) {
  Result<Manifest> m = parse(meshed());
  ASSERT_TRUE(succeeded(m));
  EXPECT_EQ(m->mesh.size(), 6);
  EXPECT_EQ(m->collectives.at(4), "all_reduce of w");
  EXPECT_EQ(m->inputs[0].wholeShape(), (Shape{8, 9}));
  EXPECT_FALSE(m->inputs[1].isSplit());
  // Rank 5 is the last one along both axes.
  Slice slice = m->sliceOf(m->inputs[0], 5);
  EXPECT_EQ(slice.start, (Shape{4, 6}));
  EXPECT_EQ(runsOf(slice), (Runs{{4 * 9 + 6, 0, 3}, {5 * 9 + 6, 3, 3}, {6 * 9 + 6, 6, 3}, {7 * 9 + 6, 9, 3}}));
  EXPECT_EQ(m->mesh.group(5, std::vector<int64_t>{0}), (std::vector<int>{2, 5}));
  EXPECT_EQ(m->mesh.group(4, std::vector<int64_t>{1, 0}), (std::vector<int>{0, 3, 1, 4, 2, 5}));
}

TEST(ManifestTest, RefusesMeshesThatCannotBe) {
  expectRefusals(meshed(), {{"/mesh/0/size", "0", "size that cannot be"},
                            {"/mesh/0/size", "-2", "size that cannot be"},
                            {"/mesh/0/size", "9000000000000000000", "size that cannot be"},
                            {"/mesh/0/size", "65536", "size that cannot be"},
                            {"/mesh/1/name", "\"data\"", "no name of its own"},
                            {"/mesh/0/size", "4", "do not make up"},
                            {"/inputs/0/split", "[[0], [2]]", "that the mesh does not have"},
                            {"/inputs/0/split", "[[0], [-1]]", "that the mesh does not have"},
                            {"/inputs/0/split", "[[0], [0]]", "twice over one"},
                            {"/inputs/0/split", "[[0], [\"x\"]]", "that the mesh does not have"},
                            {"/inputs/0/split", "[0, 1]", "not a list for each dimension"},
                            {"/inputs/0/split", "[[0, 1]]", "do not make up"},
                            {"/inputs/0/split", "[[1], [0]]", "do not make up"},
                            {"/inputs/0/global_shape", "[8, 10]", "do not make up"},
                            {"/inputs/0/global_shape", "[8]", "do not make up"},
                            {"/inputs/0/global_shape", "[-8, -9]", ""},
                            {"/mesh", "[{\"name\": \"a\", \"size\": 1}]", "that the mesh does not have"},
                            {"/mesh", "3", ""},
                            {"/collectives", "[{\"id\": 1, \"name\": \"a\"}, {\"id\": 1, \"name\": \"b\"}]",
                             "number 1 of another one"}});
}
/// The fake program's manifest on a pipeline of 2 stages x 2 ranks: the first stage has x and w, the second the label,
/// the bias and the results; both have `mean`, the step and the seed.
Json staged() {
  Json json = fake();
  json["mesh"] = {{{"name", "stage"}, {"size", 2}}, {{"name", "data"}, {"size", 2}}};
  json["stages"] = {{{"arena", 1216}}, {{"arena", 1152}}};
  json["inputs"][0].update({{"stage", 0}, {"shape", {2, 2, 3}}, {"microbatches", 2}});
  json["inputs"][1].update({{"stage", 1}, {"shape", {2, 2}}, {"microbatches", 2}});
  for (Json &state : json["state"])
    state["stage"] = state["name"].get<std::string>().starts_with("bias") ? 1 : 0;
  Json state = json["state"];
  for (auto [i, offset] : {std::pair{4, 256}, {5, 384}, {6, 448}}) {
    state[i].update({{"stage", 1}, {"offset", offset}});
    json["state"].insert(json["state"].begin(), state[i]);
  }
  for (Json &scalar : json["scalars"])
    scalar["stage"] = 1;
  json["results"].erase(7); // at 1152
  for (Json &result : json["results"])
    result["stage"] = 1;
  json["tasks"] = {"forward", "backward", "train"};
  json["tables"] = {{"train", {{{0, 0, 0}, {0, 1, 64}, {1, 0, 0}, {1, 1, 64}}, {{2, 0, 0}, {2, 1, 0}}}},
                    {"evaluate", {{{0, 0, 0}}, Json::array()}}};
  json["calls"] = {{{"kind", "send"}, {"id", 1}, {"task", 0}},
                   {{"kind", "gemm"}, {"task", 2}},
                   {{"kind", "await"}, {"id", 1}},
                   {{"kind", "receive"}, {"task", 1}}};
  return json;
}

TEST(ManifestTest, AStageMayLackAnAxis) {
  Json json = staged();
  json["stages"][1]["lacking"] = {1};
  Result<Manifest> m = parse(json);
  ASSERT_TRUE(succeeded(m));
  EXPECT_EQ(m->mesh.size(), 3);
  EXPECT_EQ(m->firstOf(1), 2);
  EXPECT_EQ(m->stageOf(2), 1);
  for (const char *lacking : {"[2]", "[0]", "[1, 1]", "[-1]", "[\"data\"]", "3"}) {
    json["stages"][1]["lacking"] = Json::parse(lacking);
    EXPECT_FALSE(parse(json).ok()) << lacking;
  }
  json = staged(); // the label's rows are no longer two ranks' halves
  json["inputs"][1].update({{"global_shape", {2, 4}}, {"split", {Json::array(), {1}}}});
  ASSERT_TRUE(succeeded(parse(json)));
  json["stages"][1]["lacking"] = {1};
  Result<Manifest> wrong = parse(json);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("split over an axis that its stage lacks"), std::string::npos)
      << wrong.status().message();
}

/// The stage of ranks 0 and 1 has two replicas that take microbatches in turn; the other is one rank.
TEST(ManifestTest, ARankHasTheTasksOfItsTurns) {
  Json json = staged();
  json["stages"][0]["turns"] = 1;
  json["stages"][1]["lacking"] = {1};
  json["tables"]["train"] = {{{0, 0, 0, 0}, {0, 1, 64, 1}, {1, 0, 0, 0}, {1, 1, 64, 1}}, {{2, 0, 0, 0}, {2, 1, 0, 0}}};
  for (int64_t rank : {0, 1, 2}) {
    Result<Manifest> m = parse(json);
    ASSERT_TRUE(succeeded(m));
    m->localize(rank);
    EXPECT_EQ(m->turnOf(rank), (rank < 2 ? std::pair<int64_t, int64_t>(rank, 2) : std::pair<int64_t, int64_t>(0, 1)));
    ASSERT_EQ(m->table("train")->size(), 2u);
    for (const Row &row : *m->table("train"))
      EXPECT_TRUE(rank == 2 || row.microbatch == rank);
    EXPECT_EQ(m->mesh.inTurn(rank, 0, 5), 1);
    EXPECT_EQ(m->mesh.inTurn(rank, 1, 5), 2);
  }
  for (const char *turns : {"0", "2", "-1", "\"turn\""}) {
    Json wrong = json;
    wrong["stages"][0]["turns"] = Json::parse(turns);
    EXPECT_FALSE(parse(wrong).ok()) << turns;
  }
  for (int replica : {-1, 2}) {
    Json wrong = json;
    wrong["tables"]["train"][0][0][3] = replica;
    EXPECT_FALSE(parse(wrong).ok()) << replica;
  }
  json["stages"][0].erase("turns");
  EXPECT_FALSE(parse(json).ok());
}

TEST(ManifestTest, EachRankHasWhatItsStageHas) {
  Result<Manifest> m = parse(staged());
  ASSERT_TRUE(succeeded(m));
  EXPECT_EQ(m->stages(), 2);
  EXPECT_EQ(m->firstOf(1), 2);
  ASSERT_EQ(m->inputs.size(), 2u);
  EXPECT_EQ(m->inputs[0].wholeShape(), (Shape{4, 3}));
  EXPECT_EQ(m->state.size(), 7u);
  EXPECT_EQ(m->stateOf(Role::Step)->owner().stage, 0);
  auto kinds = [](const Manifest &local) {
    std::string all;
    for (const Call &call : local.calls)
      all += concat(call.kind, " ", call.microbatch, ", ");
    return all;
  };
  Manifest first = *m, second = *m;
  first.localize(1);
  EXPECT_TRUE(first.inputs[0].here);
  EXPECT_FALSE(first.inputs[1].here);
  EXPECT_EQ(first.stateOf(Role::Step)->offset, 448);
  EXPECT_FALSE(first.scalar("rows")->here);
  EXPECT_FALSE(first.result("train", "loss")->here);
  EXPECT_EQ(first.table("train")->size(), 4u);
  EXPECT_EQ(first.table("train")->at(3).slot, 64);
  EXPECT_EQ(kinds(first), "send 0, send 1, receive 0, receive 1, ");
  second.localize(2);
  EXPECT_FALSE(second.inputs[0].here);
  EXPECT_EQ(second.stateOf(Role::Step)->offset, 384);
  EXPECT_EQ(second.stateOf(Role::Step)->owner().offset, 448);
  EXPECT_TRUE(second.scalar("rows")->here);
  EXPECT_TRUE(second.table("evaluate")->empty());
  EXPECT_EQ(second.table("test"), nullptr);
  EXPECT_EQ(kinds(second), "gemm 0, await 0, gemm 1, await 1, ");
}

TEST(ManifestTest, RefusesStagesThatCannotBe) {
  Json split = staged();
  split["state"][3].update({{"global_shape", {6}}, {"split", {{1}}}}); // w
  expectRefusals(split,
                 {{"/tasks", "\"train\"", "no list 'tasks'"},
                  {"/tasks/1", "7", "whose name is no text"},
                  {"/tasks", "[\"a\"]", "runs a task that there is not"},
                  {"/tables/train/0/0/0", "3", "runs a task that there is not"},
                  {"/tables/train/0/0/0", "-1", "runs a task that there is not"},
                  {"/tables/train/0/0/0", "18446744073709551615", "runs a task that there is not"},
                  {"/tables/train/0/0/0", "0.5", "not three or four integers"},
                  {"/tables/train/0/0/1", "-1", "runs a microbatch that there is not"},
                  {"/tables/train/0/0/1", "2", "runs a microbatch that there is not"},
                  {"/tables/train/0/0/2", "-64", "slot outside of the arena"},
                  {"/tables/train/0/0/2", "1280", "slot outside of the arena"},
                  {"/tables/train/1/0/2", "1216", "slot outside of the arena"},
                  {"/tables/train/0/0/2", "32", "not aligned"},
                  {"/tables/train/0/0", "[0, 0]", "not three or four integers"},
                  {"/tables/train/0", "3", "not one list for each stage"},
                  {"/tables/train", "[[]]", "not one list for each stage"},
                  {"/tables/train", "{}", "not one list for each stage"},
                  {"/tables/test", "[[], []]", "'test' is of an unknown function"},
                  {"/tables", "[]", "'tables'"},
                  {"/calls/0/task", "3", "belongs to a task that there is not"},
                  {"/calls/0/task", "-1", "belongs to a task that there is not"},
                  {"/stages", "[{\"arena\": 1216}]", "has 1 stages, but the mesh has 2"},
                  {"/stages/0/arena", "1217", "a size that cannot be"},
                  {"/stages/0/arena", "-1", "a size that cannot be"},
                  {"/stages/0", "5", "not an object"},
                  {"/stages/1/arena", "1000", "outside of the arena"},
                  {"/inputs/0/stage", "2", "of a stage that there is not"},
                  {"/inputs/0/stage", "-1", "of a stage that there is not"},
                  {"/inputs/0/microbatches", "3", "not that of microbatches"},
                  {"/inputs/0/microbatches", "0", "not that of microbatches"},
                  {"/inputs/0/shape", "[3, 4]", "not that of microbatches"},
                  {"/state/0/stage", "0", "two times the state 'divisi.seed'"},
                  {"/state/0/dtype", "\"U64\"", "do not agree"},
                  {"/state/2/shape", "[1, 1]", "do not agree"},
                  {"/state/2/role", "\"constant\"", "do not agree"},
                  {"/state/2/offset", "192", "in one place"},
                  {"/results/0/stage", "7", "of a stage that there is not"},
                  {"/results/1", R"({"function": "train", "kind": "loss", "dtype": "F32", "offset": 0, "stage": 0})",
                   "two times the result 'loss' of 'train'"},
                  {"/state/3/split", "[[0]]", "one stage and split over stages"}});
  // A tensor of all stages and one of a single stage share an arena.
  Json json = staged();
  json["state"][3].erase("stage");
  json["state"][3]["offset"] = 320;
  EXPECT_TRUE(failsWith(parse(json), "in one place"));
  DivisiProgram program = fakeProgram();
  program.task_count = 3;
  EXPECT_TRUE(failsWith(parseManifest(program), "has 3 tasks, but its manifest names 2"));
}

/// Damage never leads to a crash on any rank: every row of every rank runs a task, and its buffer slots are inside of
/// the arena.
void checkRanks(const Manifest &m) {
  for (int64_t rank = 0; rank < std::min<int64_t>(m.mesh.size(), 8); ++rank) {
    Manifest local = m;
    local.localize(rank);
    uint64_t arena = local.arenas[static_cast<size_t>(local.stageOf(rank))];
    ASSERT_LE(arena, fakeArenaBytes);
    for (const State &s : local.state)
      ASSERT_TRUE(!s.here || (s.offset >= 0 && uint64_t(s.offset + s.bytes) <= arena));
    for (const Row &row : local.table("train") ? *local.table("train") : Table())
      ASSERT_TRUE(row.task >= 0 && static_cast<size_t>(row.task) < local.tasks.size() && row.slots >= 1 &&
                  row.slot >= 0 && uint64_t(row.slot + row.stride * row.slots) <= arena);
  }
}

TEST(ManifestTest, SurvivesMutationsOfStages) { checkMutations(staged().dump(), 2, checkRanks); }

/// Two stages with minibatches in flight.
Json asynchronous() {
  Json json = staged();
  json["tables"]["train"] = {{{0, 0, 0, 64, 2, 0}, {1, -1, 0, 64, 2, 2}}, {{2, 1, 0, 128, 2, 0}, {2, 0, 0, 128, 2, 0}}};
  return json;
}

TEST(ManifestTest, AsynchronousStepsHaveMinibatchesInFlight) {
  EXPECT_FALSE(parse(staged())->asynchronous);
  Result<Manifest> m = parse(asynchronous());
  ASSERT_TRUE(succeeded(m));
  EXPECT_TRUE(m->asynchronous);
  EXPECT_EQ(m->lagOf(0), 1);
  EXPECT_EQ(m->lagOf(1), 0);
  EXPECT_EQ(m->longestLag(), 1);
  EXPECT_EQ(m->table("train")->at(1).stride, 64);
  EXPECT_EQ(m->table("train")->at(1).slots, 2);
  EXPECT_EQ(m->table("train")->at(1).when, Row::When::last);
}

TEST(ManifestTest, RefusesSlotsOfMinibatchesThatAreNotThere) {
  expectRefusals(asynchronous(), {{"/tables/train/0/0", "[0, 0, 0]", "rows of both kinds"},
                                  {"/tables/train/1/1", "[0, 0, 0]", "rows of both kinds"},
                                  {"/tables/train/0/0", "[0, 0]", "not three or four integers, or six"},
                                  {"/tables/train/0/0/1", "-4097", "runs a microbatch that there is not"},
                                  {"/tables/train/0/0/1", "4097", "runs a microbatch that there is not"},
                                  {"/tables/train/0/0/3", "-64", "slots that do not fit"},
                                  {"/tables/train/0/0/3", "32", "slots that do not fit"},
                                  {"/tables/train/0/0/3", "640", "slots that do not fit"},
                                  {"/tables/train/0/0/3", "9223372036854775744", "slots that do not fit"},
                                  {"/tables/train/0/0/4", "0", "slots that do not fit"},
                                  {"/tables/train/0/0/4", "-1", "slots that do not fit"},
                                  {"/tables/train/0/0/4", "9000", "slots that do not fit"},
                                  {"/tables/train/0/0/2", "1152", "slot outside of the arena"},
                                  {"/tables/train/0/0/5", "3", "minibatches that there are not"},
                                  {"/tables/train/0/0/5", "-1", "minibatches that there are not"},
                                  {"/tables/evaluate/0/0", "[0, 0, 0, 64, 2, 0]", "not three or four integers, or six"}});
  checkMutations(asynchronous().dump(), 3, checkRanks);
}
} // namespace
