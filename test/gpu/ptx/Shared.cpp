#include "test/gpu/ptx/Shared.h"

using namespace divisi::test::ptx;

namespace {
constexpr unsigned warpSize = 32;
}

Shared::Shared(const Program &program) : program(program), granule(program.sharedGranule) {
  if (program.sharedEnd == 0)
    return;
  uint64_t bytes = program.sharedEnd - windowBegin;
  contents.resize(bytes);
  cells.resize((bytes + granule - 1) / granule);
  for (size_t i = 0; i < program.shared.size(); ++i)
    for (uint64_t at = 0; at < program.shared[i].bytes; at += granule)
      cells[(program.sharedAt[i] - windowBegin + at) / granule].exists = true;
}

Shared::Cell *Shared::find(uint64_t address, unsigned bytes) {
  if (address < windowBegin || address - windowBegin + bytes > contents.size())
    return nullptr;
  Cell *cell = &cells[(address - windowBegin) / granule];
  for (unsigned i = 0; i < bytes / granule; ++i)
    if (!cell[i].exists)
      return nullptr;
  return cell;
}

std::string Shared::place(uint64_t address) const {
  size_t i = program.shared.size();
  while (i-- > 0)
    if (program.sharedAt[i] <= address) {
      const Variable &variable = program.shared[i];
      return variable.name + "+" + std::to_string(address - program.sharedAt[i]) + " (" +
             std::to_string(variable.bytes) + " bytes)";
    }
  return "address " + std::to_string((int64_t)address);
}

bool Shared::isWrittenBeside(const Cell &cell, unsigned thread, Epoch now) {
  return cell.writer != thread && cell.written.block == now.block &&
         (cell.writer / warpSize != thread / warpSize || cell.written.warp == now.warp);
}

bool Shared::isReadBeside(const Cell &cell, unsigned thread, Epoch now) {
  if (cell.read.block != now.block)
    return false;
  if (cell.manyRead || cell.readingWarp != thread / warpSize)
    return true;
  return cell.read.warp == now.warp && (cell.readers & ~(1u << thread % warpSize)) != 0;
}

std::optional<std::string> Shared::read(uint64_t address, unsigned bytes, unsigned thread, Epoch now, int line) {
  Cell *cell = find(address, bytes);
  if (!cell)
    return "reads " + std::to_string(bytes) + " bytes at " + place(address) + ", beyond shared memory";
  for (unsigned i = 0; i < bytes / granule; ++i, ++cell) {
    uint64_t where = address + i * granule;
    if (cell->written.block < first)
      return "reads " + place(where) + ", which was not written";
    if (isWrittenBeside(*cell, thread, now))
      return "race: reads " + place(where) + ", which thread " + std::to_string(cell->writer) + " writes in line " +
             std::to_string(cell->writeLine) + " with no barrier in between";
    uint32_t lane = 1u << thread % warpSize, warp = thread / warpSize;
    if (cell->read.block != now.block) {
      cell->manyRead = false;
      cell->readers = lane;
    } else if (cell->readingWarp != warp) {
      cell->manyRead = true;
    } else {
      cell->readers = cell->read.warp == now.warp ? cell->readers | lane : lane;
    }
    cell->read = now;
    cell->readingWarp = warp;
    cell->readLine = line;
  }
  return std::nullopt;
}

std::optional<std::string> Shared::write(uint64_t address, unsigned bytes, unsigned thread, Epoch now, int line) {
  Cell *cell = find(address, bytes);
  if (!cell)
    return "writes " + std::to_string(bytes) + " bytes at " + place(address) + ", beyond shared memory";
  for (unsigned i = 0; i < bytes / granule; ++i, ++cell) {
    uint64_t where = address + i * granule;
    if (isWrittenBeside(*cell, thread, now))
      return "race: writes " + place(where) + ", which thread " + std::to_string(cell->writer) + " writes in line " +
             std::to_string(cell->writeLine) + " with no barrier in between";
    if (isReadBeside(*cell, thread, now))
      return "race: writes " + place(where) + ", which another thread reads in line " +
             std::to_string(cell->readLine) + " with no barrier in between";
    cell->written = now;
    cell->writer = thread;
    cell->writeLine = line;
  }
  return std::nullopt;
}
