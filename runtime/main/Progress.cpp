#include "runtime/main/Progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

size_t terminalWidth() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

template <typename... Args> std::string format(const char *pattern, Args... args) {
  std::array<char, 128> text;
  int length = std::snprintf(text.data(), text.size(), pattern, args...);
  return {text.data(), std::min(static_cast<size_t>(std::max(length, 0)), text.size() - 1)};
}

std::string describe(const char *prefix, const Measures &m) {
  std::string text;
  for (const auto &[name, value] : m.named())
    text += format(name == "perplexity" ? "%s%s%s %.6g" : "%s%s%s %.4f", text.empty() ? "" : "  ", prefix,
                   name.c_str(), value);
  return text;
}
} // namespace

std::string divisi::runtime::formatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9)
    return "?";
  auto s = static_cast<long>(std::lround(seconds));
  return s >= 3600 ? format("%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60) : format("%ld:%02ld", s / 60, s % 60);
}

std::string divisi::runtime::fitTo(std::string text, size_t width) {
  if (text.size() > width)
    text.resize(width);
  return text;
}

Progress::Style Progress::detect(bool quiet) {
  // mpirun gives its ranks a terminal of its own; `divisi run` tells whether the output really goes to one.
  const char *told = std::getenv("DIVISI_TERMINAL");
  bool terminal = std::getenv("OMPI_COMM_WORLD_SIZE") ? told && *told == '1' : isatty(STDOUT_FILENO) != 0;
  return quiet ? Style::Quiet : terminal ? Style::Bar : Style::Lines;
}

Progress::Progress(Style style, int64_t firstStep, int64_t totalSteps, int64_t epochs, int64_t batch,
                   int64_t sequence)
    : style(style), first(firstStep), total(totalSteps), epochs(epochs), batch(batch), sequence(sequence),
      drawn(started), measuredStep(firstStep) {}

std::string Progress::speedOf(double samples) const {
  return sequence > 0 ? format("  %.0f tokens/s", samples * static_cast<double>(sequence))
                      : format("  %.0f samples/s", samples);
}

std::string Progress::epochOf(int64_t epoch) const {
  return epochs > 0 ? format("epoch %ld/%ld", epoch, epochs) : format("epoch %ld", epoch);
}

std::string Progress::status(int64_t step, int64_t epoch, const Measures &measures) const {
  bool endless = total == INT64_MAX; // another process knows the end
  std::string text = epochOf(epoch) + (endless ? format("  step %ld  ", step) : format("  step %ld/%ld  ", step, total)) +
                     describe("", measures) + speedOf(rate);
  if (endless)
    return text;
  double each = step > first ? secondsSince(started) / static_cast<double>(step - first) : 0;
  return text + "  ETA " + formatDuration(each * static_cast<double>(total - step));
}

void Progress::step(int64_t step, int64_t epoch, const Measures &measures) {
  if (style == Style::Quiet)
    return;
  double elapsed = secondsSince(measured);
  if (elapsed > 0.5 || rate == 0) {
    rate = static_cast<double>((step - measuredStep) * batch) / std::max(elapsed, 1e-9);
    measured = Clock::now();
    measuredStep = step;
  }
  if (secondsSince(drawn) < (style == Style::Bar ? 0.1 : 10))
    return;
  drawn = Clock::now();
  std::string line = status(step, epoch, measures);
  if (style == Style::Lines)
    return say(line);
  size_t width = terminalWidth() - 1;
  if (line.size() + 13 <= width) {
    size_t room = std::min<size_t>(width - line.size() - 3, 30);
    size_t done = room * static_cast<size_t>(step) / static_cast<size_t>(std::max<int64_t>(total, 1));
    line = concat("[", std::string(done, '='), std::string(room - done, ' '), "] ", line);
  }
  draw(fitTo(line, width));
}

void Progress::draw(const std::string &line) {
  std::fprintf(stdout, "\r%s\x1b[K", line.c_str());
  std::fflush(stdout);
  barVisible = true;
}

void Progress::evaluation(int64_t step, int64_t epoch, const Measures &measures, double speed) {
  say(epochOf(epoch) + format("  step %ld  ", step) + describe("eval ", measures) + speedOf(speed));
}

void Progress::epoch(int64_t step, int64_t epoch, const Measures &training, const std::optional<Measures> &evaluation) {
  if (style == Style::Quiet)
    return;
  // If the number of steps is given, epochs may be very short.
  bool matters = epochs > 0 || evaluation || step == total || secondsSince(drawn) >= 10;
  if (!matters)
    return;
  std::string line = epochOf(epoch) + format("  step %ld  ", step) + describe("epoch ", training);
  if (evaluation)
    line += "  " + describe("eval ", *evaluation);
  double speed = static_cast<double>((step - first) * batch) / std::max(secondsSince(started), 1e-9);
  say(line + speedOf(speed) + "  " + formatDuration(secondsSince(started)));
  drawn = Clock::now();
}

void Progress::say(const std::string &line) {
  if (style == Style::Quiet)
    return;
  std::fprintf(stdout, "%s%s\n", barVisible ? "\r\x1b[K" : "", line.c_str());
  std::fflush(stdout);
  barVisible = false;
}
