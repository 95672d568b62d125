#include "test/gpu/ptx/Machine.h"

#include <cstring>

using namespace divisi::test::ptx;

Warp::Warp(const Launch &launch, Shared &shared, Global &global, unsigned number)
    : launch(launch), shared(shared), global(global), number(number), file(launch.program.registersEnd),
      local(warpSize * launch.program.localBytes) {
  const Program &program = launch.program;
  std::memcpy(file.data() + program.constantsBegin, program.constants.data(), program.constants.size());
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    at<uint32_t>(threadSlot)[lane] = firstThread() + lane;
    at<uint32_t>(threadsSlot)[lane] = launch.threads;
    at<uint32_t>(blocksSlot)[lane] = launch.blocks;
    at<uint32_t>(laneSlot)[lane] = lane;
  }
}

void Warp::begin(unsigned block) {
  std::fill_n(at<uint32_t>(blockSlot), warpSize, block);
  // No kernel may rely on what registers contain.
  std::memset(file.data() + launch.program.registersBegin, 0xA5, file.size() - launch.program.registersBegin);
  unsigned left = launch.threads - firstThread();
  live = left >= warpSize ? allLanes : (1u << left) - 1;
  path = {0, nowhere, live};
  waiting.clear();
  steps = 0;
}

void Warp::run() {
  stopped = false;
  epoch.block = global.clock.now;
  const std::vector<Code> &codes = launch.program.codes;
  while (!stopped) {
    if (path.pc == path.meet) {
      path = waiting.back();
      waiting.pop_back();
      continue;
    }
    const Code &code = codes[path.pc++];
    active = path.mask;
    if (code.guard != Code::none) {
      active &= code.negated ? ~predicate(code.guard) : predicate(code.guard);
      if (active == 0)
        continue;
    }
    if (++steps > mostSteps)
      throw Fault(firstOf(active), "the thread does not end");
    code.run(*this, code);
  }
}

void Warp::branch(uint32_t target, uint32_t meet) {
  uint32_t rest = path.mask & ~active;
  if (rest == 0)
    return jump(target);
  const Path paths[] = {{path.pc, meet, rest}, {target, meet, active}};
  diverge(paths, meet);
}

void Warp::diverge(std::span<const Path> paths, uint32_t meet) {
  // (Where a loop is left by some lanes after others, these wait there already.)
  if (path.meet != meet)
    waiting.push_back({meet, path.meet, path.mask});
  for (const Path &next : paths)
    if (next.pc != meet)
      waiting.push_back({next.pc, meet, next.mask});
  path = waiting.back();
  waiting.pop_back();
}

void Warp::exit() {
  live &= ~active;
  path.mask &= ~active;
  for (Path &other : waiting)
    other.mask &= ~active;
  while (path.mask == 0 && !waiting.empty()) {
    path = waiting.back();
    waiting.pop_back();
  }
  stopped = live == 0;
}

void Warp::requireTogether(uint32_t members, const char *what) {
  if (active == (members & live))
    return;
  uint32_t missing = members & live & ~active;
  throw Fault(firstOf(active),
              std::string(what) + " in divergent code: " +
                  (missing ? "thread " + std::to_string(firstThread() + firstOf(missing)) + " is elsewhere"
                           : "the thread is no member"));
}

Machine::Machine(const Launch &launch, Global &global)
    : launch(launch), global(global), shared(launch.program, global.clock) {
  global.begin(launch.program.globalGranule);
  for (unsigned first = 0; first < launch.threads; first += warpSize)
    warps.emplace_back(launch, shared, global, first / warpSize);
}

std::string Machine::run(unsigned block) {
  global.clock.beginBlock();
  for (Warp &warp : warps)
    warp.begin(block);
  for (bool ends = false; !ends; global.clock.synchronize()) {
    ends = true;
    for (Warp &warp : warps)
      if (!warp.hasEnded()) {
        try {
          warp.run();
        } catch (const Fault &fault) {
          const Code &code = warp.current();
          return launch.program.name + ": line " + std::to_string(code.line) + ": " +
                 (code.statement ? code.statement->opcode : "end") + ": thread " +
                 std::to_string(warp.firstThread() + fault.lane) + " of block " + std::to_string(block) + ": " +
                 fault.what();
        }
        ends &= warp.hasEnded();
      }
  }
  return "";
}
