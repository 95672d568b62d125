// What a command line means for a checkpoint and for the other ranks.
#include "runtime/main/Options.h"

#include <algorithm>
#include <array>
#include <charconv>

using namespace divisi::runtime;

namespace {
/// The shortest text that parses as this number.
std::string exactly(double number) {
  std::array<char, 40> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

/// The flags of Options::training that are absent unless they are given.
constexpr std::array<std::string_view, 13> optionalFlags = {
    "--epochs",     "--steps",    "--lr-milestones", "--lr-power",  "--lr-decay-steps",
    "--base-batch", "--lr-scale", "--eval-every",    "--early-stop", "--augment",
    "--resize",     "--mean",     "--std"};

/// Flags of which the one that is given replaces the other: when training ends, and when the learning rate falls.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> alternatives = {
    {{"--epochs", "--steps"}, {"--lr-milestones", "--lr-step-size"}}};

/// Whether a command line contains a flag, as "--flag" or "--flag=value".
bool gives(const std::vector<std::string> &words, const std::string &flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string &word) { return word == flag || word.starts_with(flag + "="); });
}
} // namespace

bool Options::givesImageFlags() const {
  return gives(words, "--augment") || gives(words, "--resize") || gives(words, "--mean") || gives(words, "--std");
}

std::map<std::string, std::string> Options::training() const {
  std::map<std::string, std::string> flags = {{"--lr", exactly(schedule.rate)},
                                              {"--lr-schedule", Schedule::nameOf(schedule.kind)},
                                              {"--warmup-steps", std::to_string(schedule.warmup)},
                                              {"--lr-step-size", std::to_string(schedule.stepSize)},
                                              {"--lr-gamma", exactly(schedule.gamma)}};
  std::string milestones;
  for (int64_t step : schedule.milestones)
    milestones += (milestones.empty() ? "" : ",") + std::to_string(step);
  if (!milestones.empty())
    flags["--lr-milestones"] = milestones;
  if (schedule.power != Schedule().power)
    flags["--lr-power"] = exactly(schedule.power);
  if (schedule.decaySteps > 0)
    flags["--lr-decay-steps"] = std::to_string(schedule.decaySteps);
  if (baseBatch > 0) {
    flags["--base-batch"] = std::to_string(baseBatch);
    flags["--lr-scale"] = lrScale;
  }
  if (epochs)
    flags["--epochs"] = std::to_string(*epochs);
  if (steps)
    flags["--steps"] = std::to_string(*steps);
  if (evalEvery > 0)
    flags["--eval-every"] = std::to_string(evalEvery);
  if (earlyStop > 0)
    flags["--early-stop"] = std::to_string(earlyStop);
  if (images.crop || images.flip)
    flags["--augment"] = !images.flip ? "crop" : !images.crop ? "flip" : "crop,flip";
  if (images.shorter > 0)
    flags["--resize"] = std::to_string(images.shorter);
  for (auto [flag, numbers] : {std::pair("--mean", &images.mean), {"--std", &images.deviation}}) {
    std::string text;
    for (double number : *numbers)
      text += (text.empty() ? "" : ",") + exactly(number);
    if (!text.empty())
      flags[flag] = text;
  }
  return flags;
}

Result<Options> divisi::runtime::withKept(const Manifest &manifest, const Options &options,
                                          const std::map<std::string, std::string> &kept, std::string &taken) {
  std::vector<std::string> words = options.words;
  auto isReplaced = [&](const std::string &flag) {
    return (!options.feed.empty() && (flag == "--epochs" || flag == "--steps")) ||
           std::any_of(alternatives.begin(), alternatives.end(), [&](const auto &pair) {
             return (flag == pair.first && gives(options.words, std::string(pair.second))) ||
                    (flag == pair.second && gives(options.words, std::string(pair.first)));
           });
  };
  std::map<std::string, std::string> before = options.training();
  for (const auto &[flag, text] : kept) {
    bool evaluates = flag == "--eval-every" || flag == "--early-stop";
    if (!before.contains(flag) && std::find(optionalFlags.begin(), optionalFlags.end(), flag) == optionalFlags.end())
      return failure("--resume: the checkpoint has the unknown flag ", flag);
    if (evaluates && options.eval.empty())
      continue;
    if (gives(options.words, flag) || isReplaced(flag))
      continue;
    words.insert(words.begin() + 1, concat(flag, "=", text));
    if (auto it = before.find(flag); it == before.end() || it->second != text)
      taken += concat(" ", flag, " ", text);
  }
  std::vector<const char *> argv;
  for (const std::string &word : words)
    argv.push_back(word.c_str());
  Result<std::optional<Options>> read = parseOptions(manifest, static_cast<int>(argv.size()), argv.data(), false);
  if (!read.ok())
    return read.status();
  Options merged = std::move(**read);
  merged.words = options.words;
  return merged;
}

std::string Options::common() const {
  std::ostringstream text;
  text.precision(17);
  auto given = [&](const char *name, bool is) {
    if (is)
      text << ' ' << name;
  };
  for (const auto &[flag, value] : training())
    text << flag << ' ' << value << ' ';
  text << "--seed " << seed << " --every " << every << " --keep-checkpoints " << keepCheckpoints << " --timeout "
       << timeout;
  if (init)
    text << " --init " << *init;
  if (tokenType)
    text << " --token-type " << nameOf(*tokenType);
  given("--feed", !feed.empty());
  given("--no-shuffle", !shuffle);
  given("--eval", !eval.empty());
  given("--eval-only", evalOnly);
  given("--ema", ema);
  given("--find-lr", findRate);
  for (const auto &[name, path] : predict)
    text << " --predict " << name;
  given("--keep-best", keepBest);
  given("--weights", !weights.empty());
  given("--checkpoint", !checkpoint.empty());
  given("--resume", resume);
  given("--resume-anyway", resumeAnyway);
  given("--save", !save.empty());
  given("--save-weights", !saveWeights.empty());
  given("--log", !log.empty());
  given("--tensorboard", !tensorboard.empty());
  given("--log-grad-norms", logGradNorms);
  given("--profile", !profile.empty());
  given("--trace", !trace.empty());
  given("--no-nccl", noNccl);
  given("--quiet", quiet);
  return text.str();
}
