#include "Team.h"

#include <omp.h>
#include <time.h>

/* ThreadSanitizer does not see libgomp's barriers: it is told that members begin after the caller and end before it. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define UNSEEN __attribute__((no_sanitize("thread"))) /* what members read before that */
#else
#define UNSEEN
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

void divisi_team_set_size(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

int divisi_team_size(void) { return omp_get_max_threads(); }

long divisi_team_now(void) {
  struct timespec time = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

static __thread long ended; /* when the last team did */

long divisi_team_end(void) { return ended; }

void divisi_team_ended(void) { ended = divisi_team_now(); }

int divisi_team_inside(void) { return omp_in_parallel(); }

UNSEEN void divisi_team_run(int threads, void (*body)(void *data, int member, int members), void *data) {
  char order;
  __tsan_release(&order);
#pragma omp parallel num_threads(threads)
  {
    __tsan_acquire(&order);
    body(data, omp_get_thread_num(), omp_get_num_threads());
    __tsan_release(&order);
  }
  __tsan_acquire(&order);
  divisi_team_ended();
}

static void note_members(void *granted, int member, int members) {
  if (member == 0)
    *(int *)granted = members;
}

int divisi_team_granted(int threads) {
  int granted = 1;
  divisi_team_run(threads, note_members, &granted);
  return granted;
}
