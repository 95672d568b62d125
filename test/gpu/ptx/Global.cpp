#include "test/gpu/ptx/Global.h"

#include <bit>

using namespace divisi::test::ptx;

void Global::begin(unsigned theGranule) {
  clock.beginLaunch();
  granule = theGranule;
  pages = &byGranule[(size_t)std::countr_zero(granule)];
  lastNumber = ~0ull;
}

Global::Page &Global::find(uint64_t number) {
  if (number != lastNumber) {
    last = &(*pages)[number];
    lastNumber = number;
    if (last->places.empty())
      last->places.resize(pageBytes / granule);
    last->launch = clock.launch;
  }
  return *last;
}

std::optional<std::string> Global::access(bool writes, bool isConstant, uint64_t address, unsigned bytes,
                                          unsigned thread, Epoch now, int line) {
  Place *place = &find(address / pageBytes).places[address % pageBytes / granule];
  for (unsigned i = 0; i < bytes / granule; ++i, ++place) {
    auto race = [&](const std::string &what) {
      return std::string("race: ") + (writes ? "writes" : "reads") + " what " + what;
    };
    auto inLine = [](int other) { return " in line " + std::to_string(other); };
    if (isWritten(*place) && place->written.block < clock.block)
      return race("another block writes" + inLine(place->writeLine));
    if (isConstant) {
      if (isWritten(*place))
        return race("thread " + std::to_string(place->writer) + " writes" + inLine(place->writeLine) +
                    ", although .nc means that nobody does");
      place->readConstant = clock.launch;
      place->readLine = line;
      continue;
    }
    bool isReadByAnother = place->lastRead.block >= clock.launch && place->lastRead.block < clock.block;
    if (isReadByAnother)
      place->readBefore = clock.launch;
    if (writes && place->readBefore == clock.launch)
      return race("another block reads" + inLine(place->readLine));
    if (writes && place->readConstant == clock.launch)
      return race("a thread reads with .nc" + inLine(place->readLine));
    if (auto other = writes ? place->write(thread, now, line) : place->read(thread, now, line))
      return race((other->writes ? "thread " + std::to_string(other->thread) + " writes" : "another thread reads") +
                  inLine(other->line) + " with no barrier in between");
  }
  return std::nullopt;
}

std::string Global::compare(const Global &other) const {
  for (const auto &[number, page] : *pages) {
    auto it = other.pages->find(number);
    if (page.launch != clock.launch || it == other.pages->end() || it->second.launch != other.clock.launch)
      continue;
    for (size_t i = 0; i < page.places.size(); ++i) {
      const Place &a = page.places[i], &b = it->second.places[i];
      bool aWrites = isWritten(a), bWrites = other.isWritten(b);
      if ((aWrites && (bWrites || other.isRead(b))) || (bWrites && isRead(a)))
        return "line " + std::to_string(aWrites ? a.writeLine : b.writeLine) +
               ": race: a block writes what another one " + (aWrites && bWrites ? "writes" : "reads") + " in line " +
               std::to_string(!aWrites  ? a.readLine
                              : bWrites ? b.writeLine
                                        : b.readLine);
    }
  }
  return "";
}
