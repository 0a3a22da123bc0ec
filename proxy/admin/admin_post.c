/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin_post: messages from other threads to the admin thread, and jobs. A command that asks
 * the workers is a job, which waits for them on a thread of its own: even if a worker hangs, no
 * other console waits.
 *
 *   console_job_begin() --> AWAITING --> thread: writes --> ADMIN_ANSWER: console_job_end()
 *                                                                     |
 *      consoles that had asked before it began <-- console_answer() <-'
 *      the others <-- the next job, which begins now
 *
 * So an answer is never older than its question, and a job runs only once at a time, however
 * many consoles ask for it.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "admin/admin_internal.h"
#include "base/fatal.h"
#include "config/config.h"

/* Nice value of the thread: writing 100,000 rows takes a while, and workers come first. */
#define JOB_NICE 10

static struct admin_cmd *cmd_new(struct admin *a, enum admin_event event)
{
	struct admin_cmd *cmd = xcalloc(1, sizeof(*cmd));

	cmd->message.deliver = a->deliver;
	cmd->admin = a;
	cmd->event = event;
	cmd->answer = BUF_INIT;
	return cmd;
}

uint64_t admin_reloads(const struct admin *a)
{
	return atomic_load(&a->reloads);
}

void admin_reloaded(struct admin *a, uint64_t reloads, struct config *config, struct slice why)
{
	struct admin_cmd *cmd = cmd_new(a, ADMIN_RELOADED);

	cmd->reloads = reloads;
	cmd->config = config ? config_ref(config) : NULL;
	if (config)
		buf_puts(&cmd->answer, "+OK\r\n");
	else
		buf_printf(&cmd->answer, "-ERR not reloaded: %.*s\r\n", (int)why.n, why.p);
	mailbox_post(&a->mailbox, &cmd->message);
}

void admin_answer(struct admin *a, uint64_t question, struct slice answer)
{
	struct admin_cmd *cmd = cmd_new(a, ADMIN_ANSWER);

	cmd->question = question;
	buf_append(&cmd->answer, answer);
	mailbox_post(&a->mailbox, &cmd->message);
}

void admin_leave(struct admin *a)
{
	mailbox_post(&a->mailbox, &cmd_new(a, ADMIN_LEAVE)->message);
}

void admin_post_stop(struct admin *a)
{
	mailbox_post(&a->mailbox, &cmd_new(a, ADMIN_STOP)->message);
}

static void *console_job_main(void *arg)
{
	struct console_job *j = arg;
	const struct show_env env = { j->admin->shared, j->config };
	struct admin_cmd *cmd = cmd_new(j->admin, ADMIN_ANSWER);

	j->fn(&env, j->arg, &cmd->answer);
	cmd->question = j->question;
	cmd->job = j;
	mailbox_post(&j->admin->mailbox, &cmd->message);
	return NULL;
}

static void *console_job_thread(void *arg)
{
	(void)setpriority(PRIO_PROCESS, 0, JOB_NICE); /* 0: this thread */
	return console_job_main(arg);
}

static void console_job_start(struct console_job *j)
{
	j->runs = true;
	j->config = config_ref(j->admin->config);
	j->has_thread = pthread_create(&j->thread, NULL, console_job_thread, j) == 0;
	/* If no thread can be started, run the job here, although the other consoles wait. */
	if (!j->has_thread)
		console_job_main(j);
}

static struct console_job *console_job_find(struct admin *a, console_job_fn *fn,
                                            const void *arg, size_t size, bool runs)
{
	list_each (struct console_job, j, &a->jobs, node) {
		if (j->runs == runs && j->fn == fn && j->size == size &&
		    memcmp(j->arg, arg, size) == 0)
			return j;
	}
	return NULL;
}

static struct console_job *console_job_new(struct admin *a, console_job_fn *fn, const void *arg,
                                           size_t size)
{
	struct console_job *j = xcalloc(1, sizeof(*j));

	j->admin = a;
	j->fn = fn;
	j->arg = memcpy(xmalloc(size), arg, size);
	j->size = size;
	list_append(&a->jobs, &j->node);
	return j;
}

static void console_job_free(struct console_job *j)
{
	list_remove(&j->node);
	if (j->has_thread)
		pthread_join(j->thread, NULL);
	if (j->config)
		config_unref(j->config);
	free(j->arg);
	free(j);
}

void console_job_begin(struct console *c, console_job_fn *fn, const void *arg, size_t size)
{
	struct console_job *j = console_job_find(c->admin, fn, arg, size, false);
	bool runs = console_job_find(c->admin, fn, arg, size, true);

	if (!j) {
		j = console_job_new(c->admin, fn, arg, size);
		j->question = c->question ? c->question : ++c->admin->last_id;
	}
	c->question = j->question;
	console_await(c);
	if (!runs)
		console_job_start(j);
}

void console_job_end(struct console_job *j)
{
	struct console_job *next = console_job_find(j->admin, j->fn, j->arg, j->size, false);

	if (next)
		console_job_start(next);
	console_job_free(j);
}

void console_jobs_stop(struct admin *a)
{
	list_drain (struct console_job, j, &a->jobs, node) {
		if (!j->runs) {
			console_job_free(j);
			continue;
		}
		if (j->has_thread)
			pthread_join(j->thread, NULL);
		j->has_thread = false;
	}
}
