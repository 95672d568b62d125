//===- Progress.h - progress for users --------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_PROGRESS_H
#define DIVISI_RUNTIME_MAIN_PROGRESS_H

#include "runtime/main/Log.h"

#include <chrono>

namespace divisi::runtime {

using Clock = std::chrono::steady_clock;

/// Prints a bar on a terminal, else lines of text; nothing if quiet.
class Progress {
public:
  enum class Style { Quiet, Lines, Bar };
  /// `epochs` is 0 if unknown; `sequence` is the number of tokens of a sample, or 0.
  Progress(Style style, int64_t firstStep, int64_t totalSteps, int64_t epochs, int64_t batch, int64_t sequence);
  /// Bar if standard output is a terminal.
  static Style detect(bool quiet);

  bool shown() const { return style != Style::Quiet; }
  /// Called after each step; `step` and `epoch` count from 1.
  void step(int64_t step, int64_t epoch, const Measures &measures);
  /// Called after an evaluation within an epoch, with its samples per second.
  void evaluation(int64_t step, int64_t epoch, const Measures &measures, double speed);
  /// Called after an epoch or the last step, with the means of the epoch. If the number of epochs is unknown, only
  /// epochs that were long or have an evaluation are printed.
  void epoch(int64_t step, int64_t epoch, const Measures &training, const std::optional<Measures> &evaluation);
  /// Prints a separate line, above the bar.
  void say(const std::string &line);

private:
  std::string epochOf(int64_t epoch) const;
  std::string status(int64_t step, int64_t epoch, const Measures &measures) const;
  /// Samples per second as text; of sequences, tokens per second.
  std::string speedOf(double samples) const;
  void draw(const std::string &line);

  Style style;
  int64_t first, total, epochs, batch, sequence;
  Clock::time_point started = Clock::now(), drawn, measured = started;
  int64_t measuredStep;
  double rate = 0; ///< samples per second in the recent past
  bool barVisible = false;
};

/// A time as text, such as "1:02:03" or "4:05".
std::string formatDuration(double seconds);
/// `text`, at most `width` columns wide.
std::string fitTo(std::string text, size_t width);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_PROGRESS_H
