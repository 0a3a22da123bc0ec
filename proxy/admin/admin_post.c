/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin_post: jobs on other threads, and messages from them to the admin thread.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin_internal.h"
#include "base/fatal.h"
#include "config/config.h"

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

void admin_answer(struct admin *a, uint64_t console, struct slice answer)
{
	struct admin_cmd *cmd = cmd_new(a, ADMIN_ANSWER);

	cmd->console = console;
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

/* A command that needs the workers waits for them on a thread of its own, so that a hung worker
 * delays no other console:
 *
 *   console_job_begin() --> AWAITING --> thread: asks --> admin_answer() --> SERVING
 *
 * A console awaits one job at a time. So there are no more jobs than consoles, apart from jobs
 * of consoles that were closed. */

struct console_job {
	struct list node; /* in admin->jobs */
	struct message done; /* in the admin thread's mailbox, after the answer */
	struct admin *admin;
	uint64_t console; /* id of the console */
	console_job_fn *fn;
	bool has_thread; /* the thread must be joined */
	pthread_t thread;
	void *arg; /* owned by the job */
};

static void console_job_run(struct console_job *j)
{
	struct buf out = BUF_INIT;

	j->fn(j->admin, j->console, j->arg, &out);
	if (buf_len(&out))
		admin_answer(j->admin, j->console, buf_slice(&out));
	buf_release(&out);
	mailbox_post(&j->admin->mailbox, &j->done);
}

static void *console_job_main(void *arg)
{
	console_job_run(arg);
	return NULL;
}

static void console_job_join(struct console_job *j)
{
	if (j->has_thread)
		pthread_join(j->thread, NULL);
	j->has_thread = false;
}

static void console_job_free(struct console_job *j)
{
	list_remove(&j->node);
	free(j->arg);
	free(j);
}

static void console_job_on_done(struct message *m)
{
	struct console_job *j = container_of(m, struct console_job, done);

	console_job_join(j);
	console_job_free(j);
}

void console_job_begin(struct console *c, console_job_fn *fn, const void *arg, size_t size)
{
	struct console_job *j = xcalloc(1, sizeof(*j));

	j->done.deliver = console_job_on_done;
	j->admin = c->admin;
	j->console = c->id;
	j->fn = fn;
	j->arg = xmalloc(size);
	memcpy(j->arg, arg, size);
	list_append(&c->admin->jobs, &j->node);
	console_await(c);
	j->has_thread = pthread_create(&j->thread, NULL, console_job_main, j) == 0;
	/* If no thread can be made, run it here: the other consoles wait. */
	if (!j->has_thread)
		console_job_run(j);
}

void console_jobs_stop(struct admin *a)
{
	list_each (struct console_job, j, &a->jobs, node)
		console_job_join(j);
}

void console_jobs_free(struct admin *a)
{
	while (!list_empty(&a->jobs))
		console_job_free(container_of(a->jobs.next, struct console_job, node));
}
