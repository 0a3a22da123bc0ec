/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/errand.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/list.h"
#include "lock/call.h"

/* How often those that wait for Redis are tried again, or given up. */
#define SWEEP_SECONDS 0.5

struct errands {
	struct ev_loop *loop;
	struct control *control;
	struct list waiting; /* for Redis to be back */
	struct ev_timer sweep; /* runs while some wait */
	bool ending;
};

struct errand {
	struct errands *all;
	struct list node; /* in `waiting`, or in no list while it is in flight */
	int db;
	enum script_id script;
	bool eval; /* Redis does not know the script */
	struct buf evalsha;
	double until;
	unsigned again; /* how often it is run once more, whatever the answer */
	errand_write_fn *write; /* NULL: `evalsha` is good for every try */
	errand_fn *fn;
	void *arg;
};

static void on_answer(void *arg, const redisReply *reply);

static void end(struct errand *e, const redisReply *reply)
{
	if (e->fn)
		e->fn(e->arg, reply);
	buf_release(&e->evalsha);
	free(e);
}

static int call(struct errand *e)
{
	struct buf eval = BUF_INIT;
	struct slice request;
	int rc;

	if (e->write) {
		buf_clear(&e->evalsha);
		e->write(e->arg, &e->evalsha);
	}
	request = buf_slice(&e->evalsha);
	if (e->eval) {
		call_write_as_eval(&eval, e->script, request);
		request = buf_slice(&eval);
	}
	rc = control_call(e->all->control, e->db, request, on_answer, e);
	buf_release(&eval);
	return rc;
}

/* For Redis to be back, or to be able to. */
static void wait(struct errand *e, const redisReply *reply)
{
	struct errands *all = e->all;

	if (all->ending || clock_now() >= e->until) {
		end(e, reply);
		return;
	}
	list_append(&all->waiting, &e->node);
	if (!ev_is_active(&all->sweep)) {
		ev_timer_set(&all->sweep, SWEEP_SECONDS, SWEEP_SECONDS);
		ev_timer_start(all->loop, &all->sweep);
	}
}

static void start(struct errand *e)
{
	if (call(e) != 0)
		wait(e, NULL);
}

/* Redis cannot just now: it loads its data, runs somebody's script for too long, is a replica
 * for the moment ... */
static bool is_passing(const redisReply *reply)
{
	static const char *const errors[] = { "LOADING ",  "BUSY ",       "MASTERDOWN ",
		                              "READONLY ", "NOREPLICAS ", "OOM " };

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (strncmp(reply->str, errors[i], strlen(errors[i])) == 0)
			return true;
	return false;
}

static void on_answer(void *arg, const redisReply *reply)
{
	struct errand *e = arg;
	bool is_error = reply && reply->type == REDIS_REPLY_ERROR;

	if (is_error && !e->eval && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		e->eval = true;
		start(e);
	} else if (!reply || (is_error && is_passing(reply))) {
		wait(e, reply);
	} else if (e->again) {
		e->again--;
		wait(e, reply);
	} else {
		end(e, reply);
	}
}

void errands_resume(struct errands *all)
{
	struct list again, *node;

	list_init(&again);
	/* Those that still have to wait are put back. */
	list_move_all(&again, &all->waiting);
	while ((node = list_shift(&again)))
		start(container_of(node, struct errand, node));
}

static void on_sweep(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct errands *all = t->data;

	(void)revents;
	errands_resume(all);
	if (list_empty(&all->waiting))
		ev_timer_stop(loop, t);
}

struct errands *errands_new(struct ev_loop *loop, struct control *control)
{
	struct errands *all = xcalloc(1, sizeof(*all));

	all->loop = loop;
	all->control = control;
	list_init(&all->waiting);
	ev_timer_init(&all->sweep, on_sweep, 0, 0);
	all->sweep.data = all;
	return all;
}

void errands_stop(struct errands *all)
{
	struct list *node;

	all->ending = true;
	ev_timer_stop(all->loop, &all->sweep);
	while ((node = list_shift(&all->waiting)))
		end(container_of(node, struct errand, node), NULL);
}

void errands_free(struct errands *all)
{
	HASP_ASSERT(list_empty(&all->waiting));
	free(all);
}

bool errands_are_up(const struct errands *all)
{
	return control_is_up(all->control);
}

bool errands_are_done(const struct errands *all)
{
	return list_empty(&all->waiting);
}

static struct errand *errand_new(struct errands *all, int db, enum script_id script,
                                 double until, errand_fn *fn, void *arg)
{
	struct errand *e = xcalloc(1, sizeof(*e));

	e->all = all;
	list_init(&e->node);
	e->db = db;
	e->script = script;
	e->until = until;
	e->fn = fn;
	e->arg = arg;
	return e;
}

void errand_run(struct errands *all, int db, enum script_id script, struct slice evalsha,
                double until, errand_fn *fn, void *arg)
{
	struct errand *e = errand_new(all, db, script, until, fn, arg);

	buf_append(&e->evalsha, evalsha);
	start(e);
}

void errand_repeat(struct errands *all, int db, enum script_id script, struct slice evalsha,
                   double until, unsigned times)
{
	struct errand *e = errand_new(all, db, script, until, NULL, NULL);

	e->again = times - 1;
	buf_append(&e->evalsha, evalsha);
	start(e);
}

void errand_run_written(struct errands *all, int db, enum script_id script,
                        errand_write_fn *write, double until, errand_fn *fn, void *arg)
{
	struct errand *e = errand_new(all, db, script, until, fn, arg);

	e->write = write;
	start(e);
}
