/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin_internal: the structs and functions that the files of the admin thread share.
 *
 *   admin.c             start and end of the thread; accepts connections
 *   console.c           a connection: bytes in, bytes out
 *   console_command.c   the table of commands; login; KILL; the commands of client libraries
 *   console_show.c      SHOW
 *   console_unlock.c    UNLOCK
 *   console_pause.c     PAUSE, RESUME, RECONNECT, RELOAD, DRAIN and SHUTDOWN
 *   console_state.c     the state of a connection
 *   admin_post.c        messages to the admin thread; jobs, which run on threads of their own
 *   rows.c              writes the rows of an answer
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
/* How long the console waits for a worker that makes no progress, in milliseconds. */
#define CONSOLE_ASK_MS 10000
/* Most connections to the console at a time. */
#define CONSOLES_MAX 64
/* How long a connection may take to log in, or to read its last answer. */
#define CONSOLE_PATIENCE_SECONDS 10.0
/* Least delay of the answer to a wrong password, which limits the number of tries. */
#define CONSOLE_REFUSAL_SECONDS 1.0

/* --- rows.c --- */

/* The table that a console command shows: an array of rows, each with the same columns and
 * their names.
 *
 *   RESP3   a row is a map                        %2 name value name value
 *   RESP2   a row is a flat array, as HGETALL's   *4 name value name value */

struct rows {
	int protocol; /* version of RESP: 2 or 3 */
	size_t n; /* number of rows begun so far */
	size_t left; /* number of columns that the last row still lacks */
	struct buf bytes; /* the rows, without the array's header */
	const char *unknown; /* why a show_fn returned false; NULL: a worker did not
	                      * answer */
};

void rows_init(struct rows *r, int protocol);
void rows_fini(struct rows *r);

/* Begins a row of `columns` columns. The previous row must be complete. */
void rows_begin(struct rows *r, size_t columns);
/* Adds a column to the row. rows_add_str() writes NULL as nil. */
void rows_add_text(struct rows *r, const char *name, struct slice value);
void rows_add_str(struct rows *r, const char *name, const char *value);
void rows_add_int(struct rows *r, const char *name, int64_t value);

/* Adds seconds as whole ms, or 0 for a negative number. */
void rows_add_ms(struct rows *r, const char *name, double seconds);

/* Appends `n` rows: the bytes of another struct rows with the same protocol. */
void rows_append(struct rows *r, size_t n, struct slice bytes);

/* Appends the whole array to `out`. */
void rows_end(struct rows *r, struct buf *out);

struct console;

enum admin_event {
	ADMIN_RELOADED,
	ADMIN_ANSWER,
	ADMIN_LEAVE,
	ADMIN_STOP,
};

/* A message of another thread to the admin thread. */
struct admin_cmd {
	struct message message;
	struct admin *admin;
	enum admin_event event;
	struct config *config; /* RELOADED: the new configuration; NULL: the old one stays */
	uint64_t reloads; /* RELOADED: as in admin_reloaded() */
	uint64_t question; /* ANSWER: console.question of the consoles that get the answer */
	struct buf answer; /* RELOADED, ANSWER: bytes for the consoles; empty: none yet */
	struct console_job *job; /* ANSWER: the job that has finished; NULL: none */
};

struct admin {
	pthread_t thread;
	struct ev_loop *loop;
	struct mailbox mailbox;
	void (*deliver)(struct message *m); /* handles a struct admin_cmd from `mailbox` */
	struct stream_flusher flusher;
	struct loop_timer sweep;
	struct loop_timer pause; /* runs while a console awaits the end of PAUSE or RESUME */
	struct ev_check check;
	struct config *config; /* the configuration in force */
	struct worker_shared *shared;
	const struct admin_ops *ops;
	void *arg;
	struct list acceptors;
	struct list consoles; /* open consoles, linked by console.place */
	struct list jobs; /* list of struct console_job */
	struct list dead; /* closed consoles, to be freed */
	size_t nconsoles; /* length of `consoles` */
	uint64_t last_id; /* last number given to a console or a question */
	_Atomic uint64_t reloads; /* number of RELOAD commands so far */
	struct request_args args; /* arguments of the request that is served */
	struct log_limit full, failed; /* for the lines console_full, console_login_failed */
	char scratch[ADMIN_SCRATCH];
};

/*
 *             a command that is      console_answer()
 *             answered later
 *   SERVING ------------------> AWAITING ----------> SERVING
 *      |                           |
 *      | QUIT, or no request       |
 *      v                           |
 *   ENDING --- all is written -----+--> DEAD: console_close(), from each other state
 */
enum console_state {
	CONSOLE_SERVING, /* takes requests */
	CONSOLE_AWAITING, /* waits for hasp's answer, and takes no more requests until then */
	CONSOLE_ENDING, /* closed when its last bytes are written */
	CONSOLE_DEAD, /* closed, and in admin->dead */
};

