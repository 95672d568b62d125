#include "test/execute/PtxEmulator.h"

#include "codegen/Emit/Places.h"
#include "codegen/Kernels/BatchKernels.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <stdexcept>

using namespace mlir;
using namespace divisi;
using namespace divisi::test;

PtxEmulator::PtxEmulator(ModuleOp exec, const codegen::CudaKernels &kernels, const std::string &text)
    : CpuLibraries(kernels), module(text) {
  codegen::Places places;
  auto task = *exec.getOps<func::FuncOp>().begin();
  for (auto first : task.getOps<exec::KernelOp>()) {
    if (codegen::followsInBatch(first) || first.getWhen())
      continue;
    // Values at the same place are one buffer.
    std::map<int64_t, uint64_t> bytes;
    SmallVector<int64_t> all;
    for (exec::KernelOp member : codegen::batchFrom(first)) {
      SmallVector<Type> types(member->getOperandTypes());
      llvm::append_range(types, member->getResultTypes());
      SmallVector<int64_t> list = places.ofAll(member);
      for (auto [place, type] : llvm::zip(list, types))
        bytes[place] = std::max(bytes[place], (uint64_t)graph::bytesOf(type));
      llvm::append_range(all, list);
    }
    auto &buffers = sizes.emplace_back();
    for (int64_t place : all)
      buffers.push_back(bytes[place]);
  }
}

void PtxEmulator::launch(const DivisiKernel &kernel, void *const *buffers) {
  const codegen::Launchable &how = launchables.at(kernel.name);
  const std::vector<uint64_t> &bytes = sizes.at((size_t)launches++);
  std::vector<uint64_t> arguments;
  std::vector<ptx::Memory::Range> memory;
  for (size_t i = 0; i < how.values.size(); ++i) {
    auto address = (uint64_t)(uintptr_t)buffers[i];
    arguments.push_back(address);
    memory.push_back({address, address + bytes.at(how.values[i])});
  }
  std::string wrong = module.launch(kernel.name, (unsigned)how.blocks, (unsigned)how.threads, arguments,
                                    ptx::Memory(std::move(memory), DIVISI_ALIGNMENT));
  if (!wrong.empty())
    throw std::runtime_error(wrong);
}
