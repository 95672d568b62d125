#include "passes/Planning/Simulator/Simulator.h"
#include "passes/Planning/Simulator/WeightVersions.h"
#include "step/Timeline.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

Network pipeline::uniformNetwork(double latency, double bandwidth) {
  return {[=](int, int, double bytes) { return latency + bytes / bandwidth; }};
}

double Simulation::busy() const {
  double sum = 0;
  for (const Device &device : devices)
    sum += device.busy;
  return sum;
}

double Simulation::utilization() const { return seconds > 0 ? busy() / (seconds * devices.size()) : 0; }

double Simulation::bubble() const { return busy() > 0 ? (seconds * devices.size() - busy()) / busy() : 0; }

namespace {

/// Seconds until the last of the messages has arrived.
double arrival(const Network &network, int from, int to, const Load &load) {
  return load.values > 0 ? (double)load.values * network.seconds(from, to, load.bytes / (double)load.values) : 0;
}

/// The events of a program as items of a timeline: each device has a stream of tasks and one of communication.
class Run {
public:
  Run(const Program &program, const std::vector<StageCost> &stages, const Network &network)
      : program(program), o(program.options), stages(stages), network(network), stageEdges(program.edges, o.stages()),
        sent(2 * program.edges.size() * o.microbatches, -1) {}

  Simulation run() {
    result.options = o;
    result.edges = program.edges;
    result.devices.resize(o.devices);
    for (int device = 0; device < o.devices; ++device)
      addDevice(device);
    connect();
    play();
    measureMemory();
    account();
    llvm::stable_sort(result.events, [](const Event &a, const Event &b) {
      return std::pair(a.start, a.device) < std::pair(b.start, b.device);
    });
    return std::move(result);
  }

private:
  int add(const Event &event, int stream, double seconds) {
    result.events.push_back(event);
    duration.push_back(seconds);
    return timeline.add(stream, seconds);
  }

  double secondsOf(const Task &task, int stage) const {
    const StageCost &cost = stages[stage];
    switch (task.kind) {
    case Task::forward:
      return cost.forward;
    case Task::backward:
      return cost.inputGradient + cost.weightGradient;
    case Task::inputGradient:
      return cost.inputGradient;
    case Task::weightGradient:
      return cost.weightGradient;
    case Task::update:
      return cost.update;
    }
    return 0;
  }

  /// Adds the events of a device in the order of its streams.
  void addDevice(int device) {
    const int computing = 2 * device, communicating = network.overlap ? computing + 1 : computing;
    int made = -1;                               // the last task
    std::vector<int> reduced(o.chunks, -1);      // the all_reduce before the next update of a chunk
    std::vector<size_t> last = lastGradients(device);
    std::optional<size_t> reduce; // an action that produces the last gradient: its sends come first
    auto communicate = [&](const Event &event, double seconds) {
      int item = add(event, communicating, seconds);
      timeline.wait(made, item);
      return item;
    };
    for (auto [i, action] : llvm::enumerate(program.devices[device])) {
      if (action.kind == Action::send) {
        const Load load = program.edges[action.message.edge].load(action.message.gradient);
        sent[action.message.slot(o.microbatches)] =
            communicate({Event::transfer, device, 0, 0, {}, action.message, action.peer, load.bytes, load.values},
                        arrival(network, device, action.peer, load));
      }
      if (action.kind != Action::run)
        continue;
      if (reduce) {
        const Task &update = program.devices[device][last[*reduce]].task;
        reduced[update.chunk] =
            communicate({Event::allReduce, device, 0, 0, update}, stages[o.stageOf(device, update.chunk)].allReduce);
        reduce.reset();
      }
      const Task &task = action.task;
      int stage = o.stageOf(device, task.chunk);
      made = add({Event::compute, device, 0, 0, task}, computing, secondsOf(task, stage));
      if (task.kind == Task::update)
        timeline.wait(std::exchange(reduced[task.chunk], -1), made);
      for (const Message &message : stageEdges.needed(task, stage))
        needs.emplace_back(message, made);
      for (const Message &message : stageEdges.made(task, stage))
        if (o.deviceOf(program.receiverStage(message)) == device)
          sent[message.slot(o.microbatches)] = made;
      if (last[i] && stages[stage].allReduce > 0)
        reduce = i;
    }
  }

  /// By action: the update whose last gradient it produces, or 0.
  std::vector<size_t> lastGradients(int device) const {
    const std::vector<Action> &actions = program.devices[device];
    std::vector<size_t> result(actions.size()), update(o.chunks);
    for (size_t i = actions.size(); i-- > 0;) {
      if (actions[i].kind != Action::run)
        continue;
      const Task &task = actions[i].task;
      if (task.kind == Task::update)
        update[task.chunk] = i;
      else if (task.freesActivations())
        result[i] = std::exchange(update[task.chunk], 0);
    }
    return result;
  }

  void connect() {
    for (auto [message, item] : needs)
      timeline.wait(sent[message.slot(o.microbatches)], item);
  }

  void play() {
    timeline.run(); // a checked program has no circles
    for (auto [item, event] : llvm::enumerate(result.events)) {
      event.start = timeline.start(item);
      event.end = timeline.end(item);
    }
    result.seconds = timeline.end();
  }

