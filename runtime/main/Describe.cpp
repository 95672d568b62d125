#include "runtime/main/Describe.h"
#include "runtime/core/Json.h"
#include "runtime/main/OneLine.h"

#include <algorithm>
#include <iomanip>

using namespace divisi::runtime;

namespace {
/// The number of tensors, elements and bytes of the state of one role.
struct Total {
  int64_t tensors = 0, elements = 0, trainable = 0, bytes = 0;
};
/// A tensor as it is on a stage; null if the stage does not have it.
const Tensor *placeOn(int64_t stage, const Tensor &tensor) {
  auto it = std::find_if(tensor.places.begin(), tensor.places.end(), [&](const Tensor &t) { return t.stage == stage; });
  return tensor.places.empty() ? &tensor : it == tensor.places.end() ? nullptr : &*it;
}
/// The totals of the model, or of one stage.
Total totalOf(const Manifest &manifest, Role role, std::optional<int64_t> stage = {}) {
  Total total;
  for (const State &state : manifest.state) {
    const Tensor *place = stage ? placeOn(*stage, state) : &state.owner();
    if (state.role != role || !place)
      continue;
    total.tensors += 1;
    int64_t elements = state.wholeBytes() / widthOf(state.dtype);
    total.elements += elements;
    total.trainable += state.trainable ? elements : 0;
    total.bytes += place->bytes;
  }
  return total;
}
constexpr Role roles[] = {Role::Parameter, Role::Buffer, Role::Constant, Role::Moment};
} // namespace

std::string divisi::runtime::formatBytes(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit)
    value /= 1024;
  std::ostringstream out;
  out << std::fixed << std::setprecision(unit == 0 ? 0 : 1) << value << " " << units[unit];
  return out.str();
}

std::string divisi::runtime::describeText(const Manifest &manifest) {
  std::ostringstream out;
  out << "model " << oneLine(manifest.model) << ", batch " << manifest.batch << "\n";
  if (manifest.ranks() > 1) {
    out << "devices: " << manifest.ranks() << ", as";
    for (const Axis &axis : manifest.mesh.axes())
      out << " " << axis.name << " " << axis.size;
    if (const int64_t servers = manifest.servers ? manifest.servers->count() : 0; servers > 0) {
      out << " and " << servers << (servers == 1 ? " server" : " servers");
      if (const int64_t places = manifest.placesInReplica(); places > 1)
        out << " of " << places << " devices" << (servers == 1 ? "" : " each");
    }
    out << "\n";
  }
  out << "\ninputs\n";
  for (const Input &input : manifest.inputs)
    out << "  " << oneLine(input.name) << "  " << nameOf(input.dtype) << " " << toString(input.wholeShape())
        << (input.label ? "  (label)" : "") << "\n";
  bool titled = false;
  for (const Prediction &output : manifest.predictions) {
    if (!output.metrics.empty())
      continue;
    out << (titled ? "" : "\noutputs for --predict\n");
    titled = true;
    out << "  " << oneLine(output.name) << "  " << nameOf(output.dtype) << " " << toString(output.shape) << "\n";
  }
  Total parameters = totalOf(manifest, Role::Parameter);
  out << "\nparameters: " << parameters.elements << ", of which " << parameters.trainable << " train\n";
  for (const State &state : manifest.state)
    if (state.role == Role::Parameter)
      out << "  " << oneLine(state.name) << "  " << nameOf(state.dtype) << " " << toString(state.wholeShape())
          << (state.trainable ? "" : "  (frozen)") << "\n";
  for (int64_t stage = 0; stage < manifest.stages(); ++stage) {
    out << (manifest.mesh.size() > 1 ? "\nmemory of each device" : "\nmemory");
    if (manifest.stages() > 1)
      out << " of stage " << stage;
    out << "\n";
    uint64_t arena = manifest.arenas[static_cast<size_t>(stage)];
    int64_t sum = 0;
    for (Role role : roles)
      if (Total total = totalOf(manifest, role, stage); total.tensors > 0) {
        out << "  " << nameOf(role) << "s: " << formatBytes(static_cast<uint64_t>(total.bytes)) << " in "
            << total.tensors << (total.tensors == 1 ? " tensor\n" : " tensors\n");
        sum += total.bytes;
      }
    out << "  inputs, activations, gradients: " << formatBytes(arena - static_cast<uint64_t>(sum))
        << "\n  in all: " << formatBytes(arena) << "\n";
  }
  return out.str();
}

std::string divisi::runtime::describeJson(const Manifest &manifest) {
  OrderedJson json = {{"model", manifest.model}, {"batch", manifest.batch}};
  auto tensor = [](const Tensor &t) {
    return OrderedJson{{"name", t.name}, {"dtype", nameOf(t.dtype)}, {"shape", t.wholeShape()}};
  };
  for (const Axis &axis : manifest.mesh.axes())
    json["mesh"][axis.name] = axis.size;
  json["devices"] = manifest.ranks();
  json["inputs"] = OrderedJson::array();
  for (const Input &input : manifest.inputs) {
    json["inputs"].push_back(tensor(input));
    json["inputs"].back()["label"] = input.label;
  }
  json["outputs"] = OrderedJson::array();
  for (const Prediction &output : manifest.predictions) {
    if (!output.metrics.empty())
      continue;
    json["outputs"].push_back(tensor(output));
    json["outputs"].back()["inputs"] = output.inputs;
  }
  json["parameters"] = OrderedJson::array();
  for (const State &state : manifest.state)
    if (state.role == Role::Parameter) {
      json["parameters"].push_back(tensor(state));
      json["parameters"].back()["trainable"] = state.trainable;
    }
  json["parameter_count"] = totalOf(manifest, Role::Parameter).elements;
  for (Role role : roles)
    json["state_bytes"][nameOf(role)] = totalOf(manifest, role).bytes;
  json["arena_bytes"] = *std::max_element(manifest.arenas.begin(), manifest.arenas.end());
  if (manifest.stages() > 1)
    json["stage_arena_bytes"] = manifest.arenas;
  json["identity"] = manifest.identity();
  json["program"] = manifest.program;
  return dumpJson(json);
}
