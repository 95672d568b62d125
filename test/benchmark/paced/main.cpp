// The main function of a program whose ranks are threads on links of given speed, and whose GEMMs take as long as on a
// device of given speed: they sleep. Linked in front of the runtime, with --wrap for GEMMs; paced.py does so.
//   PACED_HOSTS=0,0,1,1     numbers of hosts by rank
//   PACED_KNOWN=0,0,0,0     those that collectives regard
//   PACED_LINKS=S,B,S,B     latency and bytes/s inside of a host, and between hosts
//   PACED_FLOPS=1e8         FLOP/s of a rank
#include "runtime/main/RunProgram.h"
#include "test/runtime/comm/PacedRanks.h"
#include "test/runtime/comm/Ranks.h"

#include <cstdlib>
#include <sstream>

using namespace divisi;

namespace {
template <typename T> std::vector<T> numbers(const char *variable) {
  std::vector<T> list;
  std::istringstream text(std::getenv(variable));
  for (std::string one; std::getline(text, one, ',');)
    list.push_back(static_cast<T>(std::stod(one)));
  return list;
}

void sleepFor(double flops) {
  static const double rate = numbers<double>("PACED_FLOPS").at(0);
  std::this_thread::sleep_for(std::chrono::duration<double>(flops / rate));
}
} // namespace

extern "C" {
void __real_divisi_gemm(DivisiContext *, const DivisiGemm *, void *const *);
void __wrap_divisi_gemm(DivisiContext *context, const DivisiGemm *p, void *const *buffers) {
  sleepFor(2. * static_cast<double>(p->batch0 * p->batch1 * p->m * p->n * p->k));
  __real_divisi_gemm(context, p, buffers);
}
void __real_divisi_gemm_epilogue(DivisiContext *, const DivisiGemmEpilogue *, void *const *);
void __wrap_divisi_gemm_epilogue(DivisiContext *context, const DivisiGemmEpilogue *p, void *const *buffers) {
  sleepFor(2. * static_cast<double>(p->m * p->n * p->k));
  __real_divisi_gemm_epilogue(context, p, buffers);
}
}

int main(int argc, char **argv) {
  const std::vector<double> links = numbers<double>("PACED_LINKS");
  test::PacedHub hub(numbers<int>("PACED_HOSTS"), {{links.at(0), links.at(1)}, {links.at(2), links.at(3)}},
                     numbers<int>("PACED_KNOWN"));
  std::atomic<int> code = 0;
  test::onRanks(hub, [&](runtime::Transport &transport) {
    if (int mine = runtime::runProgram(divisi_program, argc, argv, &transport); mine != 0)
      code = mine;
  });
  return code;
}
