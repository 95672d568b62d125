#include "Team.h"

#include <omp.h>

void divisi_team_set_size(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

int divisi_team_size(void) { return omp_get_max_threads(); }

int divisi_team_inside(void) { return omp_in_parallel(); }

void divisi_team_run(int threads, void (*body)(void *data, int member, int members), void *data) {
#pragma omp parallel num_threads(threads)
  body(data, omp_get_thread_num(), omp_get_num_threads());
}
