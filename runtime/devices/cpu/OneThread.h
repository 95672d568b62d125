//===- OneThread.h - a library on the calling thread ------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_ONETHREAD_H
#define DIVISI_RUNTIME_DEVICES_CPU_ONETHREAD_H

#include "runtime/core/Team.h"

namespace divisi::runtime {

/// Lets oneDNN or OpenBLAS compute on the calling thread during its lifetime, if asked to.
class OneThread {
public:
  explicit OneThread(bool wanted) : before(divisi_team_size()), wanted(wanted && before > 1) {
    if (this->wanted)
      divisi_team_set_size(1);
  }
  ~OneThread() {
    if (wanted)
      divisi_team_set_size(before);
  }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

private:
  int before;
  bool wanted;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_ONETHREAD_H
