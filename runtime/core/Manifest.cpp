#include "runtime/core/Manifest.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"

#include <algorithm>
#include <array>
#include <set>

using namespace divisi::runtime;

namespace {
constexpr std::array<const char *, 6> roleNames = {"parameter", "buffer", "constant", "moment", "step", "seed"};

std::optional<Role> parseRole(const std::string &name) {
  for (size_t i = 0; i < roleNames.size(); ++i)
    if (name == roleNames[i])
      return static_cast<Role>(i);
  return std::nullopt;
}

/// Reads the parts of a manifest; the first mistake ends it.
class Parser {
public:
  Parser(Manifest &manifest, uint64_t arenaBytes) : manifest(manifest), arenaBytes(arenaBytes) {}

  Status parse(const Json &json) {
    JsonReader top(json, "the program's manifest");
    if (top.integer("abi") != DIVISI_ABI_VERSION)
      top.fail(concat("is not of version ", DIVISI_ABI_VERSION));
    manifest.model = top.text("model", "model");
    manifest.batch = top.integer("batch");
    if (manifest.batch < 1)
      top.fail("has a batch of less than one row");
    JsonReader weights(top.object("weights"), "the manifest's weights");
    manifest.weightsFile = weights.text("file", "");
    manifest.weightsHash = weights.text("hash", "");
    JsonReader defaults(top.object("defaults"), "the manifest's defaults");
    manifest.learningRate = defaults.number("lr", manifest.learningRate);
    manifest.schedule = defaults.text("lr_schedule", manifest.schedule);
    manifest.warmupSteps = defaults.integer("warmup_steps", 0);
    manifest.stepSize = defaults.integer("step_size", 0);
    manifest.gamma = defaults.number("gamma", manifest.gamma);
    keep(weights.status());
    keep(defaults.status());
    parseMesh(top.array("mesh"));
    for (const Json &item : top.array("inputs"))
      parseInput(item);
    for (const Json &item : top.array("state"))
      parseState(item);
    for (const Json &item : top.array("scalars"))
      manifest.scalars.push_back(parseTensor(item, "scalar", true));
    for (const Json &item : top.array("results"))
      parseOutput(item);
    for (const Json &item : top.array("collectives"))
      parseCollective(item);
    for (const Json &item : top.array("calls"))
      parseCall(item);
    manifest.expectedStep = top.number("expected_us", 0);
    keep(top.status());
    checkNames();
    checkOverlap();
    return status;
  }

private:
  void keep(const Status &other) {
    if (status.ok() && !other.ok())
      status = other;
  }

  void parseMesh(const Json &json) {
    constexpr int64_t most = 1 << 16;
    std::vector<Axis> axes;
    int64_t size = 1;
    std::set<std::string> names;
    for (const Json &item : json) {
      JsonReader reader(item, "an axis of the manifest's mesh");
      Axis axis{reader.text("name"), reader.integer("size")};
      if (axis.name.empty() || !names.insert(axis.name).second)
        reader.fail("has no name of its own");
      else if (axis.size < 1 || axis.size > most || (size *= axis.size) > most)
        reader.fail("makes a mesh of a size that cannot be");
      keep(reader.status());
      axes.push_back(std::move(axis));
    }
    if (axes.size() > DIVISI_MAX_AXES)
      keep(failure("the manifest's mesh has more than ", DIVISI_MAX_AXES, " axes"));
    if (status.ok())
      manifest.mesh = Mesh(std::move(axes));
  }

  void parseCollective(const Json &json) {
    JsonReader reader(json, "a collective of the manifest");
    int64_t id = reader.integer("id");
    if (!manifest.collectives.emplace(id, reader.text("name")).second)
      reader.fail(concat("has the number ", id, " of another one"));
    keep(reader.status());
  }

  void parseCall(const Json &json) {
    JsonReader reader(json, "a call of the manifest");
    Call call;
    call.kind = reader.text("kind");
    call.name = reader.text("name", "");
    call.key = reader.text("key", "");
    call.id = reader.integer("id", -1);
    call.expected = reader.number("expected_us", 0);
    keep(reader.status());
    manifest.calls.push_back(std::move(call));
  }

