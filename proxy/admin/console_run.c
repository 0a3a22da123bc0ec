/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_run: a SHOW that asks the workers has a thread of its own, so that other consoles
 * are still served:
 *
 *   console_run() --> AWAITING --> thread: asks, writes rows --> show_run_on_done()
 *                                                                     |
 *      consoles that had asked before it began <-- admin->answer() <---'
 *      the others <-- the next one, which begins now
 *
 * So an answer is never older than its question, and each kind of SHOW runs once at a time,
 * however many consoles ask. Writing 100,000 rows takes a while: if processors are short, the
 * workers come first.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "admin/admin_internal.h"
#include "base/fatal.h"
#include "config/config.h"

#define SHOW_NICE 10

/* One kind of SHOW, in one protocol. */
struct show_run {
	struct list node; /* in admin->show_runs */
	struct message done; /* in the admin thread's mailbox */
	struct admin *admin;
	console_show_fn *fn;
	int protocol;
	uint64_t n; /* number of runs so far */
	bool runs; /* the last run is not over, or its answer is on its way */
	bool has_thread; /* the thread must be joined */
	pthread_t thread;
	struct config *config; /* in force when the run began */
	struct buf out; /* the thread's until `done` arrives */
};

void console_show_write(const struct show_env *env, int protocol, console_show_fn *fn,
                        struct buf *out)
{
	struct rows rows;

	rows_init(&rows, protocol);
	if (fn(env, &rows))
		rows_end(&rows, out);
	else if (rows.unknown)
		buf_printf(out, "-ERR unknown: %s\r\n", rows.unknown);
	else
		buf_puts(out, "-ERR not all workers answered\r\n");
	rows_fini(&rows);
}

static void show_run_write(struct show_run *r)
{
	const struct show_env env = { r->admin->shared, r->config };

	console_show_write(&env, r->protocol, r->fn, &r->out);
	mailbox_post(&r->admin->mailbox, &r->done);
}

static void *show_run_main(void *arg)
{
	(void)setpriority(PRIO_PROCESS, 0, SHOW_NICE); /* of this thread */
	show_run_write(arg);
	return NULL;
}

static void show_run_begin(struct show_run *r)
{
	r->n++;
	r->runs = true;
	r->config = config_ref(r->admin->config);
	r->has_thread = pthread_create(&r->thread, NULL, show_run_main, r) == 0;
	/* If no thread can be made, run it here: the other consoles wait. */
	if (!r->has_thread)
		show_run_write(r);
}

static void show_run_end(struct show_run *r)
{
	if (r->has_thread)
		pthread_join(r->thread, NULL);
	config_unref(r->config);
	r->has_thread = false;
	r->runs = false;
}

/* Answers the consoles that asked before run `n` began. (An answered console may ask again.) */
static void show_run_answer(struct show_run *r, uint64_t n, struct slice answer)
{
	list_drain (struct console, c, &r->admin->consoles, place.node) {
		if (c->state == CONSOLE_AWAITING && c->show == r && c->show_n <= n)
			c->admin->answer(c, answer);
	}
}

static bool show_run_is_awaited(const struct show_run *r)
{
	list_each (const struct console, c, &r->admin->consoles, place.node) {
		if (c->state == CONSOLE_AWAITING && c->show == r)
			return true;
	}
	return false;
}

static void show_run_on_done(struct message *m)
{
	struct show_run *r = container_of(m, struct show_run, done);
	struct buf answer;

	if (!r->runs) /* show_runs_stop() came first */
		return;
	show_run_end(r);
	answer = r->out;
	r->out = BUF_INIT;
	show_run_answer(r, r->n, buf_slice(&answer));
	buf_release(&answer);
	if (!r->runs && show_run_is_awaited(r))
		show_run_begin(r);
}

/* Returns the show_run of this kind; makes it if there is none. */
static struct show_run *show_run_of(struct admin *a, console_show_fn *fn, int protocol)
{
	struct show_run *r;

	list_each (struct show_run, run, &a->show_runs, node) {
		if (run->fn == fn && run->protocol == protocol)
			return run;
	}
	r = xcalloc(1, sizeof(*r));
	r->done.deliver = show_run_on_done;
	r->admin = a;
	r->fn = fn;
	r->protocol = protocol;
	r->out = BUF_INIT;
	list_append(&a->show_runs, &r->node);
	return r;
}

void console_run(struct console *c, console_show_fn *fn)
{
	struct show_run *r = show_run_of(c->admin, fn, c->protocol);

	c->show = r;
	c->show_n = r->n + 1;
	console_await(c);
	if (!r->runs)
		show_run_begin(r);
}

void show_runs_stop(struct admin *a)
{
	list_each (struct show_run, r, &a->show_runs, node) {
		if (r->runs)
			show_run_end(r);
	}
}

void show_runs_free(struct admin *a)
{
	list_shift_each (struct show_run, r, &a->show_runs, node) {
		buf_release(&r->out);
		free(r);
	}
}
