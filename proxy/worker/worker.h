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
	_Atomic int arriving; /* clients of the hasp before this one that are on their way to
	                       * their worker, and channels by which more may come */
	_Atomic int running; /* workers whose thread has not ended */
	_Atomic int upstream[WORKERS_MAX]; /* enum control_health of the best server, as that
	                                    * worker saw it a second ago */
	/* Connections to the console and to HTTP that found all places taken. */
	_Atomic uint64_t console_full, http_full;
	_Atomic bool lame_duck; /* hasp accepts clients for some seconds more, then drains */
	_Atomic bool leaving; /* workers drain, or have ended */
	_Atomic bool paused; /* the operator has paused the workers: workers_pause() */
	_Atomic int pauses[WORKERS_MAX]; /* how far each is: enum worker_pause */
	_Atomic size_t bound[WORKERS_MAX]; /* of clients_under_way(), for each paused worker */
	struct waiter_board board;
	struct release_board releases;
	struct wait_graph *waits; /* lock/deadlock/wait_graph.h */
	struct proof_secret secret;
	struct shared_tracker *tracker; /* watch/shared_tracker.h */
	struct stats *stats; /* lock/events/stats.h */
	struct watcher *watcher; /* upstream/watcher.h; it posts to all of `workers` */
	pthread_mutex_t rounds; /* of `gone`, and of the next two while workers are made */
	bool gone[WORKERS_MAX]; /* so numbered workers are being freed */
	struct worker *workers[WORKERS_MAX];
	size_t nworkers;
};

void workers_init(struct worker_shared *shared, const struct config *config);
void workers_fini(struct worker_shared *shared); /* all have been joined */

/* Once all workers run: begins to watch which server is the primary. Returns 0, or the errno
 * with which the watching thread could not start. */
int workers_watch(struct worker_shared *shared, const struct config *config)
	__attribute__((warn_unused_result));
/* Puts another configuration into force for the watcher, after the workers have got it. */
void workers_reload_watcher(struct worker_shared *shared, const struct config *config);
/* Before the first of them is joined. */
void workers_end_watch(struct worker_shared *shared);

/* Logs the totals of the sections that are enforced, and what rules and guards in mode OBSERVE
 * saw; false: there never was one of these. From any thread. */
bool workers_report(struct worker_shared *shared);
/* Calls `fn` with the number of each event of each rule that ever observed, as
 * tracker_each_observed(); `kind` is a stats_kind_word(). From any thread. */
typedef void workers_observed_fn(void *arg, const char *kind, const char *rule,
                                 const char *event, uint64_t n);
void workers_each_observed(struct worker_shared *shared, workers_observed_fn *fn, void *arg);

/* Begins to discover locks in the commands of all clients; or ends that and forgets the
 * results. `config`, which is or is about to be in force, decides which. */
void workers_discover(struct worker_shared *shared, const struct config *config);
/* Report the discovery: its progress, as a line or as members of a JSON object; and the ini, as
 * it is so far or, when all workers have been joined, the last one. From any thread. */
void workers_discover_progress(struct worker_shared *shared, struct buf *out);
void workers_discover_write(struct worker_shared *shared, struct json *j);
void workers_discovered(struct worker_shared *shared, const struct config *config, bool so_far,
                        struct buf *out);
/* Puts the ini into the file that `config` names for it, and logs that. */
void workers_save_discovered(struct worker_shared *shared, const struct config *config,
                             bool so_far);

/* Returns why clients should not be sent here, in words; NULL: they may be. From any thread. */
const char *workers_not_ready(struct worker_shared *shared);
/* Returns the reason, in words, why Redis cannot serve: then hasp does not know which locks are
 * held. NULL: Redis can serve. From any thread. */
const char *workers_upstream_trouble(struct worker_shared *shared);
/* Returns true if a worker has no server that accepts the login of [upstream], but one that
 * refuses it. From any thread. */
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
/* Takes clients over from a worker of the hasp before this one, which is at the other end of
 * `channel` (net/fd_channel.h). Owns the channel from then on. */
void worker_take_over(struct worker *w, int channel);
/* From the next worker_drain() on, clients are handed over to the next hasp, a worker of which
 * is at the other end of `channel`. Owns the channel from then on. */
void worker_hand_over(struct worker *w, int channel);
/* Drains: takes no new clients, closes the others, or hands them over, when they come to rest,
 * at the latest after drain_timeout, and ends the thread. */
void worker_drain(struct worker *w);
/* Ends the thread at once. */
void worker_stop(struct worker *w);

/* True if the worker's loop has turned since the last call, or has ended. Asks it to turn once
 * more. From one thread only, which may be any but the worker's. */
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

/* Begin to pause or resume, and return. `at_once`: resume before Redis answers. */
void workers_pause(struct worker_shared *shared);
void workers_resume(struct worker_shared *shared, bool at_once);

/* The workers' progress. */
enum workers_pause {
	WORKERS_SERVE,
	WORKERS_PAUSING, /* something is still under way */
	WORKERS_PAUSED,
	WORKERS_RESUMING, /* not all have been answered by Redis */
};
/* Once the workers are paused, sets *nbound to the number of clients whose connections end when
 * Redis does, because they are subscribed or blocked. `nbound` may be NULL. */
enum workers_pause workers_pause_state(struct worker_shared *shared, size_t *nbound);

/* Moves clients to new connections as soon as they await nothing on the old ones, which are
 * closed. Not in front of a cluster. */
void workers_reconnect(struct worker_shared *shared);

#endif
