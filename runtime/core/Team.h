/*===- Team.h - the threads of libgomp's pool ------------------------*- C -*-===*
 *
 * OpenMP in one C file: the rest of the runtime may be compiled by clang, whose OpenMP would need a library of its own
 * beside the libgomp that OpenBLAS and oneDNN use.
 */
#ifndef DIVISI_RUNTIME_CORE_TEAM_H
#define DIVISI_RUNTIME_CORE_TEAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Sets how many threads a team has, for libraries too. */
void divisi_team_set_size(int threads);
/* How many threads a team of this size has in fact: OpenMP may grant fewer (OMP_THREAD_LIMIT). */
int divisi_team_granted(int threads);
/* How many threads a team has unless it is told; at first OMP_NUM_THREADS or the number of cores. */
int divisi_team_size(void);
/* Whether the caller is a member of a team of several threads. */
int divisi_team_inside(void);
/* When the last team that this thread began has ended, and now, in nanoseconds of one clock: its threads spin for a while, then
 * they sleep. `divisi_team_ended` notes the end of a library's team. */
long divisi_team_end(void);
long divisi_team_now(void);
void divisi_team_ended(void);
/* Calls body(data, member, members) in each thread of a team and waits for all. It must not throw. */
void divisi_team_run(int threads, void (*body)(void *data, int member, int members), void *data);

#ifdef __cplusplus
}
#endif
#endif
