#include "passes/Pipelining/StageCuts.h"

#include <algorithm>
#include <limits>

std::vector<int> divisi::pipelining::cutIntoStages(const std::vector<double> &seconds,
                                                   const std::vector<double> &cutSeconds, int stages) {
  int layers = (int)seconds.size();
  std::vector<double> before(layers + 1, 0); // of all layers before one
  for (int i = 0; i < layers; ++i)
    before[i + 1] = before[i] + seconds[i];
  constexpr double infinite = std::numeric_limits<double>::infinity();
  auto stage = [&](int begin, int end) { return std::max(before[end] - before[begin], begin ? cutSeconds[begin] : 0); };
  // The least that the slowest of k + 1 stages takes with the first j layers.
  std::vector<std::vector<double>> slowest(stages, std::vector<double>(layers + 1, infinite));
  for (int j = 1; j <= layers; ++j)
    slowest[0][j] = stage(0, j);
  for (int k = 1; k < stages; ++k)
    for (int j = k + 1; j <= layers; ++j)
      for (int i = k; i < j; ++i)
        slowest[k][j] = std::min(slowest[k][j], std::max(slowest[k - 1][i], stage(i, j)));
  double limit = slowest[stages - 1][layers];
  // With no stage above that, the fewest seconds of messages; where the last of the stages begins.
  std::vector<std::vector<double>> messages(stages, std::vector<double>(layers + 1, infinite));
  std::vector<std::vector<int>> from(stages, std::vector<int>(layers + 1, 0));
  for (int j = 1; j <= layers; ++j)
    messages[0][j] = stage(0, j) <= limit ? 0 : infinite;
  for (int k = 1; k < stages; ++k)
    for (int j = k + 1; j <= layers; ++j)
      for (int i = k; i < j; ++i)
        if (double sum = messages[k - 1][i] + cutSeconds[i]; stage(i, j) <= limit && sum < messages[k][j])
          messages[k][j] = sum, from[k][j] = i;
  std::vector<int> cuts;
  for (int k = stages - 1, j = layers; k > 0; --k)
    cuts.push_back(j = from[k][j]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}
