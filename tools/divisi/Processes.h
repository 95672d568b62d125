//===- Processes.h - what processes the system has --------------*- C++ -*-===//
#ifndef DIVISI_TOOLS_DIVISI_PROCESSES_H
#define DIVISI_TOOLS_DIVISI_PROCESSES_H

#include <sys/types.h>

namespace divisi::tools {

/// Whether the process has children that have not ended; true if the system does not provide this.
bool hasLivingChildren(pid_t parent);

} // namespace divisi::tools

#endif // DIVISI_TOOLS_DIVISI_PROCESSES_H
