#include "runtime/main/Delay.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <thread>

using namespace divisi::runtime;

namespace {
constexpr double longest = 3'600'000;

/// A number of milliseconds at the beginning of the text, which is then taken from it; negative: there is none.
double takeNumber(std::string_view &text) {
  double value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !(value >= 0 && value <= longest))
    return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}
} // namespace

Result<Delay> Delay::parse(std::string_view text, int64_t rank) {
  Delay delay;
  delay.random.seed(static_cast<uint64_t>(rank));
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    int64_t of = -1;
    auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), of);
    entry.remove_prefix(static_cast<size_t>(end - entry.data()));
    bool fits = error == std::errc() && of >= 0 && entry.starts_with('=');
    entry.remove_prefix(fits ? 1 : 0);
    double from = fits ? takeNumber(entry) : -1, to = from;
    if (from >= 0 && entry.starts_with('-')) {
      entry.remove_prefix(1);
      to = takeNumber(entry);
    }
    if (from < 0 || to < from || !entry.empty())
      return Status::usage(concat("DIVISI_DELAYS: expected RANK=MILLISECONDS,... such as 0=10,2=0-60, got '", text, "'"));
    if (of == rank) {
      delay.from = from;
      delay.to = to;
    }
  }
  return delay;
}

Result<Delay> Delay::ofRank(int64_t rank) {
  const char *text = std::getenv("DIVISI_DELAYS");
  return parse(text ? text : "", rank);
}

void Delay::operator()() {
  if (to <= 0)
    return;
  double milliseconds = from == to ? from : std::uniform_real_distribution(from, to)(random);
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}
