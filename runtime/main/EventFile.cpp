#include "runtime/main/EventFile.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

constexpr std::array<uint32_t, 256> crcTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}();

template <typename T> std::string bytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// The fields of a protobuf message: a key, which is a number and a wire type, and the value.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7)
    bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string field(uint32_t number, uint64_t value) { return varint(number << 3) + varint(value); }
std::string field(uint32_t number, double value) { return varint(number << 3 | 1) + bytesOf(value); }
std::string field(uint32_t number, float value) { return varint(number << 3 | 5) + bytesOf(value); }
std::string field(uint32_t number, std::string_view bytes) {
  return concat(varint(number << 3 | 2), varint(bytes.size()), bytes);
}

// tensorflow/core/util/event.proto and framework/summary.proto.
constexpr uint32_t wallTimeOfEvent = 1, stepOfEvent = 2, versionOfEvent = 3, summaryOfEvent = 5, sessionOfEvent = 7;
constexpr uint32_t valueOfSummary = 1, tagOfValue = 1, numberOfValue = 2;
constexpr uint32_t statusOfSession = 1;
constexpr uint64_t sessionStart = 1;
} // namespace

uint32_t divisi::runtime::maskedCrc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t(0);
  for (char c : bytes)
    crc = (crc >> 8) ^ crcTable[(crc ^ static_cast<unsigned char>(c)) & 255];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

Result<EventFile> EventFile::create(const std::string &folder, int64_t firstStep) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failure("cannot make the folder '", folder, "': ", error.message());
  using namespace std::chrono;
  auto seconds = duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  EventFile events;
  // TensorBoard reads the files of a folder in the order of their names.
  for (int i = 0; !events.file && i < 1000; ++i) {
    events.path = concat(folder, "/events.out.tfevents.", seconds, ".", host.data(), ".", getpid(), ".", i);
    events.file.reset(std::fopen(events.path.c_str(), "wxe"));
    if (!events.file && errno != EEXIST)
      break;
  }
  if (!events.file)
    return failure("cannot write '", events.path, "': ", systemError());
  if (Status status = events.write(0, field(versionOfEvent, std::string_view("brain.Event:2"))); !status.ok())
    return status;
  // TensorBoard forgets what it has of this step and later ones.
  std::string session = field(statusOfSession, sessionStart);
  if (Status status = events.write(firstStep, field(sessionOfEvent, std::string_view(session))); !status.ok())
    return status;
  return events;
}

Status EventFile::add(int64_t step, const std::vector<std::pair<std::string, double>> &values) {
  std::string summary;
  for (const auto &[name, number] : values) {
    std::string value = field(tagOfValue, std::string_view(name)) + field(numberOfValue, static_cast<float>(number));
    summary += field(valueOfSummary, std::string_view(value));
  }
  return write(step, field(summaryOfEvent, std::string_view(summary)));
}

Status EventFile::write(int64_t step, const std::string &fields) {
  std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event = field(wallTimeOfEvent, now.count()) + field(stepOfEvent, static_cast<uint64_t>(step)) + fields;
  std::string length = bytesOf(static_cast<uint64_t>(event.size()));
  std::string record = concat(length, bytesOf(maskedCrc32c(length)), event, bytesOf(maskedCrc32c(event)));
  if (std::fwrite(record.data(), 1, record.size(), file.get()) != record.size() || std::fflush(file.get()) != 0)
    return failure("cannot write '", path, "': ", systemError());
  return {};
}
