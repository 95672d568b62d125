#pragma once
#include "passes/Planning/Simulator/Transfers.h"

namespace divisi::planning::pipeline {

/// When a device goes on after a send.
enum class SendMode {
  buffered,   // at once: sends run on a stream of their own, or the receiver has room
  rendezvous, // when the receiver is at the receive: a blocking synchronous send
  grouped,    // the same, but the messages between two tasks of a device are started together (ncclGroupStart,
              // MPI_Waitall)
};

/// Whether every stage runs every task once, and the tasks of a microbatch in their order: forward, then a whole
/// backward or inputGradient and weightGradient; updates after the gradients they have. What is wrong, in words that
/// name the device and the task; empty if nothing is.
std::string checkTasks(const Schedule &schedule);

/// Proves that a program runs to its end on every cluster:
/// - every receive has one send, and each ordered pair of devices sends and receives in the same order;
/// - values are sent after the task that makes them and received before the one that needs them;
/// - the orders of the devices and the messages together have no cycle. With rendezvous, a send and its receive are one
///   step of both devices.
/// What is wrong, in words that name the device, the task and the cycle; empty if nothing is.
std::string checkProgram(const Program &program, SendMode mode = SendMode::buffered);

/// How many microbatches have activations at the worst moment; it follows from the order alone.
struct ActivationsHeld {
  std::vector<int> byStage, byDevice; // a device counts each of its chunks
};
ActivationsHeld activationsHeld(const Schedule &schedule);

} // namespace divisi::planning::pipeline
