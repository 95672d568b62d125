#include "test/gpu/ptx/Shared.h"

using namespace divisi::test::ptx;

Shared::Shared(const Program &program, const Clock &clock)
    : program(program), clock(clock), granule(program.sharedGranule) {
  if (program.sharedEnd == 0)
    return;
  uint64_t bytes = program.sharedEnd - windowBegin;
  contents.resize(bytes);
  places.resize((bytes + granule - 1) / granule);
  for (size_t i = 0; i < program.shared.size(); ++i)
    for (uint64_t at = 0; at < program.shared[i].bytes; at += granule)
      places[(program.sharedAt[i] - windowBegin + at) / granule].exists = true;
}

Shared::Place *Shared::find(uint64_t address, unsigned bytes) {
  if (address < windowBegin || address - windowBegin > contents.size() ||
      contents.size() - (address - windowBegin) < bytes)
    return nullptr;
  Place *place = &places[(address - windowBegin) / granule];
  for (unsigned i = 0; i < bytes / granule; ++i)
    if (!place[i].exists)
      return nullptr;
  return place;
}

std::string Shared::nameOf(uint64_t address) const {
  for (size_t i = program.shared.size(); i-- > 0;)
    if (program.sharedAt[i] <= address) {
      const Variable &variable = program.shared[i];
      return variable.name + "+" + std::to_string(address - program.sharedAt[i]) + " (" +
             std::to_string(variable.bytes) + " bytes)";
    }
  return "address " + std::to_string((int64_t)address);
}

std::optional<std::string> Shared::access(bool writes, uint64_t address, unsigned bytes, unsigned thread, Epoch now,
                                          int line) {
  const char *does = writes ? "writes " : "reads ";
  Place *place = find(address, bytes);
  if (!place)
    return std::string("out of bounds: ") + does + std::to_string(bytes) + " bytes at " + nameOf(address) +
           ", beyond shared memory";
  for (unsigned i = 0; i < bytes / granule; ++i, ++place) {
    auto where = [&] { return nameOf(address + i * granule); };
    if (!writes && place->written.block < clock.block)
      return "race: reads " + where() + ", which no thread has written";
    if (auto other = writes ? place->write(thread, now, line) : place->read(thread, now, line))
      return std::string("race: ") + does + where() + ", which " +
             (other->writes ? "thread " + std::to_string(other->thread) + " writes" : "another thread reads") +
             " in line " + std::to_string(other->line) + " with no barrier in between";
  }
  return std::nullopt;
}
