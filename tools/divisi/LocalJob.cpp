#include "tools/divisi/LocalJob.h"
#include "compiler/Elastic.h"
#include "divisi/suggest.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "tools/divisi/LocalRanks.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <limits>

using namespace divisi;
using namespace divisi::tools;
using compiler::ElasticJob;
using compiler::RankEnd;

namespace {
/// The value of the last flag of this name, as "--flag VALUE" or "--flag=VALUE".
std::string valueOf(const std::vector<std::string> &words, const std::string &flag) {
  std::string value;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == flag && i + 1 < words.size())
      value = words[i + 1];
    else if (words[i].starts_with(flag + "="))
      value = words[i].substr(flag.size() + 1);
  return value;
}

/// "goes on from step 120 with 3", by the newest checkpoint in the folder.
std::string continuation(const std::string &folder, int64_t ranks) {
  // Not the file `latest`: the program may have ended before it named the newest one.
  auto opened = runtime::CheckpointFolder::open(folder);
  auto names = opened.ok() ? opened->list() : opened.status();
  std::string from = names.ok() && !names->empty()
                         ? "goes on from step " + names->front().substr(std::string("step-").size())
                         : "begins again, without a checkpoint,";
  return from + " with " + std::to_string(ranks);
}

/// "rank 1 and rank 3 lost", "rank 1 lost (signal 9, Killed)".
std::string lostText(const std::vector<RankEnd> &ends, int code) {
  auto isLost = [](RankEnd end) { return end == RankEnd::lost || end == RankEnd::failedAlone; };
  const bool any = std::any_of(ends.begin(), ends.end(), isLost);
  std::vector<std::string> names;
  for (size_t i = 0; i < ends.size(); ++i)
    if (any ? isLost(ends[i]) : ends[i] == RankEnd::killed)
      names.push_back("rank " + std::to_string(i));
  const std::string text = listed(names, "and") + " lost";
  return any && code > 128 ? text + " (signal " + std::to_string(code - 128) + ", " + strsignal(code - 128) + ")" : text;
}
} // namespace

int divisi::tools::runLocalJob(const LocalJobRequest &request, std::vector<std::string> words,
                              const std::vector<int64_t> &sizes) {
  const int64_t least = request.least.value_or(1), most = request.most.value_or(std::numeric_limits<int64_t>::max());
  ElasticJob job(sizes, least, most);
  if (job.size() == 0 || least > job.size()) {
    std::cerr << "error: '" << words[0] << "' is for " << listed(sizes) << (sizes.back() == 1 ? " device" : " devices")
              << ", of which --min-devices and --max-devices leave none: compile it with others (--devices 2,3,4)"
              << std::endl;
    return 2;
  }
  const std::string folder = valueOf(words, "--checkpoint");
  std::cerr << "divisi run: " << job.size() << (job.size() == 1 ? " rank of " : " ranks of ") << words[0] << std::endl;
  LocalRanks ranks;
  const bool isFixed = !request.isElastic();
  const std::optional<int64_t> restarts = isFixed ? request.restarts.value_or(0) : request.restarts;
  for (int64_t losses = 0;;) {
    const auto sparing = request.spared.find(job.size());
    const int64_t end = isFixed || sparing == request.spared.end() ? 0 : sparing->second;
    const LocalRanks::Spared spared{end, end > 0 ? least : 0, request.growAfter, restarts};
    auto outcome = ranks.run(words, job.size(), job.mayGrow() ? request.growAfter : std::nullopt, spared);
    const int64_t lost = compiler::lostRanks(outcome.ends, !isFixed);
    const bool grows = lost == 0 && outcome.wasStopped && outcome.code >= 128;
    if (outcome.wasAsked || (lost == 0 && !grows))
      return outcome.code;
    if (grows) {
      job.grow();
      std::cerr << "divisi run: " << job.all() << " ranks again: ";
    } else {
      ++losses;
      const bool startsAll = isFixed || (end > 0 && sizes.size() == 1); // there is no program for fewer
      if (!startsAll)
        job.lose(lost);
      std::string left = std::to_string(startsAll ? job.all() - lost : job.alive()) + " of " +
                         std::to_string(job.all()) + " ranks left";
      const std::string who = lostText(outcome.ends, outcome.code);
      bool over = restarts && losses > *restarts;
      if (over || job.size() == 0) {
        std::cerr << "error: " << who << ": " << left;
        if (over && isFixed && *restarts == 0)
          std::cerr << "; --restarts K goes on from the last checkpoint";
        else if (over)
          std::cerr << ", but no restarts";
        else
          std::cerr << ", too few for --min-devices " << least << " of a program for " << listed(sizes) << " devices";
        std::cerr << std::endl;
        return outcome.code;
      }
      std::cerr << "divisi run: " << who << "; " << left << ": ";
    }
    std::cerr << continuation(folder, job.size());
    if (restarts && !grows)
      std::cerr << " (restart " << losses << " of " << *restarts << ")";
    std::cerr << std::endl;
    if (std::find(words.begin(), words.end(), "--resume") == words.end())
      words.push_back("--resume");
  }
}
