//===- Cores.h - cores that a process may use -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_CORES_H
#define DIVISI_RUNTIME_CORE_CORES_H

#include <optional>
#include <string>
#include <string_view>

namespace divisi::runtime {

/// The number of cores that this process may use: those of its affinity mask, or fewer if its control groups limit its
/// time. At least 1.
int coresAllowed();

/// Keeps all threads of this process on the cores of part `number` of `parts` of those in its affinity mask, so that ranks
/// of a host do not take each other's. Nothing if a launcher has divided the cores already: the mask lacks some of the
/// machine's, or each part has fewer than `share`.
void keepToPart(int number, int parts, int share);

/// Keeps the calling thread on core `number` of those in its affinity mask.
void keepThreadOn(int number);

/// The time that control groups leave to this process, in cores and rounded up; nothing if none has a limit.
std::optional<int> coresOfGroups();

/// The same of any process: `membership` is the text of its /proc/PID/cgroup, `root` the folder where groups are
/// mounted (version 2, or controllers of version 1).
std::optional<int> coresOfGroups(std::string_view membership, const std::string &root);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_CORES_H
