#include "test/execute/Devices.h"

#include "dialects/Graph/Graph.h"
#include "runtime/comm/Communicator.h"
#include "runtime/core/Context.h"
#include "test/runtime/comm/Ranks.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace divisi;
using namespace divisi::test;
using compiler::JitProgram;
using Place = JitProgram::Place;

namespace {

/// One device's arena, and how its values are shards of whole tensors.
class Device {
public:
  Device(const JitProgram &program, const dist::Mesh &mesh, const runtime::Mesh &grid, int rank)
      : program(program), mesh(mesh), grid(grid), rank(rank),
        arena((char *)std::aligned_alloc(DIVISI_ALIGNMENT, bytes()), &std::free) {
    memset(arena.get(), 0, bytes());
    for (auto [i, axis] : llvm::enumerate(grid.axes()))
      if (auto it = program.arguments.find("axis_index." + axis.name); it != program.arguments.end())
        *(int64_t *)at(it->second) = grid.index(rank, (int64_t)i);
  }

  char *memory() { return arena.get(); }

  void write(const Tensors &tensors) {
    for (const auto &[name, whole] : tensors)
      if (auto it = program.arguments.find(name); it != program.arguments.end()) {
        const Place &place = it->second;
        memset(at(place), 0, graph::bytesOf(place.type));
        forEach(place, [&](int64_t here, int64_t there, int64_t width) {
          if (there >= 0)
            memcpy(at(place) + here * width, whole.data() + there * width, width);
        });
      }
  }

  /// Copies this device's shard to the whole tensor; `known` marks the bytes that other devices have copied.
  void read(const std::string &name, const Place &place, Bytes &whole, std::vector<bool> &known) {
    forEach(place, [&](int64_t here, int64_t there, int64_t width) {
      for (int64_t k = 0; k < width; ++k) {
        char mine = at(place)[here * width + k];
        if (there < 0) {
          disagrees |= mine != 0;
          continue;
        }
        char &byte = whole[there * width + k];
        disagrees |= known[there * width + k] && byte != mine;
        known[there * width + k] = true;
        byte = mine;
      }
    });
    EXPECT_FALSE(disagrees) << "device " << rank << " differs from others, or is not zero in the padding of " << name;
    disagrees = false;
  }

  Bytes report(const Place &place) {
    char *from = at(place);
    return place.offset < 0 ? place.constant : Bytes(from, from + graph::bytesOf(place.type));
  }

  static RankedTensorType wholeType(const Place &place) {
    auto global = place.attributes.getAs<TypeAttr>(dist::names::global);
    return global ? cast<RankedTensorType>(global.getValue()) : place.type;
  }
  static llvm::ArrayRef<int64_t> modelShape(const Place &place) {
    auto unpadded = place.attributes.getAs<DenseI64ArrayAttr>(graph::names::unpadded);
    return unpadded ? unpadded.asArrayRef() : wholeType(place).getShape();
  }

private:
  size_t bytes() const { return (program.get().arena_bytes + DIVISI_ALIGNMENT) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT; }
  char *at(const Place &place) { return arena.get() + place.offset; }

  /// Calls body(index in the shard, index in the whole tensor or -1 in the padding, bytes of an element).
  void forEach(const Place &place, llvm::function_ref<void(int64_t, int64_t, int64_t)> body) {
    auto whole = wholeType(place);
    auto model = modelShape(place), local = place.type.getShape();
    dist::Sharding sharding = dist::toSharding(whole, mesh);
    SmallVector<int64_t> start;
    for (auto [d, axes] : llvm::enumerate(sharding.dims)) {
      std::vector<int64_t> list(axes.begin(), axes.end());
      start.push_back(grid.index(rank, list) * local[d]);
    }
    for (int64_t i = 0; i < place.type.getNumElements(); ++i) {
      int64_t rest = i, there = 0, stride = 1;
      for (size_t d = local.size(); d-- > 0; stride *= model[d]) {
        int64_t index = start[d] + rest % local[d];
        rest /= local[d];
        there = there < 0 || index >= model[d] ? -1 : there + index * stride;
      }
      body(i, there, graph::bytesOfElement(place.type.getElementType()));
    }
  }

  const JitProgram &program;
  const dist::Mesh &mesh;
  const runtime::Mesh &grid;
  int rank;
  std::unique_ptr<char, decltype(&std::free)> arena;
  bool disagrees = false;
};
} // namespace

std::vector<Outcome> test::runTurns(const JitProgram &program, const dist::Mesh &mesh, const Tensors &states,
                                    const std::vector<Turn> &turns) {
  std::vector<runtime::Axis> axes;
  for (const auto &axis : mesh.axes)
    axes.push_back({axis.name, axis.size});
  runtime::Mesh grid(axes);
  std::vector<Outcome> outcomes(turns.size());
  std::vector<std::map<std::string, std::vector<bool>>> known(turns.size());
  std::mutex mutex;
  runtime::LocalHub hub((int)mesh.devices());
  onRanks(hub, [&](runtime::Transport &transport) {
    Device device(program, mesh, grid, transport.rank());
    runtime::Communicator communicator(transport, grid);
    DivisiContext context(1);
    context.exchange = mesh.axes.empty() ? nullptr : &communicator;
    context.wants = DIVISI_WHEN_GRAD_NORMS | DIVISI_WHEN_METRICS;
    device.write(states);
    for (auto [i, turn] : llvm::enumerate(turns)) {
      communicator.setStep((int64_t)i + 1);
      device.write(turn.inputs);
      program.task(turn.train ? "train" : "evaluate")(&context, device.memory(), device.memory(),
                                                      program.get().constants);
      if (context.failed())
        communicator.fail(context.error);
      if (auto status = communicator.finish(); context.failed() || !status.ok()) {
        ADD_FAILURE() << "device " << transport.rank() << ", turn " << i << ": "
                      << (context.failed() ? context.error : status).message();
        return;
      }
      std::lock_guard lock(mutex);
      Outcome &outcome = outcomes[i];
      for (const auto &[name, place] : program.results) {
        if (!StringRef(name).starts_with(turn.train ? "train " : "evaluate "))
          continue;
        Bytes mine = device.report(place);
        auto &theirs = outcome.reports.try_emplace(name, mine).first->second;
        EXPECT_EQ(theirs, mine) << "device " << transport.rank() << " reports another '" << name << "' in turn " << i;
      }
      for (const auto &[name, whole] : states)
        if (auto it = program.arguments.find(name); it != program.arguments.end()) {
          auto &seen = known[i][name];
          seen.resize(whole.size());
          auto &result = outcome.states[name];
          result.resize(whole.size());
          device.read(name, it->second, result, seen);
        }
    }
  });
  return outcomes;
}