/* The answer to PAUSE or RESUME that a console awaits. */
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
	/* AWAITING: one of the next four fields says where the rest of the answer comes
	 * from: */
	uint64_t reload; /* number of the reload; 0: none */
	enum console_awaits awaits; /* the pause or resume of the workers */
	uint64_t question; /* number of the question to a job or admin_answer(); 0: none */
	double answer_at; /* when to send a delayed refusal, by clock_now(); 0: none */
	struct request_scan scan;
	size_t scanned; /* number of bytes of `in` that `scan` has seen */
	uint64_t id;
	int protocol; /* version of RESP: 2 or 3 */
	bool logged_in;
	double since; /* when the connection was opened, or ENDING began, by clock_now() */
	char peer[128]; /* the peer's address; on a unix socket, its user and process */
};

/* --- admin_post.c, and the posting functions of admin.h --- */

void admin_post_stop(struct admin *a);
/* Sends an answer to the consoles that asked `question`, if they still await it. From any
 * thread, before admin_free(). */
void admin_answer(struct admin *a, uint64_t question, struct slice answer);

struct show_env {
	struct worker_shared *shared;
	struct config *config; /* the configuration in force */
};
/* Runs on a job's own thread. Asks the workers, and appends the answer to `out`. If the
 * function appends nothing, the answer comes later by admin_answer(). */
typedef void console_job_fn(const struct show_env *env, const void *arg, struct buf *out);

struct console_job {
	struct list node; /* in admin->jobs */
	struct admin *admin;
	console_job_fn *fn;
	void *arg; /* argument of `fn`, owned by the job */
	size_t size; /* size of `arg`, in bytes */
	uint64_t question; /* console.question of the job's consoles */
	bool runs; /* false: the job waits until an earlier job with the same argument ends */
	bool has_thread; /* `thread` must be joined */
	pthread_t thread;
	/* The configuration when the job began; NULL: it has not begun. */
	struct config *config;
};

/* Runs `fn` for the console, which awaits the answer. `arg`: `size` bytes, which are copied.
 * All consoles that ask for the same job before it begins get its answer. The job's question
 * gets a number unless the caller has set c->question. */
void console_job_begin(struct console *c, console_job_fn *fn, const void *arg, size_t size);
/* Frees the job, and starts the next one with the same argument. Call it when the job's
 * consoles have their answer. */
void console_job_end(struct console_job *j);
/* Waits for the jobs in progress. Their consoles get no answer. */
void console_jobs_stop(struct admin *a);

/* --- console.c --- */

/* Makes a console for the connection `fd`, which it owns. */
void console_new(struct admin *a, int fd, const struct sockaddr *peer);
void console_free(struct console *c); /* `c` must be dead */
/* Ends AWAITING: appends `bytes` to the answer, sends it, and serves the next requests. */
void console_answer(struct console *c, struct slice bytes);

/* --- console_state.c --- */

void console_close(struct console *c); /* does nothing if `c` is closed */
/* Serves no more requests, and closes the console when its answers are sent. */
void console_end(struct console *c);
/* Begins AWAITING: until console_answer(), the console keeps the bytes that the command
 * appends. */
void console_await(struct console *c);
void console_go_on(struct console *c); /* ends AWAITING */

/* --- console_command.c --- */

/* Carries out the request. Appends its answer to `out`, unless the answer comes later. */
void console_command_run(struct console *c, const struct resp_view *req, struct buf *out);

/* --- console_show.c --- */

void console_show(struct console *c, const struct resp_view *req, struct buf *out);
/* Returns argument number `i` of SHOW, counted from 0, and its help text; NULL: there are no
 * more. */
const char *console_show_name(size_t i, const char **help);

/* --- console_unlock.c --- */

/* Runs UNLOCK key [DB n] FORCE. */
void console_unlock(struct console *c, const struct resp_view *req, struct buf *out);

/* --- console_pause.c --- */

void console_reload(struct console *c, const struct resp_view *req, struct buf *out);
void console_shut_down(struct console *c, const struct resp_view *req, struct buf *out);
void console_drain(struct console *c, const struct resp_view *req, struct buf *out);

void console_pause(struct console *c, const struct resp_view *req, struct buf *out);
void console_resume(struct console *c, const struct resp_view *req, struct buf *out);
void console_reconnect(struct console *c, const struct resp_view *req, struct buf *out);
/* Appends the answer to the PAUSE or RESUME that `c` awaits. Returns false if `c` awaits
 * neither, or some workers have not paused or resumed yet. `nbound`: as in
 * workers_pause_state(). */
bool console_pause_answer(const struct console *c, enum worker_pause now, size_t nbound,
                          struct buf *out);

#endif
