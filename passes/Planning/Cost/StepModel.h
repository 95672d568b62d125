#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Cost/StepCall.h"
#include "passes/Planning/Expansion.h"
#include "passes/Planning/FuseProblem.h"
#include "passes/Planning/Groups.h"

namespace divisi::planning {

/// What one training step is expected to take on each device. Times in seconds, sizes in bytes.
struct Prediction {
  /// A collective. Small all_reduces are combined (step/Buckets.h): such a one has its part, by bytes, of the times.
  struct Collective {
    int version; // of the expansion
    dist::ReshardStep step;
    int64_t bytes;      // as dist::bytesOfStep counts them
    double ready = 0;   // when its operand is there
    double seconds = 0; // while it runs
    double waited = 0;  // of these, exposed: what computation waits for; the rest overlaps with it
    int operation = -1; // that made the value (-1: an argument)
    double times = 1;   // in a step: once for each microbatch, perhaps
    double sent = 0;    // bytes that one device sends each time
    int together = 1;   // that run as one
    bool leads = true;  // is the first of these
  };
  double seconds = 0, compute = 0, communication = 0, waited = 0;
  double bytesSent = 0;
  double traffic = 0; // bytes that kernels and calls read and write

  enum Phase { forward, backward, update };
  struct Memory {
    double parameters = 0, moments = 0, others = 0, inputs = 0;
    double transient = 0;  // at the worst moment
    Phase phase = forward; // when that is
    int operation = -1;    // at which operation
    double total() const { return parameters + moments + others + inputs + transient; }
  } memory;

  std::vector<double> operations; // compute time by operation of the problem; that of a kernel stands at its last
  std::vector<int> launches;      // by operation: of its kernels, calls and copies
  std::vector<Collective> collectives;
};

/// Runs the step in program order on one stream of computation and one of communication: a collective starts when its
/// value is there and the stream is free, and an operation that reads the result waits for it. Memory is what is live between kernels. These
/// are those of the program before it is sharded, cut where a value is resharded: quick to find.
Prediction predict(const Problem &problem, const Groups &groups, const FusedProblem &fused, const CostModel &costs,
                   const Plan &plan, const Expansion &expansion);
/// What one device's part of a step (Problem::local) runs, in order.
std::vector<StepCall> callsOf(const Problem &problem, const CostModel &costs);

} // namespace divisi::planning
