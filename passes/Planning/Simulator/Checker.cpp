#include "passes/Planning/Simulator/Checker.h"
#include "passes/Planning/Simulator/Waits.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

namespace {

std::string on(int device) { return "device " + std::to_string(device) + ": "; }

/// The tasks of one device.
class TaskCheck {
public:
  TaskCheck(const ScheduleOptions &options, int device)
      : o(options), device(device), seen((size_t)o.chunks * o.microbatches), pending(o.chunks) {}

  std::string run(const std::vector<Task> &tasks) {
    for (const Task &task : tasks)
      if (std::string wrong = check(task); !wrong.empty())
        return on(device) + wrong;
    for (int chunk = 0; chunk < o.chunks; ++chunk) {
      for (int microbatch = 0; microbatch < o.microbatches; ++microbatch)
        if (unsigned found = seen[place(microbatch, chunk)]; !(found & whole) && found != split)
          return on(device) + "lacks a " + describe({missing(found), microbatch, chunk});
      if (pending[chunk])
        return on(device) + "lacks an update of chunk " + std::to_string(chunk) + " after the last gradient";
    }
    return "";
  }

private:
  static constexpr unsigned whole = 1u << Task::backward;
  static constexpr unsigned split = 1u << Task::forward | 1u << Task::inputGradient | 1u << Task::weightGradient;

  size_t place(int microbatch, int chunk) const { return (size_t)chunk * o.microbatches + microbatch; }

  static Task::Kind missing(unsigned found) {
    if (!(found & 1u << Task::forward))
      return Task::forward;
    return found & 1u << Task::inputGradient ? Task::weightGradient : Task::backward;
  }

  std::string check(const Task &task) {
    if (task.microbatch < 0 || task.microbatch >= o.microbatches || task.chunk < 0 || task.chunk >= o.chunks)
      return "no " + describe(task) + " exists";
    if (task.kind == Task::update) {
      pending[task.chunk] = false;
      return "";
    }
    unsigned &found = seen[place(task.microbatch, task.chunk)];
    unsigned before = task.kind == Task::forward          ? 0
                      : task.kind == Task::weightGradient ? 1u << Task::forward | 1u << Task::inputGradient
                                                          : 1u << Task::forward;
    if (found & 1u << task.kind)
      return describe(task) + " stands twice";
    if (found != before)
      return describe(task) + (found & ~before ? " comes too late" : " comes too early");
    found |= 1u << task.kind;
    pending[task.chunk] = pending[task.chunk] || task.freesActivations();
    return "";
  }

  const ScheduleOptions &o;
  int device;
  std::vector<unsigned> seen; // by chunk and microbatch: bits of Task::Kind
  std::vector<bool> pending;  // by chunk: a gradient that no update has yet applied
};

/// Sends and receives of a program, by sender and receiver.
class MessageCheck {
public:
  explicit MessageCheck(const Program &program)
      : program(program), stageEdges(program.edges, program.options.stages()) {}

  std::string run() {
    for (auto [device, actions] : llvm::enumerate(program.devices))
      if (std::string wrong = walk(device, actions); !wrong.empty())
        return wrong;
    for (const auto &[pair, sends] : sent)
      if (std::string wrong = compare(pair, sends, received[pair]); !wrong.empty())
        return wrong;
    for (const auto &[pair, receives] : received)
      if (!sent.count(pair))
        return compare(pair, {}, receives);
    return "";
  }

private:
  /// Collects the messages of a device, and checks them against its tasks.
  std::string walk(int device, const std::vector<Action> &actions) {
    std::map<Message, int> count; // of messages received, made or sent so far
    for (const Action &action : actions) {
      auto fail = [&](const std::string &what) { return on(device) + describe(action, program.edges) + " " + what; };
      if (action.kind == Action::run) {
        if (std::string wrong = runTask(device, action.task, count); !wrong.empty())
          return fail(wrong);
        continue;
      }
      const Message &m = action.message;
      bool send = action.kind == Action::send;
      int here = send ? program.senderStage(m) : program.receiverStage(m);
      int there = send ? program.receiverStage(m) : program.senderStage(m);
      if (program.options.deviceOf(here) != device || program.options.deviceOf(there) != action.peer)
        return fail("is not between the devices of its stages");
      if (send && count[m] == 0)
        return fail("stands before the task that makes the value");
      if (count[m]++ > (send ? 1 : 0))
        return fail("stands twice");
      (send ? sent[{device, action.peer}] : received[{action.peer, device}]).push_back(m);
    }
    return "";
  }

