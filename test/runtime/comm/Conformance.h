//===- Conformance.h - what every transport must carry right ----*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_CONFORMANCE_H
#define DIVISI_TEST_RUNTIME_COMM_CONFORMANCE_H

#include "runtime/comm/Communicator.h"

namespace divisi::test {

/// A parameter block with its parts behind it.
class CollectiveBlock {
public:
  CollectiveBlock(int64_t kind, int64_t type, std::vector<int64_t> axes, std::vector<DivisiPart> parts);
  DivisiCollective *operator->() { return reinterpret_cast<DivisiCollective *>(memory.data()); }
  const DivisiCollective *operator->() const { return reinterpret_cast<const DivisiCollective *>(memory.data()); }
  const DivisiCollective *get() const { return operator->(); }

private:
  std::vector<int64_t> memory;
};

/// The meshes of this many ranks: one axis, and all ways to make two of them.
std::vector<runtime::Mesh> meshesOf(int ranks);

/// Runs every collective over every group of axes of the mesh on this rank; all ranks call it. Each element must have
/// the value of a formula and be equal on all ranks of a group, and each rank must have sent the theoretical number of
/// bytes. Returns a line for each mistake, and the number of checks in `checks`. `reducers`: see Communicator::reduceBy.
std::vector<std::string> checkCollectives(runtime::Transport &transport, const runtime::Mesh &mesh, int64_t &checks,
                                          std::optional<runtime::Reducers> reducers = {});

/// The same for all_reduces alone, by a tree, or without: by hosts, and around a ring where no host has several
/// members.
std::vector<std::string> checkAllReduces(runtime::Transport &transport, const runtime::Mesh &mesh, int64_t &checks,
                                         bool tree);

/// The functions for hosts.
std::vector<std::string> checkHosts(runtime::Transport &transport);

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_CONFORMANCE_H
