/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin_internal: the admin thread, and one connection to the console.
 *
 *   admin.c             beginning and end, the connections
 *   console.c           a connection: bytes in, bytes out, the login
 *   console_command.c   the table of the commands; those that a client sends when it connects
 *   console_show.c      SHOW
 *   console_locks.c     the locks, guards and waiters of all workers
 *   console_unlock.c    a lock that an operator frees
 *   console_totals.c    the numbers of all workers together
 *   console_clients.c   the clients of all workers, whose rows the workers write in steps
 *   console_pause.c     commands that hold requests back, let them go on, reload, or end hasp
 *   console_state.c     a connection's state: it serves, awaits or ends
 *   admin_post.c        jobs on other threads, and what other threads send to the admin thread
 *   rows.c              how rows are written
 *
 * Each file calls only those below it.
 */
#ifndef HASP_ADMIN_ADMIN_INTERNAL_H
#define HASP_ADMIN_ADMIN_INTERNAL_H

#include <ev.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"
#include "admin/places.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/slice.h"
#include "net/loop_timers.h"
#include "net/mailbox.h"
#include "net/stream.h"
#include "resp/request.h"
#include "worker/worker.h"
#include "worker/worker_ask.h"

#define ADMIN_SCRATCH ((size_t)16 * 1024)
/* The longest request that the console takes, in bytes. */
#define CONSOLE_REQUEST_MAX ((size_t)64 * 1024)
/* How long a worker may take no step before the console gives it up, in milliseconds. */
#define CONSOLE_ASK_MS 10000
/* Connections at one time. */
#define CONSOLES_MAX 64
/* Seconds that a connection may take to log in, or to read its last answer. */
#define CONSOLE_PATIENCE_SECONDS 10.0
/* The least delay of the answer to a wrong password; it limits how many can be tried. */
#define CONSOLE_REFUSAL_SECONDS 1.0

/* --- rows.c --- */

/* The table that a console command shows: an array of rows, each with the same columns and
 * their names.
 *
 *   RESP3   a row is a map                        %2 name value name value
 *   RESP2   a row is a flat array, as HGETALL's   *4 name value name value */

struct rows {
	int protocol; /* 2 or 3 */
	size_t n; /* rows begun so far */
	size_t left; /* columns that the last row still lacks */
	struct buf bytes; /* the rows, without the array's header */
	/* If a console_show_fn returns false: why the rows are not known; NULL: a worker did
	 * not answer. */
	const char *unknown;
};

void rows_init(struct rows *r, int protocol);
void rows_fini(struct rows *r);

/* Begins a row; its `columns` must all follow. The row before must be complete. */
void rows_begin(struct rows *r, size_t columns);
/* Add a column; a string that is NULL becomes nil. */
void rows_add_text(struct rows *r, const char *name, struct slice value);
void rows_add_str(struct rows *r, const char *name, const char *value);
void rows_add_int(struct rows *r, const char *name, int64_t value);

/* Adds seconds as whole ms, or 0 for a negative number. */
void rows_add_ms(struct rows *r, const char *name, double seconds);
/* Adds "yes" or "no". */
void rows_add_bool(struct rows *r, const char *name, bool value);

/* Appends `n` rows that were written elsewhere, for the same protocol. */
void rows_append(struct rows *r, size_t n, struct slice bytes);

/* Appends the whole array to `out`. */
void rows_end(struct rows *r, struct buf *out);

struct console;

struct admin_listener {
	struct admin *admin;
	struct acceptor *acceptor;
};

enum admin_event {
	ADMIN_RELOADED,
	ADMIN_ANSWER,
	ADMIN_JOB,
	ADMIN_LEAVE,
	ADMIN_STOP,
};

/* A message of another thread to the admin thread. */
struct admin_cmd {
	struct message message;
	struct admin *admin;
	enum admin_event event;
	struct config *config; /* RELOADED: in force; NULL: the old one still is */
	uint64_t reloads; /* RELOADED: how many reloads are done */
	uint64_t question; /* ANSWER: to this question, if a console still awaits it */
	struct buf answer; /* RELOADED: for the consoles that asked for one of these reloads */
	struct console_job *job; /* JOB: its thread has written the answer */
};

struct admin {
	pthread_t thread;
	struct ev_loop *loop;
	struct mailbox mailbox;
	void (*deliver)(struct message *m); /* a struct admin_cmd, from `mailbox` */
	struct stream_flusher flusher;
	struct loop_timer sweep;
	struct loop_timer pause; /* runs while a console awaits that all workers pause, or
	                          * resume */
	struct ev_check check;
	struct config *config; /* in force */
	struct worker_shared *shared;
	const struct admin_ops *ops;
	void *arg;
	struct admin_listener *listeners;
	size_t nlisteners;
	struct list consoles; /* places of the open consoles */
	struct list jobs; /* struct console_job */
	struct list dead; /* closed consoles, to be freed */
	size_t nconsoles; /* in `consoles` */
	uint64_t last_id; /* of a console, or of a question */
	_Atomic uint64_t reloads; /* reloads that the console has asked for */
	struct request_args args; /* of the request that is being read */
	struct log_limit full, failed; /* of the lines console_full, console_login_failed */
	char scratch[ADMIN_SCRATCH];
};

/*
 *             a command that is      console_answer()
 *             answered later
 *   SERVING ------------------> AWAITING ----------> SERVING
 *      |                           |
 *      | QUIT, or no request       |
 *      v                           |
 *   ENDING --- it is written ------+--> DEAD, from each of them also by console_close()
 */