  /// Checks that a task's inputs from other devices have arrived; records the messages that it produces.
  std::string runTask(int device, const Task &task, std::map<Message, int> &count) {
    const ScheduleOptions &o = program.options;
    int stage = o.stageOf(device, task.chunk);
    for (const Message &message : stageEdges.needed(task, stage))
      if (int peer = o.deviceOf(program.senderStage(message)); peer != device && !count.count(message))
        return "stands before its " + describe({Action::receive, {}, message, peer}, program.edges);
    for (const Message &message : stageEdges.made(task, stage))
      count[message] = 1;
    return "";
  }

  std::string compare(std::pair<int, int> pair, const std::vector<Message> &sends,
                      const std::vector<Message> &receives) {
    auto [from, to] = pair;
    auto text = [&](Action::Kind kind, const Message &message) {
      return describe({kind, {}, message, kind == Action::send ? to : from}, program.edges);
    };
    for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      if (i >= receives.size())
        return on(to) + "no receive for device " + std::to_string(from) + "'s " + text(Action::send, sends[i]);
      if (i >= sends.size())
        return on(from) + "no send for device " + std::to_string(to) + "'s " + text(Action::receive, receives[i]);
      if (sends[i] != receives[i])
        return on(to) + text(Action::receive, receives[i]) + " is out of order: message " + std::to_string(i) +
               " of device " + std::to_string(from) + " is the " + text(Action::send, sends[i]);
    }
    return "";
  }

  const Program &program;
  StageEdges stageEdges;
  std::map<std::pair<int, int>, std::vector<Message>> sent, received;
};
} // namespace

std::string pipeline::checkTasks(const Schedule &schedule) {
  if (schedule.devices.size() != (size_t)schedule.options.devices)
    return std::to_string(schedule.devices.size()) + " task lists for " + std::to_string(schedule.options.devices) +
           " devices";
  for (auto [device, tasks] : llvm::enumerate(schedule.devices))
    if (std::string wrong = TaskCheck(schedule.options, device).run(tasks); !wrong.empty())
      return wrong;
  return "";
}

std::string pipeline::checkProgram(const Program &program, SendMode mode) {
  Schedule schedule{program.options, std::vector<std::vector<Task>>(program.devices.size())};
  for (auto [tasks, actions] : llvm::zip(schedule.devices, program.devices))
    for (const Action &action : actions)
      if (action.kind == Action::run)
        tasks.push_back(action.task);
  std::string wrong = checkTasks(schedule);
  if (wrong.empty())
    wrong = MessageCheck(program).run();
  if (wrong.empty())
    wrong = findDeadlock(program, mode);
  return wrong;
}

ActivationsHeld pipeline::activationsHeld(const Schedule &schedule) {
  const ScheduleOptions &o = schedule.options;
  ActivationsHeld held{std::vector<int>(o.stages()), std::vector<int>(o.devices)};
  for (auto [device, tasks] : llvm::enumerate(schedule.devices)) {
    std::vector<int> chunks(o.chunks);
    int all = 0;
    for (const Task &task : tasks) {
      int change = task.kind == Task::forward ? 1 : task.freesActivations() ? -1 : 0;
      all += change;
      chunks[task.chunk] += change;
      int &stage = held.byStage[o.stageOf(device, task.chunk)];
      stage = std::max(stage, chunks[task.chunk]);
      held.byDevice[device] = std::max(held.byDevice[device], all);
    }
  }
  return held;
}