  /// Which piece of the whole a rank has.
  void parseSplit(const Json &json, Tensor &tensor, const char *what) {
    JsonReader reader(json, concat("the manifest's ", what, " '", tensor.name, "'"));
    if (!reader.has("split") && !reader.has("global_shape"))
      return;
    tensor.global = reader.shape("global_shape");
    std::set<int64_t> used;
    for (const Json &dimension : reader.array("split")) {
      std::vector<int64_t> axes;
      if (!dimension.is_array())
        reader.fail("has a split that is not a list for each dimension");
      for (const Json &axis : dimension) {
        bool fits = axis.is_number_integer() && axis.get<int64_t>() >= 0 &&
                    axis.get<int64_t>() < static_cast<int64_t>(manifest.mesh.axes().size());
        if (!fits || !used.insert(axis.get<int64_t>()).second)
          reader.fail("is split over an axis that the mesh does not have, or twice over one");
        else
          axes.push_back(axis.get<int64_t>());
      }
      tensor.split.push_back(std::move(axes));
    }
    Shape padded = reader.has("padded_shape") ? reader.shape("padded_shape") : tensor.global;
    bool fits = padded.size() == tensor.shape.size() && tensor.split.size() == tensor.shape.size() && tensor.global.size() == tensor.shape.size() &&
                byteCount(tensor.global, widthOf(tensor.dtype));
    for (size_t d = 0; fits && d < tensor.shape.size(); ++d) {
      int64_t pieces = manifest.mesh.count(tensor.split[d]);
      fits = padded[d] % pieces == 0 && padded[d] / pieces == tensor.shape[d] && tensor.global[d] <= padded[d];
    }
    if (!fits)
      reader.fail(concat("has pieces ", toString(tensor.shape), " that do not make up ", toString(tensor.global)));
    keep(reader.status());
    if (!status.ok() || (used.empty() && padded == tensor.global))
      tensor.split.clear();
  }

  Tensor parseTensor(const Json &json, const char *what, bool single) {
    JsonReader reader(json, concat("the manifest's ", what));
    Tensor tensor;
    tensor.name = reader.text("name", "");
    reader = JsonReader(json, concat("the manifest's ", what, " '", tensor.name, "'"));
    tensor.dtype = reader.dataType("dtype");
    if (!single || reader.has("shape"))
      tensor.shape = reader.shape("shape");
    int64_t width = widthOf(tensor.dtype);
    std::optional<int64_t> bytes = byteCount(tensor.shape, width);
    if (!bytes || (reader.has("bytes") && reader.integer("bytes") != *bytes))
      reader.fail(concat("has another size than its shape ", toString(tensor.shape)));
    tensor.bytes = bytes.value_or(0);
    if (single && tensor.bytes != width)
      reader.fail("is not one number");
    tensor.offset = reader.integer("offset");
    if (tensor.offset < 0 || uint64_t(tensor.offset) > arenaBytes ||
        uint64_t(tensor.bytes) > arenaBytes - tensor.offset)
      reader.fail("lies outside of the arena");
    else if (tensor.offset % width != 0)
      reader.fail("is not aligned");
    keep(reader.status());
    return tensor;
  }

  void parseInput(const Json &json) {
    Input input;
    static_cast<Tensor &>(input) = parseTensor(json, "input", false);
    parseSplit(json, input, "input");
    JsonReader reader(json, concat("the manifest's input '", input.name, "'"));
    input.label = reader.boolean("label", false);
    if (reader.has("padding"))
      input.padding = reader.integer("padding");
    if (reader.has("range")) {
      const Json &range = reader.array("range");
      if (range.size() == 2 && range[0].is_number_integer() && range[1].is_number_integer())
        input.range = {range[0].get<int64_t>(), range[1].get<int64_t>()};
      else
        reader.fail("has a range that is not two integers");
    }
    keep(reader.status());
    manifest.inputs.push_back(std::move(input));
  }

  void parseState(const Json &json) {
    State state;
    static_cast<Tensor &>(state) = parseTensor(json, "state", false);
    parseSplit(json, state, "state");
    JsonReader reader(json, concat("the manifest's state '", state.name, "'"));
    std::optional<Role> role = parseRole(reader.text("role"));
    if (!role)
      reader.fail("has an unknown role");
    state.role = role.value_or(Role::Parameter);
    if ((state.role == Role::Step || state.role == Role::Seed) &&
        (state.elements() != 1 || isFloat(state.dtype) || state.isSplit()))
      reader.fail("is not one integer");
    state.trainable = reader.boolean("trainable", true);
    if (reader.has("model_shape")) {
      state.inFiles = reader.shape("model_shape");
      if (state.inFiles.empty() || byteCount(state.inFiles, widthOf(state.dtype)) != state.wholeBytes())
        reader.fail(concat("has another number of elements than ", toString(state.inFiles)));
    }
    state.of = reader.text("of", "");
    state.onnxName = reader.text("onnx_name", state.name);
    if (reader.has("init"))
      parseInit(reader.object("init"), state);
    keep(reader.status());
    manifest.state.push_back(std::move(state));
  }

