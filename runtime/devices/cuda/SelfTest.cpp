#include "runtime/devices/cuda/SelfTest.h"
#include "runtime/core/Status.h"
#include "runtime/devices/cpu/Convert.h"
#include "runtime/devices/cuda/Attention.h"
#include "runtime/devices/cuda/Blas.h"
#include "runtime/devices/cuda/Dnn.h"
#include "runtime/devices/cuda/NcclFunctions.h"

#include <bit>
#include <cmath>
#include <exception>
#include <list>
#include <thread>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
using Numbers = std::vector<float>;
constexpr int ncclFloat32 = 7, ncclSum = 0;
constexpr size_t mostGpus = 8, workspaceBytes = size_t(32) << 20;

/// A GPU with a stream, and memory that is released with it.
class Bench {
public:
  explicit Bench(int number) {
    int device = 0;
    driver.check(driver.init(0), "start the NVIDIA driver");
    driver.check(driver.device(&device, number), "open a GPU");
    driver.check(driver.retainContext(&context, device), "use a GPU");
    enter();
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
  }
  ~Bench() {
    driver.setContext(context);
    blocks.clear();
    driver.destroyStream(stream);
  }
  Bench(const Bench &) = delete;
  Bench &operator=(const Bench &) = delete;

  /// Makes this GPU that of the calling thread.
  void enter() const { driver.check(driver.setContext(context), "use a GPU"); }
  char *space(size_t bytes) { return blocks.emplace_back(driver, bytes, "allocate memory").data(); }
  /// Numbers in memory, as elements of `type`.
  char *put(const Numbers &numbers, int64_t type) {
    char *at = space(numbers.size() * static_cast<size_t>(widthOfType(type)));
    write(at, numbers, type);
    return at;
  }
  void write(char *at, const Numbers &numbers, int64_t type) {
    std::vector<char> bytes(numbers.size() * static_cast<size_t>(widthOfType(type)));
    convertFromFloat(numbers.data(), bytes.data(), type, static_cast<int64_t>(numbers.size()));
    driver.check(driver.toDevice(addressOf(at), bytes.data(), bytes.size(), stream), "write to the GPU");
    wait();
  }
  Numbers read(const char *at, size_t count, int64_t type) {
    wait();
    std::vector<char> bytes(count * static_cast<size_t>(widthOfType(type)));
    driver.check(driver.toHost(bytes.data(), addressOf(at), bytes.size(), stream), "read from the GPU");
    wait();
    Numbers numbers(count);
    convertToFloat(bytes.data(), type, numbers.data(), static_cast<int64_t>(count));
    return numbers;
  }
  void wait() { driver.check(driver.synchronize(stream), "finish what the GPU computes"); }

  Driver driver;
  DriverContext context = nullptr;
  Stream stream = nullptr;

private:
  std::list<Memory> blocks;
};

/// Whole numbers from -2 to 2, of which sums of products are exact in every type.
Numbers whole(size_t count, unsigned seed) {
  Numbers numbers(count);
  for (float &x : numbers) {
    seed = seed * 1664525U + 1013904223U;
    x = static_cast<float>(static_cast<int>(seed >> 24) % 5 - 2);
  }
  return numbers;
}

/// Throws std::runtime_error if numbers differ by more than `tolerance`.
void compare(const Numbers &found, const Numbers &expected, double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(found[i] - expected[i]) <= tolerance))
      throw std::runtime_error(concat("wrong: element ", i, " is ", found[i], ", not ", expected[i]));
}

struct Matmul {
  static constexpr int64_t m = 96, n = 80, k = 64;
  Numbers a = whole(m * k, 1), b = whole(k * n, 2);
  DivisiGemm params = {};

  Matmul() {
    params.batch0 = params.batch1 = 1;
    params.m = m, params.n = n, params.k = k;
    params.lda = k, params.ldb = n, params.ldc = n;
    params.type = DIVISI_BF16, params.result_type = DIVISI_F32;
    params.workspace = workspaceBytes;
  }
  Numbers result() const {
    Numbers c(m * n, 0);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
    return c;
  }
};

