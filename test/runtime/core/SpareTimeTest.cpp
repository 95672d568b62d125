#include "runtime/core/SpareTime.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <thread>

using namespace divisi::runtime;

namespace {
long sleepsOfThisThread() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

int64_t workedMicroseconds() {
  timespec spent = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return int64_t(spent.tv_sec) * 1000000 + spent.tv_nsec / 1000;
}

/// How often a thread sleeps that may rest after each 200 us of work, on the same processor as another one.
long sleepsBesideAnother(bool hurried) {
  std::atomic<bool> hurry = hurried, over = false;
  long sleeps = 0;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  auto pin = [&] { EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0); };
  std::thread other([&] {
    pin();
    while (!over)
      ;
  });
  std::thread spare([&] {
    pin();
    SpareTime time(hurry, 1);
    long before = sleepsOfThisThread();
    for (int piece = 0; piece < 60; ++piece) {
      for (int64_t begin = workedMicroseconds(); workedMicroseconds() < begin + 200;)
        ;
      time.rest();
    }
    sleeps = sleepsOfThisThread() - before;
    over = true;
  });
  spare.join();
  other.join();
  return sleeps;
}
} // namespace

TEST(SpareTimeTest, RestsWhereItMustShareAProcessor) {
  int64_t working = 0;
  std::ifstream("/proc/thread-self/schedstat") >> working;
  if (working == 0)
    GTEST_SKIP() << "the kernel has no account of threads: they never rest";
  EXPECT_GE(sleepsBesideAnother(false), 5);
  EXPECT_EQ(sleepsBesideAnother(true), 0);
}