enum console_state {
	CONSOLE_SERVING, /* takes requests */
	CONSOLE_AWAITING, /* awaits the answer to the last request, and reads nothing */
	CONSOLE_ENDING, /* closed when its last bytes are written */
	CONSOLE_DEAD, /* in admin->dead */
};

enum console_awaits {
	AWAITS_NO_PAUSE,
	AWAITS_PAUSED,
	AWAITS_RESUMED,
};

struct console {
	enum console_state state; /* written by console_state.c only */
	struct peer_place place; /* in admin->consoles, or in admin->dead */
	struct admin *admin;
	struct stream stream;
	struct buf in; /* bytes of a request that is not complete yet */
	struct buf held; /* AWAITING: the beginning of the answer */
	uint64_t reload; /* AWAITING: the reload that is awaited; 0: none */
	enum console_awaits awaits; /* AWAITING: the step of a pause that brings the answer */
	struct console_job *job; /* AWAITING: the job that brings the answer; NULL: none */
	uint64_t question; /* AWAITING: whose answer admin_answer() may bring; 0: none */
	double answer_at; /* AWAITING: when `held` is sent, by clock_now(); 0: not by time */
	struct request_scan scan;
	size_t scanned; /* bytes of `in` that `scan` has seen */
	uint64_t id;
	int protocol; /* 2 or 3 */
	bool logged_in;
	double since; /* when the connection was opened, or ENDING began, by clock_now() */
	char peer[128]; /* the peer's address; for a unix socket, its process */
};

/* --- admin_post.c, and the posting functions of admin.h --- */

void admin_post_stop(struct admin *a);
/* Sends the answer to the console that still awaits it, if there is one. From any thread,
 * before admin_free(). */
void admin_answer(struct admin *a, uint64_t question, struct slice answer);

struct show_env {
	struct worker_shared *shared;
	struct config *config; /* in force */
};
/* Asks workers, on a thread of its own, and appends the answer; if it appends nothing,
 * admin_answer() brings the answer later. */
typedef void console_job_fn(const struct show_env *env, const void *arg, struct buf *out);

struct console_job {
	struct list node; /* in admin->jobs */
	struct admin *admin;
	console_job_fn *fn;
	void *arg; /* owned by the job */
	size_t size; /* of `arg`, in bytes */
	bool runs; /* false: it waits for the end of the same job */
	bool has_thread; /* the thread must be joined */
	pthread_t thread;
	struct config *config; /* in force when it began; NULL: it has not */
	struct buf out; /* the answer; the thread's until ADMIN_JOB */
};

/* Runs `fn`; the console awaits the answer. `arg`: `size` bytes, which are copied. Consoles
 * that ask for the same before it begins get the same answer. */
void console_job_begin(struct console *c, console_job_fn *fn, const void *arg, size_t size);
/* Call it when its consoles have the answer: frees the job, and starts the next one. */
void console_job_end(struct console_job *j);
/* Waits for the jobs in progress. Consoles that asked get no answer. */
void console_jobs_stop(struct admin *a);

/* --- console.c --- */

/* Takes the connection `fd`. */
void console_new(struct admin *a, int fd, const struct sockaddr *peer);
void console_free(struct console *c); /* for a dead console */
/* Ends AWAITING: appends `bytes` to the answer, sends it and goes on. */
void console_answer(struct console *c, struct slice bytes);

/* --- console_state.c --- */

void console_close(struct console *c); /* harmless when closed */
/* Serves no request after the present one, and closes the console after its answer. */
void console_end(struct console *c);
/* Awaits the answer to the present command; until then keeps the bytes that the command has
 * appended. */
void console_await(struct console *c);
void console_go_on(struct console *c);

/* --- console_command.c --- */

/* Carries the request out, and appends its answer, if there is one, to `out`. */
void console_command_run(struct console *c, const struct resp_view *req, struct buf *out);

/* --- console_show.c --- */

void console_show(struct console *c, const struct resp_view *req, struct buf *out);
/* Returns the i-th word that SHOW takes, counted from 0, with its help text; NULL: there are no
 * more. */
const char *console_show_name(size_t i, const char **help);
/* Writes the rows. Returns true if all workers that were asked have answered. */
typedef bool console_show_fn(const struct show_env *env, struct rows *rows);

/* --- console_locks.c --- */

console_show_fn console_show_locks, console_show_guards, console_show_waiters;

/* --- console_totals.c --- */

console_show_fn console_show_stats, console_show_nodes, console_show_links;

/* --- console_clients.c --- */

console_show_fn console_show_clients;
/* KILL CLIENT id */
void console_kill(struct console *c, const struct resp_view *req, struct buf *out);

/* --- console_unlock.c --- */

/* UNLOCK key [DB n] FORCE */
void console_unlock(struct console *c, const struct resp_view *req, struct buf *out);

/* --- console_pause.c --- */

void console_reload(struct console *c, const struct resp_view *req, struct buf *out);
void console_shut_down(struct console *c, const struct resp_view *req, struct buf *out);
void console_drain(struct console *c, const struct resp_view *req, struct buf *out);

void console_pause(struct console *c, const struct resp_view *req, struct buf *out);
void console_resume(struct console *c, const struct resp_view *req, struct buf *out);
void console_reconnect(struct console *c, const struct resp_view *req, struct buf *out);
/* Appends the answer to the PAUSE or RESUME that `c` awaits. Returns false if some workers
 * have not followed yet, or `c` awaits neither. `nbound` as in workers_pause_state(). */
bool console_pause_answer(const struct console *c, enum workers_pause now, size_t nbound,
                          struct buf *out);

#endif
