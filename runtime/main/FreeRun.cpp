#include "runtime/main/FreeRun.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
template <typename Number> void append(std::string &bytes, const std::vector<Number> &numbers) {
  bytes.append(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(Number));
}
template <typename Number> void takeFrom(std::string_view &bytes, std::vector<Number> &numbers, int64_t count) {
  numbers.resize(static_cast<size_t>(count));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  bytes.remove_prefix(numbers.size() * sizeof(Number));
}
} // namespace

Status FreeRun::share(Communicator &ranks, int from) {
  std::string bytes;
  if (ranks.rank() == from) {
    append(bytes, std::vector<int64_t>{batches, static_cast<int64_t>(results.size()), static_cast<int64_t>(pushes.size())});
    append(bytes, results);
    append(bytes, pushes);
  }
  if (Status status = ranks.broadcast(bytes, from, true); !status.ok())
    return ranks.located(status);
  std::string_view rest = bytes;
  std::vector<int64_t> sizes;
  takeFrom(rest, sizes, 3);
  batches = sizes[0];
  takeFrom(rest, results, sizes[1]);
  takeFrom(rest, pushes, sizes[2]);
  return {};
}

bool BatchResults::add(int64_t batch, const std::vector<double> &results) {
  auto &[added, sums] = open[batch];
  sums.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    sums[i] = manifest.results[i].kind == "index" ? std::max(sums[i], results[i]) : sums[i] + results[i] / static_cast<double>(shares);
  ++added;
  bool enough = false;
  for (auto first = open.begin(); first != open.end() && first->second.first == shares && first->first == begin + run.batches; first = open.erase(first)) {
    const std::vector<double> &ofBatch = first->second.second;
    enough |= work.isEnough(ofBatch);
    run.results.insert(run.results.end(), ofBatch.begin(), ofBatch.end());
    ++run.batches;
  }
  return enough;
}

FreeRun BatchResults::take() { return std::move(run); }
