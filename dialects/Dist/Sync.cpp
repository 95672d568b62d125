#include "dialects/Dist/Sync.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

#include <charconv>

using namespace mlir;
using namespace divisi::dist;

static constexpr llvm::StringLiteral modes[] = {"all-reduce", "local", "gossip", "driver", "server", "async-server"};
static constexpr llvm::StringLiteral outers[] = {"mean", "sgd", "nesterov"};
static constexpr llvm::StringLiteral topologies[] = {"ring", "exponential", "pairs"};

template <typename Kind, size_t count>
static std::optional<Kind> find(const llvm::StringLiteral (&names)[count], StringRef text) {
  const auto *it = llvm::find(names, text);
  return it == std::end(names) ? std::nullopt : std::optional((Kind)(it - names));
}

std::optional<Sync::Mode> Sync::parseMode(StringRef text) { return find<Mode>(modes, text); }
std::optional<Sync::Outer> Sync::parseOuter(StringRef text) { return find<Outer>(outers, text); }
std::optional<Sync::Topology> Sync::parseTopology(StringRef text) { return find<Topology>(topologies, text); }
StringRef Sync::nameOf(Topology topology) { return topologies[(size_t)topology]; }
StringRef Sync::nameOf(Mode mode) { return modes[(size_t)mode]; }
StringRef Sync::nameOf(Outer outer) { return outers[(size_t)outer]; }

std::string Sync::invalid() const {
  if (every < 1 || every > 1'000'000)
    return "replicas are averaged every 1 to 1000000 steps (--average-every), not every " + std::to_string(every);
  if (!(outerRate > 0 && outerRate <= 10))
    return "the outer learning rate (--outer-lr) must be above 0, and at most 10";
  if (!(outerMomentum >= 0 && outerMomentum < 1))
    return "the outer momentum (--outer-momentum) must be at least 0, and below 1";
  if (asynchronous && topology != Topology::ring)
    return "asynchronous gossip is on a ring, whose replicas ask and answer by turns: leave out --topology or --asynchronous";
  if (overlap && averageState)
    return "averages that overlap with the next steps are of parameters alone: those of the optimizer's state (--average-state) would come too late";
  if (servers < 0 || servers > 1024 || (mode == Mode::asyncServer && servers == 0))
    return "there are 1 to 1024 servers (--servers), not " + std::to_string(servers);
  if (maxStaleness && *maxStaleness < 1)
    return "a replica may be 1 or more batches ahead of the slowest one (--max-staleness), or any number (none); with 0 all would wait for each other in "
           "every step: that is --sync server";
  return "";
}

int64_t Sync::serverRanks(const Mesh &mesh) const {
  auto replicas = mesh.find(replicaAxis);
  return replicas ? servers * (mesh.devices() / mesh.axes[*replicas].size) : 0;
}

DictionaryAttr Sync::toAttr(MLIRContext *context) const {
  if (mode == Mode::allReduce)
    return {};
  Builder b(context);
  NamedAttrList list;
  list.set("mode", b.getStringAttr(nameOf(mode)));
  if (mode == Mode::gossip)
    list.set("topology", b.getStringAttr(nameOf(topology)));
  if (asynchronous)
    list.set("asynchronous", b.getUnitAttr());
  if (mode == Mode::local)
    list.set("every", b.getI64IntegerAttr(every));
  if (servers > 0)
    list.set("servers", b.getI64IntegerAttr(servers));
  if (maxStaleness)
    list.set("max_staleness", b.getI64IntegerAttr(*maxStaleness));
  if (averageState)
    list.set("average_state", b.getUnitAttr());
  if (overlap)
    list.set("overlap", b.getUnitAttr());
  if (outer != Outer::mean) {
    list.set("outer", b.getStringAttr(nameOf(outer)));
    list.set("outer_lr", b.getF64FloatAttr(outerRate));
    list.set("outer_momentum", b.getF64FloatAttr(outerMomentum));
  }
  return list.getDictionary(context);
}