  /// Measures memory while the events are still in program order.
  void measureMemory() {
    Schedule schedule{o, std::vector<std::vector<Task>>(o.devices)};
    for (const Event &event : result.events)
      if (event.kind == Event::compute)
        schedule.devices[event.device].push_back(event.task);
    result.weightVersions = weightVersions(schedule).kept;
    result.peakMicrobatches = activationsHeld(schedule).byStage;
    std::vector<double> bytes(o.devices);
    std::vector<int> held(o.devices);
    for (int stage = 0; stage < o.stages(); ++stage) {
      Simulation::Device &device = result.devices[o.deviceOf(stage)];
      device.fixedBytes += result.weightVersions[stage] * stages[stage].parameterBytes + stages[stage].stateBytes;
    }
    for (int device = 0; device < o.devices; ++device) {
      bytes[device] = result.devices[device].peakBytes = result.devices[device].fixedBytes;
      result.devices[device].memory.push_back({0, bytes[device], 0});
    }
    for (const Event &event : result.events) {
      bool takes = event.task.kind == Task::forward;
      if (event.kind != Event::compute || (!takes && !event.task.freesActivations()))
        continue;
      Simulation::Device &device = result.devices[event.device];
      double activations = stages[o.stageOf(event.device, event.task.chunk)].activationBytes;
      bytes[event.device] += takes ? activations : -activations;
      held[event.device] += takes ? 1 : -1;
      Simulation::Sample sample{takes ? event.start : event.end, bytes[event.device], held[event.device]};
      device.peakBytes = std::max(device.peakBytes, sample.bytes);
      device.peakMicrobatches = std::max(device.peakMicrobatches, sample.microbatches);
      if (device.memory.back().time == sample.time)
        device.memory.back() = sample;
      else
        device.memory.push_back(sample);
    }
  }

  void account() {
    std::vector<double> updates; // end times of stage 0's updates
    for (auto [event, seconds] : llvm::zip(result.events, duration)) {
      Simulation::Device &device = result.devices[event.device];
      if (event.kind == Event::compute) {
        device.busy += seconds;
        if (event.task.kind == Task::update && event.device == 0)
          updates.push_back(event.end);
        continue;
      }
      device.communicating += seconds;
      if (event.kind == Event::transfer && event.values > 0) {
        device.bytesSent += event.bytes;
        Simulation::Traffic &traffic = result.links[{event.device, event.peer}];
        traffic.messages += event.values;
        traffic.bytes += event.bytes;
      }
    }
    result.steadySeconds = result.seconds;
    if (!o.asynchronous())
      return;
    // Stage 0 has p minibatches in flight, so none enters after update m - p. Of the updates before that, the later
    // half counts.
    int end = (o.microbatches - o.devices) / o.batch, begin = end / 2;
    result.steadySeconds =
        end > begin ? (updates[end] - updates[begin]) / (end - begin) : result.seconds * o.batch / o.microbatches;
  }

  const Program &program;
  const ScheduleOptions &o;
  const std::vector<StageCost> &stages;
  const Network &network;
  StageEdges stageEdges;
  divisi::step::Timeline timeline; // its items are the events
  std::vector<double> duration; // by event
  std::vector<int> sent;        // by number of the message: the event that delivers it
  std::vector<std::pair<Message, int>> needs;
  Simulation result;
};

std::string checkCosts(const Program &program, const std::vector<StageCost> &stages, const Network &network) {
  if (stages.size() != (size_t)program.options.stages())
    return "costs of " + std::to_string(stages.size()) + " stages for a schedule of " +
           std::to_string(program.options.stages());
  for (auto [s, c] : llvm::enumerate(stages))
    for (double value : {c.forward, c.inputGradient, c.weightGradient, c.update, c.allReduce, c.activationBytes,
                         c.parameterBytes, c.stateBytes})
      if (!std::isfinite(value) || value < 0)
        return "stage " + std::to_string(s) + ": times and sizes have to be finite and not negative";
  for (const Edge &edge : program.edges) {
    int from = program.options.deviceOf(edge.producer), to = program.options.deviceOf(edge.consumer);
    const Load there = edge.load(/*gradient=*/false), back = edge.load(/*gradient=*/true);
    for (double value : {there.bytes, back.bytes, arrival(network, from, to, there), arrival(network, to, from, back)})
      if (!std::isfinite(value) || value < 0)
        return "edge " + std::to_string(edge.producer) + " -> " + std::to_string(edge.consumer) +
               ": bytes and seconds have to be finite and not negative";
  }
  return "";
}
} // namespace

llvm::Expected<Simulation> pipeline::simulate(const Program &program, const std::vector<StageCost> &stages,
                                              const Network &network) {
  std::string wrong = checkProgram(program);
  if (wrong.empty())
    wrong = checkCosts(program, stages, network);
  if (!wrong.empty())
    return llvm::createStringError(wrong);
  return Run(program, stages, network).run();
}

llvm::Expected<Simulation> pipeline::simulate(const ScheduleOptions &options, const std::vector<Edge> &edges,
                                              const std::vector<StageCost> &stages, const Network &network) {
  auto schedule = makeSchedule(options);
  if (!schedule)
    return schedule.takeError();
  auto program = addTransfers(*schedule, edges);
  if (!program)
    return program.takeError();
  return simulate(*program, stages, network);
}
