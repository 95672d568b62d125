#include "runtime/core/ManifestParser.h"

#include <algorithm>
#include <array>
#include <set>

using namespace divisi::runtime;

namespace {
/// Whether the tensors of two stages are the same tensor.
bool agree(const Tensor &a, const Tensor &b) { return a.dtype == b.dtype && a.wholeShape() == b.wholeShape(); }
bool agree(const Input &a, const Input &b) {
  return agree(static_cast<const Tensor &>(a), b) && a.label == b.label && a.microbatches == b.microbatches &&
         a.padding == b.padding && a.range == b.range;
}
bool agree(const State &a, const State &b) {
  return agree(static_cast<const Tensor &>(a), b) && a.role == b.role && a.of == b.of && a.average == b.average &&
         a.trainingName == b.trainingName && a.isStored == b.isStored;
}
} // namespace

/// Joins the tensors of one name on several stages into one.
template <typename T> void ManifestParser::join(const char *what, std::vector<T> &items) {
  std::map<std::string, size_t> known;
  std::vector<T> joined;
  for (T &item : items) {
    auto [it, isNew] = known.emplace(item.name, joined.size());
    T &first = isNew ? joined.emplace_back(item) : joined[it->second];
    bool again = !isNew && (first.stage < 0 || item.stage < 0);
    for (const Tensor &place : first.places)
      again |= place.stage == item.stage;
    if (item.name.empty() || again)
      keep(failure("the program's manifest has two times the ", what, " '", item.name, "', or one without a name"));
    else if (!agree(first, item))
      keep(failure("the program's manifest has the ", what, " '", item.name,
                   "' on two stages that do not agree on it"));
    else if (item.stage >= 0)
      first.places.push_back(item);
  }
  for (T &item : joined)
    if (!item.places.empty()) {
      std::vector<Tensor> places = std::move(item.places);
      std::sort(places.begin(), places.end(), [](const Tensor &a, const Tensor &b) { return a.stage < b.stage; });
      static_cast<Tensor &>(item) = places.front();
      item.places = std::move(places);
    }
  items = std::move(joined);
}

/// Averages are like their parameters.
void ManifestParser::checkAverages() {
  for (const State &state : manifest.state)
    if (state.average &&
        std::none_of(manifest.state.begin(), manifest.state.end(), [&](const State &parameter) {
          return parameter.name == state.of && parameter.role == Role::Parameter && parameter.dtype == state.dtype &&
                 parameter.wholeShape() == state.wholeShape();
        }))
      keep(failure("the program's manifest has the average '", state.name, "', which is not like its parameter"));
}

void ManifestParser::checkResults() {
  std::set<std::array<std::string, 3>> known;
  for (const Output &output : manifest.results)
    if (!known.insert({output.function, output.kind, output.name}).second)
      keep(failure("the program's manifest has two times the result '", output.kind, "' of '", output.function, "'"));
}

/// Checks that tensors in the arena of a stage do not overlap.
void ManifestParser::checkOverlap(int64_t stage) {
  std::vector<const Tensor *> all;
  auto add = [&](const Tensor &tensor) {
    if (tensor.places.empty())
      all.push_back(&tensor);
    for (const Tensor &place : tensor.places)
      if (place.stage == stage)
        all.push_back(&place);
  };
  for (const Input &input : manifest.inputs)
    add(input);
  for (const State &state : manifest.state)
    add(state);
  for (const Tensor &scalar : manifest.scalars)
    add(scalar);
  std::erase_if(all, [](const Tensor *t) { return t->bytes == 0; });
  std::sort(all.begin(), all.end(), [](auto *a, auto *b) { return a->offset < b->offset; });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i - 1]->offset + all[i - 1]->bytes > all[i]->offset)
      keep(failure("the program's manifest puts '", all[i - 1]->name, "' and '", all[i]->name, "' in one place"));
}

void ManifestParser::checkTensors() {
  join("input", manifest.inputs);
  join("state", manifest.state);
  checkAverages();
  join("scalar", manifest.scalars);
  checkResults();
}
