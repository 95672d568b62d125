#pragma once
#include "passes/Planning/Simulator/Transfers.h"

namespace divisi::planning::pipeline {

/// When a device continues after a send.
enum class SendMode {
  buffered,   // immediately: sends run on a stream of their own, or the receiver has buffers
  rendezvous, // when the receiver has reached the receive: a blocking synchronous send
  grouped,    // the same, but the messages between two tasks of a device are started together (ncclGroupStart,
              // MPI_Waitall)
};

/// Checks that every stage runs every task once, and the tasks of a microbatch in order: forward, then a whole backward
/// or inputGradient and weightGradient; updates after the gradients that they apply. Returns an error text that names
/// the device and the task; empty if the schedule is valid.
std::string checkTasks(const Schedule &schedule);

/// Proves that a program terminates on every cluster:
/// - every receive has one send, and each ordered pair of devices sends and receives in the same order;
/// - values are sent after the task that produces them and received before the one that reads them;
/// - the orders of the devices and the messages together have no cycle. With rendezvous, a send and its receive are one
///   step of both devices.
/// Returns an error text that names the device, the task and the cycle; empty if the program is valid.
std::string checkProgram(const Program &program, SendMode mode = SendMode::buffered);

/// The largest number of microbatches in flight (with live activations) at a time. It follows from the order alone.
struct ActivationsHeld {
  std::vector<int> byStage, byDevice; // a device counts each of its chunks
};
ActivationsHeld activationsHeld(const Schedule &schedule);

} // namespace divisi::planning::pipeline
