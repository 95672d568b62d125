// Plans of attention by the installed cuDNN, for GPUs that are not present: nothing runs. Prints one line for each plan
// that fails, then `N passed, N failed`.
#include "runtime/devices/cuda/Attention.h"
#include "test/gpu/planning/Gpus.h"

#include <bit>
#include <cstdio>
#include <stdexcept>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;
using namespace divisi::test;

namespace {
struct Case {
  int64_t type, batch, heads, queries, keys, depth, causal;
  const char *bias; ///< its dimensions besides keys; null: there is none
};
constexpr Case cases[] = {
    {DIVISI_BF16, 2, 8, 256, 256, 64, 0, nullptr}, //
    {DIVISI_BF16, 2, 8, 256, 256, 64, 1, nullptr}, //
    {DIVISI_F16, 4, 12, 1024, 1024, 128, 1, nullptr}, {DIVISI_BF16, 2, 3, 77, 77, 64, 1, nullptr},
    {DIVISI_F16, 1, 2, 100, 300, 8, 0, nullptr},      {DIVISI_BF16, 3, 5, 384, 128, 72, 1, nullptr},
    {DIVISI_BF16, 1, 2, 130, 190, 128, 0, nullptr},   {DIVISI_BF16, 2, 4, 1, 200, 96, 0, nullptr},
    {DIVISI_BF16, 1, 1, 8192, 8192, 128, 1, nullptr}, {DIVISI_BF16, 2, 4, 128, 128, 32, 0, "bhq"},
    {DIVISI_F16, 2, 4, 100, 130, 64, 0, "hq"},        {DIVISI_BF16, 2, 4, 256, 256, 128, 1, "q"},
    {DIVISI_BF16, 2, 4, 64, 200, 16, 0, "b"},         {DIVISI_F16, 2, 4, 64, 77, 40, 1, ""},
    {DIVISI_BF16, 8, 4, 32, 32, 16, 1, "bq"},
};

DivisiAttention paramsOf(const Case &c) {
  std::string bias = c.bias ? c.bias : "";
  auto has = [&](char dimension) { return bias.find(dimension) != std::string::npos; };
  return {c.batch,
          c.heads,
          c.queries,
          c.keys,
          c.depth,
          c.causal,
          c.bias != nullptr,
          has('b') ? c.batch : 1,
          has('h') ? c.heads : 1,
          has('q') ? c.queries : 1,
          std::bit_cast<int64_t>(0.125),
          c.type,
          0};
}

/// The workspace that is enough according to the runtime (Attention.h), without the runtime's own part and alignment.
size_t mostWorkspace(AttentionKind kind, const DivisiAttention &a) {
  auto tiled = [](int64_t length, int64_t tile) { return (length + tile - 1) / tile * tile; };
  if (kind == AttentionKind::Forward)
    return 512;
  return static_cast<size_t>(512 + 2 * a.batch * a.heads * tiled(a.queries, 64) * tiled(a.keys, 128));
}

/// An error text for its plan; empty if it is valid.
std::string problemOf(const GraphFunctions &dnn, AttentionKind kind, const DivisiAttention &a, const Gpu &gpu) {
  try {
    Descriptor device = describe(dnn, gpu);
    auto plan = planAttention(dnn, kind, a, {nullptr, &device});
    if (plan->workspaceBytes > mostWorkspace(kind, a))
      return concat("needs a workspace of ", plan->workspaceBytes, " bytes, more than ", mostWorkspace(kind, a));
    return "";
  } catch (const std::runtime_error &problem) {
    return problem.what();
  }
}
} // namespace

int main() {
  int passed = 0, failed = 0;
  try {
    GraphFunctions dnn(GraphFunctions::attention);
    std::printf("cuDNN %zu\n", dnn.version());
    for (const Gpu &gpu : gpus)
      for (const Case &c : cases)
        for (AttentionKind kind : {AttentionKind::Forward, AttentionKind::Gradient}) {
          std::string problem = problemOf(dnn, kind, paramsOf(c), gpu);
          ++(problem.empty() ? passed : failed);
          if (!problem.empty())
            std::printf("FAIL sm_%d %s %s b%ld h%ld q%ld k%ld d%ld%s bias %s: %s\n", gpu.architecture,
                        kind == AttentionKind::Forward ? "attention" : "its gradient",
                        c.type == DIVISI_F16 ? "f16" : "bf16", long(c.batch), long(c.heads), long(c.queries),
                        long(c.keys), long(c.depth), c.causal ? " causal" : "", c.bias ? c.bias : "none",
                        problem.c_str());
        }
    Case odd = cases[0];
    odd.depth = 12;
    bool refused = !problemOf(dnn, AttentionKind::Forward, paramsOf(odd), gpus[1]).empty();
    ++(refused ? passed : failed);
    if (!refused)
      std::printf("FAIL a depth of 12 is not refused\n");
  } catch (const std::runtime_error &problem) {
    std::printf("FAIL %s\n", problem.what());
    ++failed;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
