/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker: one thread, one loop, and all that lives on it: listeners, clients, links, holds.
 * Workers share only a few counters and their observations; other threads reach a worker
 * through its mailbox.
 */
#ifndef HASP_WORKER_WORKER_H
#define HASP_WORKER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/types.h"
#include "lock/hold/release_board.h"
#include "lock/queue/waiters.h"
#include "net/listen.h"

#define WORKERS_MAX 64

struct json;
struct worker;
struct wait_graph;
struct watcher;

/* The state that the workers share. */
struct worker_shared {
	double started_at; /* the date, in seconds since 1970 */
	_Atomic long clients; /* open now */
	_Atomic long handed_over; /* clients that the next hasp has taken */
	_Atomic int arriving; /* clients that the previous hasp is handing over, and channels
	                       * by which more may come */
	_Atomic int running; /* workers whose thread has not ended */
	_Atomic int upstream[WORKERS_MAX]; /* enum control_health of the best server, as that
	                                    * worker saw it within the last second */
	/* Connections to the console and to HTTP that were refused: all places were taken. */
	_Atomic uint64_t console_full, http_full;
	_Atomic bool lame_duck; /* hasp accepts clients for some seconds more, then drains */
	_Atomic bool leaving; /* workers drain, or have ended */
	_Atomic bool paused; /* the operator has paused the workers: workers_pause() */
	_Atomic int pauses[WORKERS_MAX]; /* the progress of each worker: enum worker_pause */
	_Atomic size_t bound[WORKERS_MAX]; /* clients_under_way()'s *nbound, if paused */
	struct waiter_board board;
	struct release_board releases;
	struct wait_graph *waits; /* lock/deadlock/wait_graph.h */
	struct proof_secret secret;
	struct shared_tracker *tracker; /* watch/shared_tracker.h */
	struct stats *stats; /* lock/events/stats.h */
	struct watcher *watcher; /* upstream/watcher.h; it posts to all of `workers` */
	pthread_mutex_t rounds; /* for `gone`, and for the next two while workers are made */
	bool gone[WORKERS_MAX]; /* the workers with these numbers have ended */
	struct worker *workers[WORKERS_MAX];
	size_t nworkers;
};

void workers_init(struct worker_shared *shared, const struct config *config);
void workers_fini(struct worker_shared *shared); /* after all were joined */

/* Begins to watch which server is the primary. Call it once all workers run. Returns 0, or the
 * errno with which the watching thread could not start. */
int workers_watch(struct worker_shared *shared, const struct config *config)
	__attribute__((warn_unused_result));
/* Gives the watcher another configuration. Call it after the workers have got that. */
void workers_reload_watcher(struct worker_shared *shared, const struct config *config);
/* Stops the watcher. Call it before the first worker is joined. */
void workers_end_watch(struct worker_shared *shared);

/* Logs the totals of the enforced sections, and the observations of rules and guards in mode
 * OBSERVE. Returns false if there never was one of these. From any thread. */
bool workers_report(struct worker_shared *shared);
/* Calls `fn` with the number of each event of each rule that ever observed, as
 * tracker_each_observed() does; `kind` is a stats_kind_word(). From any thread. */
typedef void workers_observed_fn(void *arg, const char *kind, const char *rule,
                                 const char *event, uint64_t n);
void workers_each_observed(struct worker_shared *shared, workers_observed_fn *fn, void *arg);

/* Begins to discover locks in the commands of all clients, or ends that and forgets the
 * results, as `config` says. It is in force, or about to be. */
void workers_discover(struct worker_shared *shared, const struct config *config);
/* Report the discovery: its progress, as a line or as members of a JSON object; and its ini,
 * so far or, when all workers have been joined, the final one. From any thread. */
void workers_discover_progress(struct worker_shared *shared, struct buf *out);
void workers_discover_write(struct worker_shared *shared, struct json *j);
void workers_discovered(struct worker_shared *shared, const struct config *config, bool so_far,
                        struct buf *out);
/* Puts the ini into the file that `config` names for it, and logs that. */
void workers_save_discovered(struct worker_shared *shared, const struct config *config,
                             bool so_far);

/* Returns in words why balancers must not send clients here; NULL: they may. From any
 * thread. */
const char *workers_not_ready(struct worker_shared *shared);
/* Returns in words why Redis cannot serve, so that hasp does not know which locks are held;
 * NULL: Redis can serve. From any thread. */
const char *workers_upstream_trouble(struct worker_shared *shared);
/* Returns true if no server accepts a worker's login with [upstream], and one refuses it. From
 * any thread. */
bool workers_login_is_refused(const struct worker_shared *shared);

/* Takes the listening sockets `fds`, which it owns from now on; `entries`:
 * what each was opened for, which must outlive the worker. Keeps a reference to `config`. */
struct worker *worker_new(int number, struct config *config, const int *fds,
                          const struct listen_entry *entries, size_t nfds,
                          struct worker_shared *shared);

/* Starts the thread. Returns 0, or an errno. */
int worker_start(struct worker *w) __attribute__((warn_unused_result));

/* From any thread, while the worker runs: */
void worker_reload(struct worker *w, struct config *config);
/* Takes clients over from a worker of the previous hasp, which is at the other end of
 * `channel` (net/fd_channel.h). Owns the channel from then on. */
void worker_take_over(struct worker *w, int channel);
/* Makes the next worker_drain() hand clients over to a worker of the next hasp, which is at
 * the other end of `channel`. Owns the channel from then on. */
void worker_hand_over(struct worker *w, int channel);
/* Drains: admits no new clients; hands the others over, or closes them, when they come to
 * rest, at the latest after drain_timeout; and ends the thread. */
void worker_drain(struct worker *w);
/* Ends the thread at once. */
void worker_stop(struct worker *w);

/* True if the worker's loop has turned since the last call, or has ended. Asks it to turn once
 * more. Only one thread may call it, but not the worker's. */
bool worker_has_turned(struct worker *w);

/* Waits for the thread's end and frees the worker. */
void worker_join(struct worker *w);

/* Holds requests back when the operator asks for it. So Redis can be restarted,
 * and clients notice only a delay.
 *
 *           workers_pause()            nothing is under way
 *   SERVES -----------------> PAUSING ----------------------> PAUSED
 *     ^                        |  ^                            |
 *     |      workers_resume()  |  | workers_pause()            |
 *     |                        v  |                            |
 *     '--- Redis answers --- RESUMING <---- workers_resume() --'
 *
 * Requests in flight are answered. A client also goes on within a transaction, and between the
 * read of a guarded key and its write. hasp itself sends only renewals; its own connections
 * come back by themselves when Redis does. A reload does not end a pause.
 *
 * The functions are for any thread but a worker's, while no worker is joined yet. */

/* Begin to pause or resume, and return at once. `at_once`: resume before Redis answers. */
void workers_pause(struct worker_shared *shared);
void workers_resume(struct worker_shared *shared, bool at_once);

/* The workers' progress. */
enum workers_pause {
	WORKERS_SERVE,
	WORKERS_PAUSING, /* requests are still under way */
	WORKERS_PAUSED,
	WORKERS_RESUMING, /* Redis has not answered all workers yet */
};
/* Once the workers are paused, sets *nbound to the number of clients whose connections end when
 * Redis does, because they are subscribed or blocked. `nbound` may be NULL. */
enum workers_pause workers_pause_state(struct worker_shared *shared, size_t *nbound);

/* Moves clients to new connections when they await nothing on the old ones, which are closed
 * then. Does nothing in front of a cluster. */
void workers_reconnect(struct worker_shared *shared);

#endif