std::string testMatmul() {
  Bench gpu(0);
  Blas blas(gpu.stream);
  Matmul matmul;
  void *buffers[] = {gpu.put(matmul.a, DIVISI_BF16), gpu.put(matmul.b, DIVISI_BF16), gpu.space(matmul.m * matmul.n * 4),
                     gpu.space(workspaceBytes)};
  blas.gemm(matmul.params, buffers);
  compare(gpu.read(static_cast<char *>(buffers[2]), matmul.m * matmul.n, DIVISI_F32), matmul.result(), 0);
  return "96 x 64 by 64 x 80 in bf16 by cuBLASLt, exact";
}

std::string testReplay() {
  Bench gpu(0);
  Driver &driver = gpu.driver;
  Blas blas(gpu.stream);
  Matmul matmul;
  constexpr size_t count = Matmul::m * Matmul::n;
  void *buffers[] = {gpu.put(matmul.a, DIVISI_BF16), gpu.put(matmul.b, DIVISI_BF16), gpu.space(count * 4),
                     gpu.space(workspaceBytes)};
  char *copy = gpu.space(count * 4);
  blas.gemm(matmul.params, buffers); // the algorithm is chosen before anything is recorded
  gpu.wait();
  Graph graph = nullptr;
  GraphExec recorded = nullptr;
  driver.check(driver.beginCapture(gpu.stream, captureThreadLocal), "record a graph");
  blas.gemm(matmul.params, buffers);
  copyOnDevice(driver, copy, buffers[2], count * 4, gpu.stream);
  driver.check(driver.endCapture(gpu.stream, &graph), "record a graph");
  driver.check(driver.instantiate(&recorded, graph, 0), "make a graph");
  driver.destroyGraph(graph);
  for (unsigned seed : {3U, 4U}) {
    matmul.a = whole(matmul.a.size(), seed);
    gpu.write(static_cast<char *>(buffers[0]), matmul.a, DIVISI_BF16);
    driver.check(driver.launchGraph(recorded, gpu.stream), "launch a graph");
    compare(gpu.read(copy, count, DIVISI_F32), matmul.result(), 0);
  }
  driver.destroyGraphExec(recorded);
  return "a product and a copy, recorded once and replayed on other numbers";
}

std::string testConvolution() {
  Bench gpu(0);
  Dnn dnn(gpu.driver, gpu.stream);
  constexpr int64_t batch = 2, in = 3, out = 4, size = 8, kernel = 3;
  DivisiConv params = {};
  params.spatial = 2, params.batch = batch, params.groups = 1, params.in_channels = in, params.out_channels = out;
  for (int d = 0; d < 2; ++d) {
    params.in[d] = params.out[d] = size;
    params.kernel[d] = kernel;
    params.stride[d] = params.dilation[d] = params.pad_low[d] = params.pad_high[d] = 1;
  }
  params.type = DIVISI_F32;
  Numbers x = whole(batch * in * size * size, 5), w = whole(out * in * kernel * kernel, 6);
  Numbers expected;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t o = 0; o < out; ++o)
      for (int64_t row = 0; row < size; ++row)
        for (int64_t column = 0; column < size; ++column) {
          float sum = 0;
          for (int64_t i = 0; i < in; ++i)
            for (int64_t p = 0; p < kernel; ++p)
              for (int64_t q = 0; q < kernel; ++q) {
                int64_t r = row + p - 1, c = column + q - 1;
                if (r >= 0 && r < size && c >= 0 && c < size)
                  sum += x[static_cast<size_t>(((b * in + i) * size + r) * size + c)] *
                         w[static_cast<size_t>(((o * in + i) * kernel + p) * kernel + q)];
              }
          expected.push_back(sum);
        }
  void *buffers[] = {gpu.put(x, DIVISI_F32), gpu.put(w, DIVISI_F32), gpu.space(expected.size() * 4)};
  dnn.conv(ConvKind::Forward, params, buffers);
  // A transformed algorithm rounds.
  compare(gpu.read(static_cast<char *>(buffers[2]), expected.size(), DIVISI_F32), expected, 1e-3);
  return "3 x 3 on 2 x 3 x 8 x 8 in fp32 by cuDNN";
}