  void parseInit(const Json &json, State &state) {
    JsonReader reader(json, concat("the initial value of '", state.name, "'"));
    std::string kind = reader.text("kind");
    Initial init;
    if (kind == "uniform")
      init = {Initial::Kind::Uniform, reader.number("scale")};
    else if (kind == "normal")
      init = {Initial::Kind::Normal, reader.number("scale")};
    else if (kind == "constant")
      init = {Initial::Kind::Constant, reader.number("scale")};
    else
      reader.fail(concat("has the unknown kind '", kind, "'"));
    state.init = init;
    keep(reader.status());
  }

  void parseOutput(const Json &json) {
    Output output;
    static_cast<Tensor &>(output) = parseTensor(json, "result", true);
    JsonReader reader(json, "a result of the manifest");
    output.function = reader.text("function");
    output.kind = reader.text("kind");
    output.when = static_cast<uint32_t>(reader.integer("when", 0));
    if (output.function != "train" && output.function != "evaluate")
      reader.fail(concat("belongs to the unknown function '", output.function, "'"));
    keep(reader.status());
    manifest.results.push_back(std::move(output));
  }

  void checkNames() {
    std::set<std::string> names;
    auto check = [&](const char *what, const std::string &name) {
      if (name.empty() || !names.insert(concat(what, " ", name)).second)
        keep(failure("the program's manifest has two times the ", what, " '", name, "', or one without a name"));
    };
    for (const Input &input : manifest.inputs)
      check("input", input.name);
    for (const State &state : manifest.state)
      check("state", state.name);
    for (const Tensor &scalar : manifest.scalars)
      check("scalar", scalar.name);
  }

  void checkOverlap() {
    std::vector<const Tensor *> all;
    for (const Input &input : manifest.inputs)
      all.push_back(&input);
    for (const State &state : manifest.state)
      all.push_back(&state);
    for (const Tensor &scalar : manifest.scalars)
      all.push_back(&scalar);
    std::erase_if(all, [](const Tensor *t) { return t->bytes == 0; });
    std::sort(all.begin(), all.end(), [](auto *a, auto *b) { return a->offset < b->offset; });
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i - 1]->offset + all[i - 1]->bytes > all[i]->offset)
        keep(failure("the program's manifest puts '", all[i - 1]->name, "' and '", all[i]->name, "' in one place"));
  }

  Manifest &manifest;
  uint64_t arenaBytes;
  Status status;
};

template <typename Items, typename Match> auto findIn(const Items &items, Match match) -> decltype(items.data()) {
  auto it = std::find_if(items.begin(), items.end(), match);
  return it == items.end() ? nullptr : &*it;
}
} // namespace

const char *divisi::runtime::nameOf(Role role) { return roleNames[static_cast<size_t>(role)]; }

Slice Manifest::sliceOf(const Tensor &tensor, int64_t of) const {
  Slice slice{tensor.splitShape(), tensor.shape, Shape(tensor.shape.size())};
  for (size_t d = 0; d < tensor.split.size(); ++d)
    slice.start[d] = mesh.index(of, tensor.split[d]) * tensor.shape[d];
  return slice;
}
const Tensor *Manifest::scalar(std::string_view name) const {
  return findIn(scalars, [&](const Tensor &t) { return t.name == name; });
}
const State *Manifest::stateOf(Role role) const {
  return findIn(state, [&](const State &s) { return s.role == role; });
}
const Output *Manifest::result(std::string_view function, std::string_view kind) const {
  return findIn(results, [&](const Output &o) { return o.function == function && o.kind == kind; });
}

std::string Manifest::identity() const {
  std::string text;
  for (const State &s : state)
    text += concat(s.name, '\n', nameOf(s.role), ' ', nameOf(s.dtype), ' ', toString(s.wholeShape()), '\n');
  return fnv1a64(text.data(), text.size());
}

Result<Manifest> divisi::runtime::parseManifest(std::string_view json, uint64_t arenaBytes) {
  Result<Json> parsed = parseJson(json, "the program's manifest");
  if (!parsed.ok())
    return parsed.status();
  Manifest manifest;
  if (Status status = Parser(manifest, arenaBytes).parse(*parsed); !status.ok())
    return status;
  return manifest;
}

Result<Manifest> divisi::runtime::parseManifest(const DivisiProgram &program) {
  if (program.abi_version != DIVISI_ABI_VERSION)
    return failure("the program has version ", program.abi_version, " of the runtime interface, but version ",
                   DIVISI_ABI_VERSION, " is linked");
  return parseManifest({program.manifest, program.manifest_bytes}, program.arena_bytes);
}
