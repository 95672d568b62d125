#include "runtime/devices/cuda/Survey.h"
#include "runtime/devices/cuda/Device.h"
#include "runtime/devices/cuda/Driver.h"
#include "runtime/devices/cuda/Library.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of the driver's enumerations (cuda.h).
constexpr int clockRate = 13, processorCount = 16, memoryClockRate = 36;
constexpr int accessSupported = 2, nativeAtomics = 3;

/// 120803: 12.8.3
std::string versionText(size_t number) {
  return concat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

/// Opens a library, and starts it with a GPU.
LibraryInfo inspect(const char *name, std::initializer_list<const char *> files,
                    const std::function<std::string(void *)> &versionOf) {
  LibraryInfo info{name, "", "", ""};
  try {
    info.file = openLibrary(files, name, [&](void *library) { info.version = versionOf(library); }).file;
  } catch (const std::runtime_error &error) {
    info.problem = error.what();
  }
  return info;
}

/// The version of a library whose handles are created and destroyed by functions with these names.
std::string startedVersion(void *library, bool starts, const char *create, const char *destroy, const char *version) {
  size_t (*number)() = nullptr;
  int (*begin)(void **) = nullptr, (*end)(void *) = nullptr;
  bind(library, version, number);
  bind(library, create, begin);
  bind(library, destroy, end);
  void *handle = nullptr;
  if (starts) {
    checkStart(begin(&handle));
    end(handle);
  }
  return versionText(number());
}

std::vector<LibraryInfo> inspectLibraries(bool starts) {
  std::vector<LibraryInfo> all;
  all.push_back(inspect("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, [&](void *library) {
    return startedVersion(library, starts, "cublasLtCreate", "cublasLtDestroy", "cublasLtGetVersion");
  }));
  all.push_back(inspect("cuDNN", {"libcudnn.so.9", "libcudnn.so"}, [&](void *library) {
    return startedVersion(library, starts, "cudnnCreate", "cudnnDestroy", "cudnnGetVersion");
  }));
  all.push_back(inspect("NCCL", {"libnccl.so.2", "libnccl.so"}, [](void *library) {
    int (*version)(int *) = nullptr, number = 0;
    bind(library, "ncclGetVersion", version);
    version(&number);
    return versionText(static_cast<size_t>(number));
  }));
  return all;
}

/// A GPU's properties; its context is the current one afterwards.
GpuInfo inspectGpu(const Driver &driver, int number) {
  GpuInfo gpu;
  char text[256] = "";
  int device = 0;
  DriverContext context = nullptr;
  driver.check(driver.device(&device, number), "open a GPU");
  driver.check(driver.deviceName(text, sizeof text - 1, device), "name a GPU");
  gpu.name = text;
  driver.check(driver.deviceAttribute(&gpu.major, capabilityMajor, device), "ask a GPU");
  driver.check(driver.deviceAttribute(&gpu.minor, capabilityMinor, device), "ask a GPU");
  // Not all drivers tell these.
  for (auto [attribute, value] : {std::pair(clockRate, &gpu.clock), {memoryClockRate, &gpu.memoryClock}, {processorCount, &gpu.processors}})
    if (driver.deviceAttribute(value, attribute, device) != 0)
      *value = 0;
  gpu.clock /= 1000; // kHz
  gpu.memoryClock /= 1000;
  driver.check(driver.retainContext(&context, device), "use a GPU");
  driver.check(driver.setContext(context), "use a GPU");
  driver.check(driver.memoryInfo(&gpu.free, &gpu.bytes), "ask for a GPU's memory");
  return gpu;
}

Link linkOf(const Driver &driver, int from, int to) {
  int access = 0, atomics = 0;
  if (driver.peerAttribute(&access, accessSupported, from, to) != 0 || access == 0)
    return Link::ThroughHost;
  return driver.peerAttribute(&atomics, nativeAtomics, from, to) == 0 && atomics ? Link::PeerWithAtomics : Link::Peer;
}

void inspectGpus(Survey &result) {
  Driver driver;
  int version = 0, count = 0;
  driver.check(driver.init(0), "start the NVIDIA driver");
  driver.check(driver.version(&version), "ask the NVIDIA driver for its version");
  result.driver = concat(version / 1000, ".", version % 1000 / 10);
  driver.check(driver.deviceCount(&count), "count GPUs");
  if (count == 0)
    throw std::runtime_error("the NVIDIA driver knows no GPU");
  for (int i = count; i-- > 0;) // the first one is the current one at the end
    result.gpus.insert(result.gpus.begin(), inspectGpu(driver, i));
  for (int i = 0; i < count; ++i) {
    std::vector<Link> &row = result.links.emplace_back();
    for (int j = 0; j < count; ++j)
      row.push_back(i == j ? Link::PeerWithAtomics : linkOf(driver, i, j));
  }
}
} // namespace

Survey cuda::survey() {
  Survey result;
  try {
    inspectGpus(result);
  } catch (const std::runtime_error &error) {
    result.problem = error.what();
  }
  result.libraries = inspectLibraries(result.problem.empty());
  return result;
}
