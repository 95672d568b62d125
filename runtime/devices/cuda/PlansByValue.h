//===- PlansByValue.h - plans of libraries by what they are for -*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_PLANSBYVALUE_H
#define DIVISI_RUNTIME_DEVICES_CUDA_PLANSBYVALUE_H

#include <cstring>
#include <map>
#include <type_traits>

namespace divisi::runtime::cuda {

/// Plans of a library for parameter blocks (of abi.h, which have integers only): calls with equal parameters share one.
template <typename Params, typename Plan> class PlansByValue {
public:
  Plan &operator[](const Params &params) { return plans[params]; }
  void clear() { plans.clear(); }

private:
  static_assert(std::has_unique_object_representations_v<Params>);
  struct Less {
    bool operator()(const Params &a, const Params &b) const { return std::memcmp(&a, &b, sizeof a) < 0; }
  };
  std::map<Params, Plan, Less> plans;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_PLANSBYVALUE_H
