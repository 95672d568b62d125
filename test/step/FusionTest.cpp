// Fusion of small blocks whose best kernels are known, and of random ones, which must stay what they were.
#include "step/Fusion.h"

#include "gtest/gtest.h"

#include "llvm/ADT/Hashing.h"

#include <map>
#include <random>

using namespace divisi::step;
using divisi::graph::Form;

namespace {

constexpr int64_t rows = 1024, columns = 512;

/// A block over matrices [rows, columns] and vectors [rows], in f32.
class Builder {
public:
  explicit Builder(int64_t rows = ::rows, int64_t columns = ::columns) : rows(rows), columns(columns) {}
  int argument(bool vector = false) { return value(vector); }

  /// An operation on matrices, or on vectors.
  int elementwise(std::vector<int> operands, int64_t flops = 1) {
    bool vector = isVector[operands[0]];
    Block::Op op;
    op.flops = flops;
    op.extents = vector ? llvm::SmallVector<int64_t, 4>{rows} : llvm::SmallVector<int64_t, 4>{rows, columns};
    op.reduced.assign(op.extents.size(), false);
    op.rows.assign(operands.size(), rowsOfShape(op.extents));
    return add(op, operands, vector);
  }
  /// A vector's element for every element of a row.
  int broadcast(int operand) {
    Block::Op op;
    op.extents = {rows, columns};
    op.reduced = {false, false};
    op.rows = {{1, rows}};
    return add(op, {operand}, false);
  }
  /// The sum of each row.
  int reduce(int operand) {
    Block::Op op;
    op.form = Form::reduction;
    op.flops = 1;
    op.extents = {rows, columns};
    op.reduced = {false, true};
    op.rows = {{1, rows}};
    return add(op, {operand}, true);
  }
  int view(int operand) {
    Block::Op op;
    op.form = Form::view;
    op.extents = {rows, columns};
    op.reduced = {false, false};
    op.rows = {rowsOfShape(op.extents)};
    return add(op, {operand}, false);
  }
  int call(std::vector<int> operands, bool vector = false) {
    Block::Op op;
    op.form = Form::call;
    return add(op, operands, vector);
  }
  void output(int value, int64_t when = 0) { block.addOutput(value, when); }