std::string testAttention() {
  Bench gpu(0);
  Attention attention(gpu.driver, gpu.stream);
  constexpr int64_t length = 64, heads = 2, depth = 32;
  constexpr size_t count = length * heads * depth;
  DivisiAttention params = {};
  params.batch = 1, params.heads = heads, params.queries = params.keys = length, params.depth = depth;
  params.causal = 1;
  const double scale = 0.125;
  params.scale = std::bit_cast<int64_t>(scale);
  params.type = DIVISI_BF16;
  Numbers q = whole(count, 7), k = whole(count, 8), v = whole(count, 9), expected(count, 0);
  auto at = [](const Numbers &x, int64_t row, int64_t head, int64_t d) {
    return double(x[static_cast<size_t>((row * heads + head) * depth + d)]);
  };
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t row = 0; row < length; ++row) {
      std::vector<double> weights;
      double total = 0;
      for (int64_t key = 0; key <= row; ++key) {
        double score = 0;
        for (int64_t d = 0; d < depth; ++d)
          score += at(q, row, head, d) * at(k, key, head, d);
        weights.push_back(std::exp(scale * score));
        total += weights.back();
      }
      for (int64_t key = 0; key <= row; ++key)
        for (int64_t d = 0; d < depth; ++d)
          expected[static_cast<size_t>((row * heads + head) * depth + d)] +=
              static_cast<float>(weights[static_cast<size_t>(key)] / total * at(v, key, head, d));
    }
  void *buffers[] = {gpu.put(q, DIVISI_BF16), gpu.put(k, DIVISI_BF16), gpu.put(v, DIVISI_BF16), gpu.space(count * 2),
                     gpu.space(heads * length * 4)};
  attention.compute(AttentionKind::Forward, params, buffers);
  compare(gpu.read(static_cast<char *>(buffers[3]), count, DIVISI_BF16), expected, 0.02);
  return "causal, 2 heads of 64 x 32 in bf16 by cuDNN, within 0.02";
}

/// One GPU's part of an all_reduce: GPU i has i + 1 everywhere.
void reduce(Bench &gpu, const NcclFunctions &nccl, const NcclId &id, int number, int count, char *data) {
  constexpr size_t elements = 4096;
  gpu.enter();
  gpu.write(data, Numbers(elements, static_cast<float>(number + 1)), DIVISI_F32);
  NcclComm comm = nullptr;
  nccl.check(nccl.init(&comm, count, id, number), "connect the GPUs");
  nccl.check(nccl.allReduce(data, data, elements, ncclFloat32, ncclSum, comm, gpu.stream), "all_reduce");
  Numbers found = gpu.read(data, elements, DIVISI_F32);
  nccl.destroy(comm);
  compare(found, Numbers(elements, static_cast<float>(count * (count + 1) / 2)), 0);
}

std::string testAllReduce(size_t gpus) {
  NcclFunctions nccl;
  NcclId id = {};
  nccl.check(nccl.uniqueId(&id), "make an id");
  std::list<Bench> benches;
  std::vector<char *> data;
  for (size_t i = 0; i < gpus; ++i)
    data.push_back(benches.emplace_back(static_cast<int>(i)).space(4096 * 4));
  std::vector<std::string> wrong(gpus);
  std::vector<std::thread> threads;
  size_t number = 0;
  for (Bench &gpu : benches) {
    threads.emplace_back([&, number] {
      try {
        reduce(gpu, nccl, id, static_cast<int>(number), static_cast<int>(gpus), data[number]);
      } catch (const std::exception &error) {
        wrong[number] = error.what();
      }
    });
    ++number;
  }
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < gpus; ++i)
    if (!wrong[i].empty())
      throw std::runtime_error(concat("GPU ", i, ": ", wrong[i]));
  return concat("16 KiB over ", gpus, gpus == 1 ? " GPU" : " GPUs", " by NCCL, exact");
}
} // namespace

std::vector<SelfTest> cuda::selfTests(const Survey &machine) {
  std::vector<SelfTest> tests;
  if (!machine.problem.empty())
    return tests;
  auto has = [&](const char *name) {
    for (const LibraryInfo &library : machine.libraries)
      if (library.name == name)
        return library.problem.empty();
    return false;
  };
  if (has("cuBLASLt"))
    tests.push_back({"matmul", testMatmul});
  if (has("cuDNN")) {
    tests.push_back({"convolution", testConvolution});
    tests.push_back({"attention", testAttention});
  }
  if (has("cuBLASLt"))
    tests.push_back({"graph", testReplay});
  if (has("NCCL"))
    tests.push_back({"all_reduce", [gpus = std::min(machine.gpus.size(), mostGpus)] { return testAllReduce(gpus); }});
  return tests;
}
