#include "runtime/devices/cpu/MatmulPlan.h"

#include <algorithm>

using namespace divisi::runtime;
using dnnl::memory;

namespace {
/// The matrices of one operand, rows x cols for each (i, j) of the batch, as the library sees them. A stride of 0 is a
/// dimension of size 1 that it repeats.
memory::desc describe(const DivisiGemm &g, int64_t rows, int64_t cols, bool transposed, int64_t ld, int64_t stride0,
                      int64_t stride1, memory::data_type type) {
  memory::dims dims, strides;
  for (auto [size, stride] : {std::pair(g.batch0, stride0), std::pair(g.batch1, stride1)})
    if (size > 1) {
      dims.push_back(stride == 0 ? 1 : size);
      strides.push_back(std::max<int64_t>(stride, 1));
    }
  dims.insert(dims.end(), {rows, cols});
  strides.insert(strides.end(), {transposed ? 1 : ld, transposed ? ld : 1});
  return {dims, type, strides};
}

/// The library's reference implementations ("ref") are slower than a GEMM in fp32.
bool tuned(const std::string &kernel) { return kernel.starts_with("brg") || kernel.starts_with("jit"); }
} // namespace

const dnnl::engine &divisi::runtime::cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

bool MatmulPlan::hasUnits() {
  constexpr auto least = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16); // of AMX, too
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & least) == least;
}

std::unique_ptr<MatmulPlan> MatmulPlan::create(const DivisiGemm &g, bool alone) {
  // Matrices of the batch with one result are added up in their order.
  bool shared = (g.batch0 > 1 && g.c0 == 0) || (g.batch1 > 1 && g.c1 == 0);
  if (!hasUnits() || shared)
    return nullptr;
  try {
    constexpr auto narrow = memory::data_type::bf16;
    std::array layouts = {
        describe(g, g.m, g.k, g.transpose_a != 0, g.lda, g.a0, g.a1, narrow),
        describe(g, g.k, g.n, g.transpose_b != 0, g.ldb, g.b0, g.b1, narrow),
        describe(g, g.m, g.n, false, g.ldc, g.c0, g.c1, g.result_type == DIVISI_F32 ? memory::data_type::f32 : narrow)};
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (g.accumulate) {
      dnnl::post_ops more;
      more.append_sum(1);
      attributes.set_post_ops(more);
    }
    dnnl::matmul::primitive_desc choice({layouts[0], layouts[1], layouts[2]}, attributes, cpuEngine());
    std::unique_ptr<MatmulPlan> plan(new MatmulPlan);
    plan->name = choice.impl_info_str();
    if (!tuned(plan->name) && !(alone && plan->name == "gemm:jit")) // whose sums depend on the number of threads
      return nullptr;
    plan->primitive = dnnl::matmul(choice);
    for (size_t i = 0; i < 3; ++i)
      plan->operands[i] = memory(layouts[i], cpuEngine(), nullptr);
    plan->scratchpad = memory(choice.scratchpad_desc(), cpuEngine(), nullptr);
    plan->bytes = choice.scratchpad_desc().get_size();
    plan->arguments = {{DNNL_ARG_SRC, plan->operands[0]},
                       {DNNL_ARG_WEIGHTS, plan->operands[1]},
                       {DNNL_ARG_DST, plan->operands[2]},
                       {DNNL_ARG_SCRATCHPAD, plan->scratchpad}};
    return plan;
  } catch (const dnnl::error &) {
    return nullptr;
  }
}

void MatmulPlan::run(char *scratch, const std::array<void *, 3> &addresses) {
  for (size_t i = 0; i < 3; ++i)
    operands[i].set_data_handle(addresses[i]);
  scratchpad.set_data_handle(scratch);
  primitive.execute(stream, arguments);
  stream.wait();
}