FailureOr<Sync> Sync::parse(Attribute attr, llvm::function_ref<InFlightDiagnostic()> error) {
  Sync sync;
  if (!attr)
    return sync;
  auto fail = [&](const Twine &what) { return error() << "'sync': " << what; };
  auto dictionary = dyn_cast<DictionaryAttr>(attr);
  auto name = dictionary ? dictionary.getAs<StringAttr>("mode") : StringAttr();
  auto mode = name ? parseMode(name.getValue()) : std::nullopt;
  if (!mode)
    return fail("expected {mode = \"local\", every = 8 : i64} and perhaps {average_state, overlap, outer, outer_lr, outer_momentum}, or "
                "{mode = \"gossip\", topology = \"ring\"} and perhaps {asynchronous}, or {mode = \"driver\"}, or {mode = \"server\"} and perhaps {servers}, or "
                "{mode = \"async-server\", servers = 1 : i64} and perhaps {max_staleness}");
  sync.mode = *mode;
  for (NamedAttribute entry : dictionary) {
    StringRef key = entry.getName();
    Attribute value = entry.getValue();
    auto number = dyn_cast<FloatAttr>(value);
    bool known = key == "mode";
    if (auto text = dyn_cast<StringAttr>(value); sync.mode == Mode::gossip && key == "topology" && text && parseTopology(text.getValue()))
      sync.topology = *parseTopology(text.getValue()), known = true;
    if (sync.mode == Mode::gossip && key == "asynchronous" && isa<UnitAttr>(value))
      sync.asynchronous = known = true;
    auto count = dyn_cast<IntegerAttr>(value);
    if (count && !count.getType().isInteger(64))
      count = {};
    if (key == "servers" && count && (sync.mode == Mode::server || sync.mode == Mode::asyncServer))
      sync.servers = count.getInt(), known = true;
    if (key == "max_staleness" && count && sync.mode == Mode::asyncServer)
      sync.maxStaleness = count.getInt(), known = true;
    if (!known && sync.mode != Mode::local)
      return fail("there is no '" + key + "' with such a value");
    if (key == "every" && count)
      sync.every = count.getInt(), known = true;
    if (key == "average_state" && isa<UnitAttr>(value))
      sync.averageState = known = true;
    if (key == "overlap" && isa<UnitAttr>(value))
      sync.overlap = known = true;
    if (auto text = dyn_cast<StringAttr>(value); key == "outer" && text && parseOuter(text.getValue()))
      sync.outer = *parseOuter(text.getValue()), known = true;
    if (key == "outer_lr" && number)
      sync.outerRate = number.getValueAsDouble(), known = true;
    if (key == "outer_momentum" && number)
      sync.outerMomentum = number.getValueAsDouble(), known = true;
    if (!known)
      return fail("there is no '" + key + "' with such a value");
  }
  // What means something else when it is left out, or nothing.
  if (dictionary.contains("servers") && sync.servers < 1)
    return fail("'servers' must be a number from 1 to 1024; without it, every replica is a server");
  if (sync.mode == Mode::asyncServer && !dictionary.contains("servers"))
    return fail("'servers' is missing: async-server has servers of its own");
  if (sync.mode == Mode::local && !dictionary.contains("every"))
    return fail("'every' is missing: the number of steps from one average to the next");
  for (const char *key : {"outer_lr", "outer_momentum"})
    if (dictionary.contains(key) != (sync.outer != Outer::mean))
      return fail(sync.outer == Outer::mean ? "'" + Twine(key) + "' is for an 'outer' of \"sgd\" or \"nesterov\"" : "'" + Twine(key) + "' is missing");
  if (std::string wrong = sync.invalid(); !wrong.empty())
    return fail(wrong);
  return sync;
}

FailureOr<Sync> Sync::of(ModuleOp module) {
  return parse(module->getDiscardableAttr(names::sync), [&] { return module.emitError(); });
}

static std::string exactly(double number) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), number).ptr};
}

std::string Sync::text(int64_t replicas) const {
  std::string text = nameOf(mode).str();
  if (!isApart())
    return text;
  if (mode == Mode::asyncServer)
    return text + ", an update by the gradient of each replica"; // of which a resumed job may have another number
  text += " of " + std::to_string(replicas) + " replicas";
  if (mode == Mode::gossip)
    return text + ", " + nameOf(topology).str() + (asynchronous ? ", asynchronous" : "");
  text += ", averaged every " + std::to_string(every) + " steps";
  if (averageState)
    text += " with the optimizer's state";
  if (overlap)
    text += " during the next ones";
  if (outer != Outer::mean)
    text += ", outer " + nameOf(outer).str() + " lr " + exactly(outerRate) + " momentum " + exactly(outerMomentum);
  return text;
}
