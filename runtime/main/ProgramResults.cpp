// The results of a Program's steps: those of its own stage and those that other ranks have.
#include "runtime/main/Program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>

using namespace divisi::runtime;

Status Program::combineResults() {
  std::vector<std::vector<double>> steps(std::make_move_iterator(mine.begin()), std::make_move_iterator(mine.end()));
  mine.clear();
  if (Status status = replicas->combine(steps); !status.ok())
    return ranks->located(status);
  for (int64_t stage = 0; stage < description.stages(); ++stage)
    if (Status status = tellRows(stage, steps); !status.ok())
      return status;
  std::move(steps.begin(), steps.end(), std::back_inserter(ours));
  return {};
}

Status Program::pullResults(const std::string &function) {
  return withAccelerator([&](Accelerator &from) {
    from.wait();
    for (const Output &output : description.results)
      if (output.function == function && isWanted(output))
        pull(from, output);
    if (wanted & DIVISI_WHEN_PREDICTIONS)
      for (const Prediction &prediction : description.predictions)
        pull(from, prediction);
  });
}

Status Program::tell(int64_t stage, std::vector<double> &values, const std::string &function) {
  if (description.stages() == 1 || !ranks)
    return {};
  return tellFrom(static_cast<int>(description.firstOf(stage)), values, function);
}

Status Program::tellFrom(int rank, std::vector<double> &values, const std::string &function) {
  size_t size = values.size() * sizeof(double);
  if (size == 0)
    return {};
  std::string bytes(reinterpret_cast<const char *>(values.data()), size);
  if (Status status = ranks->broadcast(bytes, rank, true); !status.ok())
    return ranks->located(status);
  if (bytes.size() != size)
    return failure("the ranks do not agree on the results of '", function, "'");
  std::memcpy(values.data(), bytes.data(), size);
  return {};
}

std::vector<double> Program::ownResults(const std::string &function) const {
  const std::vector<Output> &all = description.results;
  std::vector<double> found(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].function == function && all[i].here && isWanted(all[i]))
      found[i] = memory.number(all[i]);
  return found;
}

Status Program::collectResults(const std::string &function) {
  const std::vector<Output> &all = description.results;
  std::vector<double> found = ownResults(function);
  if (replicas && function == "train") {
    if (meetsSeldom()) {
      mine.push_back(std::move(found));
      wants.push_back(wanted);
      return {};
    }
    std::vector<std::vector<double>> only = {std::move(found)};
    if (Status status = replicas->combine(only); !status.ok())
      return ranks->located(status);
    found = std::move(only.front());
  }
  for (int64_t stage = 0; stage < description.stages(); ++stage) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < all.size(); ++i)
      if (isOf(all[i], function, stage) && isWanted(all[i]))
        chosen.push_back(i);
    std::vector<double> values;
    for (size_t i : chosen)
      values.push_back(found[i]);
    if (Status status = tell(stage, values, function); !status.ok())
      return status;
    for (size_t i = 0; i < chosen.size(); ++i)
      numbers[chosen[i]] = values[i];
  }
  return {};
}

Status Program::tellRows(int64_t stage, std::vector<std::vector<double>> &rows) {
  const std::vector<Output> &all = description.results;
  std::vector<double> values;
  for (const std::vector<double> &row : rows)
    for (size_t i = 0; i < all.size(); ++i)
      if (isOf(all[i], "train", stage))
        values.push_back(row[i]);
  if (Status status = tell(stage, values, "train"); !status.ok())
    return status;
  size_t next = 0;
  for (std::vector<double> &row : rows)
    for (size_t i = 0; i < all.size(); ++i)
      if (isOf(all[i], "train", stage))
        row[i] = values[next++];
  return {};
}

Status Program::exchangeResults() {
  if (meetsSeldom())
    return combineResults();
  int64_t count = minibatches.finishedByAll() - told;
  std::vector<std::vector<double>> rows(mine.begin(), mine.begin() + count);
  for (int64_t stage = 0; stage < description.stages(); ++stage)
    if (Status status = tellRows(stage, rows); !status.ok())
      return status;
  mine.erase(mine.begin(), mine.begin() + count);
  std::move(rows.begin(), rows.end(), std::back_inserter(ours));
  told += count;
  if (minibatches.isEmpty()) {
    minibatches = newMinibatches();
    told = 0;
  }
  return {};
}

bool Program::nextResults() {
  if (ours.empty())
    return false;
  numbers = std::move(ours.front());
  wanted = wants.front();
  ours.pop_front();
  wants.pop_front();
  return true;
}

Result<std::string> Program::prediction(const Prediction &of) {
  int from = ranks ? static_cast<int>(description.firstOf(std::max<int64_t>(of.stage, 0))) : 0;
  std::string bytes;
  const int64_t own = description.processRank;
  if (own == 0 || own == from)
    bytes.resize(static_cast<size_t>(of.bytes));
  if (of.here && own == from)
    std::memcpy(bytes.data(), memory.at(of), bytes.size());
  if (ranks)
    if (Status status = ranks->toFirst(bytes.data(), bytes.size(), from, true); !status.ok())
      return ranks->located(status);
  return bytes;
}

std::optional<double> Program::result(const Output *output) const {
  if (!output || !isWanted(*output))
    return std::nullopt;
  return numbers[static_cast<size_t>(output - description.results.data())];
}
