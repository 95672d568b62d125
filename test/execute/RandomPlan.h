#pragma once
#include "test/execute/Draw.h"

#include "passes/Planning/Problem.h"

namespace divisi::test {

/// One to eight devices along one or two axes.
dist::Mesh randomMesh(Draw &draw);
/// Any plan that the sharding rules allow: a few splits and where they spread to, or every operation for itself, or
/// both. What one name stands for in several functions lies alike.
planning::Plan randomPlan(const planning::Problem &problem, const dist::Mesh &mesh, Draw &draw);

} // namespace divisi::test
