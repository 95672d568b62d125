#pragma once
#include "test/execute/Draw.h"

#include "passes/Planning/Problem.h"

namespace divisi::test {

/// One to eight devices along one or two axes.
dist::Mesh randomMesh(Draw &draw);
/// A random plan that the sharding rules allow: a few shardings that are propagated, or every operation separately, or
/// both. A tensor with one name in several functions has one sharding.
planning::Plan randomPlan(const planning::Problem &problem, const dist::Mesh &mesh, Draw &draw);

} // namespace divisi::test