  Block block;
  std::vector<bool> isVector; // by value

private:
  const int64_t rows, columns;
  int value(bool vector) {
    isVector.push_back(vector);
    int64_t elements = vector ? rows : rows * columns;
    return block.addValue(elements, 4 * elements);
  }
  int add(Block::Op op, const std::vector<int> &operands, bool vector) {
    op.operands.assign(operands.begin(), operands.end());
    op.results = {value(vector)};
    block.addOp(op);
    return op.results[0];
  }
};

/// What a kernel reads and computes, and bytes between kernels.
struct Moved {
  explicit Moved(const Fusion &fusion) {
    const Block &block = fusion.getBlock();
    llvm::DenseSet<int> written;
    for (const Fusion::Kernel &kernel : fusion.getKernels()) {
      llvm::DenseSet<int> read;
      for (int stage : kernel.stages) {
        llvm::SmallVector<Fusion::Edge> edges;
        llvm::SmallVector<int> outside;
        fusion.collectInputs(stage, fusion.ownRows(stage), edges, outside);
        read.insert(outside.begin(), outside.end());
        for (const Fusion::Edge &edge : edges)
          if (!llvm::is_contained(kernel.stages, edge.producer)) {
            read.insert(block.op(edge.producer).results[0]);
            written.insert(block.op(edge.producer).results[0]);
          }
        if (fusion.mustBeWhole(stage))
          written.insert(block.op(stage).results[0]);
      }
      for (int value : read)
        bytes += block.value(value).bytes;
    }
    for (int value : written)
      bytes += block.value(value).bytes;
  }
  int64_t bytes = 0;
};

TEST(Fusion, AChainIsOneKernel) {
  Builder b;
  int x = b.argument();
  b.output(b.elementwise({b.elementwise({b.elementwise({x})})}));
  for (bool forGpu : {false, true}) {
    Fusion fusion(b.block, forGpu);
    ASSERT_EQ(fusion.getKernels().size(), 1u);
    EXPECT_EQ(fusion.getKernels()[0].stages.size(), 1u); // what lies between is computed where it is read
    EXPECT_EQ(Moved(fusion).bytes, 2 * 4 * rows * columns);
  }
}

/// A concatenation of concatenations reads each element at one of many places, which code would choose among.
TEST(Fusion, OperandsThatReadManyPlacesAreStored) {
  for (auto [count, stages, views] : {std::tuple(2, 1u, false), {4, 5u, false}, {2, 1u, true}, {4, 5u, true}}) {
    Builder b;
    std::vector<int> parts;
    for (int part = 0; part < count; ++part) {
      int joined = b.elementwise(std::vector<int>(50, b.argument()));
      parts.push_back(views ? b.view(b.view(joined)) : b.elementwise({joined}));
    }
    b.output(b.elementwise(parts));
    for (bool forGpu : {false, true}) {
      Fusion fusion(b.block, forGpu);
      size_t all = 0;
      for (const Fusion::Kernel &kernel : fusion.getKernels())
        all += kernel.stages.size();
      EXPECT_EQ(all, stages) << count;
    }
  }
}

TEST(Fusion, ASoftmaxIsOneKernelOfRows) {
  Builder b;
  int x = b.argument();
  int e = b.elementwise({x}, 10);
  int sum = b.reduce(e);
  b.output(b.elementwise({e, b.broadcast(sum)}));
  Fusion fusion(b.block, /*forGpu=*/false);
  ASSERT_EQ(fusion.getKernels().size(), 1u);
  EXPECT_EQ(fusion.getKernels()[0].rows, (RowSet{1, rows}));
}

/// A number for each sample of a small batch, as of stochastic depth, and what is multiplied by it: one kernel has a row for each
/// sample, which a GPU computes on as many multiprocessors.
TEST(Fusion, AFewSmallValuesAreNotTheRowsOfALargeKernelOfGpus) {
  for (auto [samples, forGpu, wanted] : {std::tuple{32, false, 1u}, {32, true, 2u}, {1024, true, 1u}}) {
    Builder b(samples, 40000);
    int x = b.argument(), kept = b.elementwise({b.argument(true)}, 10);
    b.output(kept);
    b.output(b.elementwise({x, b.broadcast(kept)}));
    EXPECT_EQ(Fusion(b.block, forGpu).getKernels().size(), wanted) << samples << forGpu;
  }
}

TEST(Fusion, CallsReadMemory) {
  Builder b;
  int x = b.argument();
  int y = b.call({b.elementwise({x})});
  b.output(b.elementwise({y}));
  Fusion fusion(b.block, /*forGpu=*/false);
  EXPECT_EQ(fusion.getKernels().size(), 2u);
}

TEST(Fusion, WhatOnlySomeStepsNeedHasAKernelOfItsOwn) {
  Builder b;
  int y = b.elementwise({b.argument()});
  b.output(y);
  b.output(b.reduce(y), /*when=*/2);
  Fusion fusion(b.block, /*forGpu=*/false);
  ASSERT_EQ(fusion.getKernels().size(), 2u);
  EXPECT_EQ(fusion.getKernels()[0].when, 0);
  EXPECT_EQ(fusion.getKernels()[1].when, 2);
}

/// A sum of the results of many calls, as gradients of a weight that is used many times, is added up as they come: no
/// more than six of them wait to be read, whether partial sums are recomputed or, because there are two readers, kept.
TEST(Fusion, SumsOfManyCallsAreAddedUpAsTheyCome) {
  for (bool forGpu : {false, true})
    for (int readers : {1, 2}) {
      Builder b;
      int h = b.argument(), sum = -1;
      for (int step = 0; step < 40; ++step) {
        h = b.call({h});
        int part = b.call({h});
        sum = sum < 0 ? part : b.elementwise({sum, part});
      }
      for (int reader = 0; reader < readers; ++reader)
        b.output(b.elementwise({b.argument(), sum}));
      Fusion fusion(b.block, forGpu);
      for (const Fusion::Kernel &kernel : fusion.getKernels()) {
        llvm::DenseSet<int> read;
        for (int stage : kernel.stages) {
          llvm::SmallVector<Fusion::Edge> edges;
          llvm::SmallVector<int> outside;
          fusion.collectInputs(stage, fusion.ownRows(stage), edges, outside);
          read.insert(outside.begin(), outside.end());
        }
        EXPECT_LE(read.size(), 7u); // with an argument
      }
    }
}

/// A value that two kernels read, beside what it is computed from, is cheaper to recompute on a GPU: two of five
/// matrices need not move.
TEST(Fusion, GpusRecomputeWhatTheyWouldRead) {
  Builder b;
  int x = b.argument(), y = b.argument();
  int both = b.elementwise({x, y}, 10);
  int first = b.call({b.elementwise({both, x})});
  b.output(b.elementwise({both, first, y}));
  Fusion cpu(b.block, false), gpu(b.block, true);
  EXPECT_LT(Moved(gpu).bytes, Moved(cpu).bytes);
}

/// However many ways lead from a kernel to what it recomputes, each operation on them is copied once.
TEST(Fusion, GpusRecomputeThroughManyWays) {
  for (size_t steps : {8, 50}) {
    Builder b;
    int x = b.argument(), y = b.argument();
    int both = b.elementwise({x, y}, 10), chain = both;
    for (size_t i = 0; i < steps; ++i)
      chain = b.elementwise({chain, chain}, 0);
    int first = b.call({b.elementwise({both, x})});
    b.output(b.elementwise({chain, first, y}));
    Fusion gpu(b.block, true);
    EXPECT_LE(gpu.getBlock().order().size(), 3 * steps);
  }
}

/// What each output is, through all operations: equal before and after fusion.
std::vector<size_t> meaning(const Block &block) {
  std::vector<size_t> of(1 << 16, 0);
  for (int op : block.order()) {
    size_t hash = block.op(op).origin + 1;
    for (int operand : block.op(op).operands)
      hash = llvm::hash_combine(hash, block.producer(operand) < 0 ? -1 - operand : (int64_t)of[operand]);
    for (int result : block.op(op).results)
      of[result] = hash;
  }
  std::vector<size_t> result;
  for (auto [value, when] : block.allOutputs())
    result.push_back(block.producer(value) < 0 ? value : of[value]);
  return result;
}

TEST(Fusion, RandomBlocksStayWhatTheyAre) {
  int recomputed = 0, fewer = 0, more = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 draw(seed);
    auto below = [&](int n) { return int(draw() % n); };
    Builder b;
    std::vector<int> matrices = {b.argument(), b.argument()}, vectors = {b.argument(true)};
    auto recent = [&](const std::vector<int> &list) { return list[list.size() - 1 - below(std::min<int>(6, list.size()))]; };
    for (int i = 0, count = 5 + below(60); i < count; ++i)
      switch (below(8)) {
      case 0:
        vectors.push_back(b.reduce(recent(matrices)));
        break;
      case 1:
        matrices.push_back(b.broadcast(recent(vectors)));
        break;
      case 2:
        matrices.push_back(b.call({recent(matrices), recent(matrices)}));
        break;
      case 3:
        vectors.push_back(b.elementwise({recent(vectors), recent(vectors)}, 1 + below(10)));
        break;
      default:
        matrices.push_back(b.elementwise({recent(matrices), recent(matrices)}, 1 + below(10)));
      }
    for (int i = 0; i < 3; ++i)
      b.output(recent(matrices), below(4) == 0 ? 1 : 0);
    b.output(vectors.back());
    int64_t bytes[2];
    for (bool forGpu : {false, true}) {
      Fusion fusion(b.block, forGpu);
      const Block &block = fusion.getBlock();
      EXPECT_EQ(meaning(block), meaning(b.block));
      recomputed += block.size() > b.block.size();
      bytes[forGpu] = Moved(fusion).bytes;
      // Each stage is in one kernel, behind what it reads, and rows are those of all stages.
      std::map<int, int> kernelOf;
      for (auto [k, kernel] : llvm::enumerate(fusion.getKernels())) {
        ASSERT_FALSE(kernel.stages.empty());
        EXPECT_EQ(kernel.rows[0], 1);
        for (int stage : kernel.stages) {
          EXPECT_TRUE(kernelOf.try_emplace(stage, k).second);
          EXPECT_TRUE(fusion.isStage(stage));
          EXPECT_EQ(intersect(kernel.rows, fusion.ownRows(stage)), kernel.rows);
        }
      }
      for (int op : block.order()) {
        EXPECT_EQ(fusion.isStage(op), kernelOf.count(op) > 0);
        for (int operand : block.op(op).operands)
          if (int producer = block.producer(operand); producer >= 0) {
            EXPECT_TRUE(block.isBefore(producer, op));
            if (!fusion.isStage(producer) || (kernelOf.count(op) && kernelOf[op] == kernelOf[producer]))
              continue;
            int made = fusion.getKernels()[kernelOf[producer]].stages.back(); // kernels stand at their last stage
            int reader = kernelOf.count(op) ? fusion.getKernels()[kernelOf[op]].stages.back() : op;
            if (kernelOf.count(op) || block.op(op).form == Form::call) {
              EXPECT_TRUE(block.isBefore(made, reader));
            }
          }
        if (block.op(op).form == Form::call)
          for (int operand : block.op(op).operands) {
            int producer = block.producer(operand);
            EXPECT_TRUE(producer < 0 || fusion.isStage(producer) || block.op(producer).form == Form::call)
                << "a call reads what is nowhere";
          }
      }
    }
    fewer += bytes[1] < bytes[0];
    more += bytes[1] > bytes[0];
  }
  EXPECT_GT(recomputed, 100);
  EXPECT_GT(fewer, 100);
  EXPECT_LT(more, 20); // one value after the other is looked at
}
} // namespace
