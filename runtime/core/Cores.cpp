#include "runtime/core/Cores.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
/// The quotient of the first two numbers in these files; nothing if there are none: "max", or -1 in version 1.
std::optional<double> quotient(const std::string &quota, const std::string &period) {
  std::ifstream first(quota), second(period);
  double time = 0, of = 0;
  if (!(first >> time) || (quota == period ? !(first >> of) : !(second >> of)) || time <= 0 || of <= 0)
    return std::nullopt;
  return time / of;
}
} // namespace

std::optional<int> divisi::runtime::coresOfGroups(std::string_view membership, const std::string &root) {
  std::optional<double> least;
  while (!membership.empty()) { // lines "number:controllers:/path"
    std::string_view line = membership.substr(0, membership.find('\n'));
    membership.remove_prefix(std::min(line.size() + 1, membership.size()));
    size_t colon = line.find(':'), next = colon == line.npos ? line.npos : line.find(':', colon + 1);
    if (next == line.npos)
      continue;
    std::string controllers(line.substr(colon + 1, next - colon - 1));
    bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",cpu,") == std::string::npos)
      continue;
    std::string top = unified ? root : root + "/" + controllers;
    // All groups around this one limit it, too. In a container the path may be that of the host.
    for (std::string path(line.substr(next + 1));; path.erase(std::min(path.rfind('/'), path.size()))) {
      std::string folder = top + (path == "/" ? "" : path);
      auto cores = unified ? quotient(folder + "/cpu.max", folder + "/cpu.max")
                           : quotient(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us");
      if (cores)
        least = std::min(least.value_or(*cores), *cores);
      if (path.empty() || path == "/")
        break;
    }
  }
  return least ? std::optional(std::max(1, static_cast<int>(std::ceil(std::min(*least, 1e6))))) : std::nullopt;
}

std::optional<int> divisi::runtime::coresOfGroups() {
  std::ifstream file("/proc/self/cgroup");
  return coresOfGroups(std::string(std::istreambuf_iterator<char>(file), {}), "/sys/fs/cgroup");
}

/// The cores of a mask from number `first` to before `end`.
static cpu_set_t partOf(const cpu_set_t &mask, int first, int end) {
  cpu_set_t part;
  CPU_ZERO(&part);
  for (int core = 0, found = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &mask)) {
      if (found >= first && found < end)
        CPU_SET(core, &part);
      ++found;
    }
  return part;
}

void divisi::runtime::keepThreadOn(int number) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0)
    return;
  const cpu_set_t one = partOf(mask, number, number + 1);
  sched_setaffinity(0, sizeof(one), &one); // refused if there is no such core
}

void divisi::runtime::keepToPart(int number, int parts, int share) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0 || share * parts > CPU_COUNT(&mask) ||
      CPU_COUNT(&mask) < sysconf(_SC_NPROCESSORS_ONLN)) // others may have been given other cores
    return;
  const cpu_set_t part = partOf(mask, CPU_COUNT(&mask) * number / parts, CPU_COUNT(&mask) * (number + 1) / parts);
  std::error_code error;
  for (std::filesystem::directory_iterator thread("/proc/self/task", error), end; !error && thread != end; thread.increment(error))
    sched_setaffinity(std::atoi(thread->path().filename().c_str()), sizeof(part), &part); // they may have ended meanwhile
}

int divisi::runtime::coresAllowed() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = sched_getaffinity(0, sizeof(mask), &mask) == 0 ? std::max(1, CPU_COUNT(&mask)) : 1;
  return std::min(cores, coresOfGroups().value_or(cores));
}
