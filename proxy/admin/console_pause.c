/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_pause: the commands that change how hasp serves: PAUSE, RESUME, RECONNECT, RELOAD,
 * DRAIN and SHUTDOWN. The console answers PAUSE and RESUME when all workers have paused or
 * resumed, which the timer a->pause checks. If the console is closed earlier, its command still
 * takes effect.
 */
#include <stdatomic.h>

#include "admin/admin_internal.h"

/* How often hasp checks whether all workers have paused or resumed. */
#define PAUSE_SECONDS 0.01

bool console_pause_answer(const struct console *c, enum worker_pause now, size_t nbound,
                          struct buf *out)
{
	bool pauses = c->awaits == AWAITS_PAUSED;

	if (c->awaits == AWAITS_NO_PAUSE || now == (pauses ? WORKER_PAUSING : WORKER_RESUMING))
		return false;
	if (now != (pauses ? WORKER_PAUSED : WORKER_SERVES))
		buf_printf(out, "-ERR another client has sent %s\r\n",
		           pauses ? "RESUME" : "PAUSE");
	else if (pauses && nbound)
		buf_printf(out,
		           "+OK, but %zu connections of clients that subscribe or block will "
		           "end when Redis ends\r\n",
		           nbound);
	else
		buf_puts(out, "+OK\r\n");
	return true;
}

static void await_pause(struct console *c, enum console_awaits what)
{
	struct admin *a = c->admin;

	c->awaits = what;
	console_await(c);
	loop_timer_repeat(&a->pause, PAUSE_SECONDS);
}

void console_pause(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)req;
	log_info("console command=\"PAUSE\" by=\"%s\"", c->peer);
	if (workers_pause(c->admin->shared))
		await_pause(c, AWAITS_PAUSED);
	else
		buf_puts(out, "-ERR an upgrade is under way; send PAUSE again, on a new "
		              "connection\r\n");
}

void console_resume(struct console *c, const struct resp_view *req, struct buf *out)
{
	bool at_once = req->argc > 1;

	if (at_once && !slice_is(req->argv[1], "now")) {
		buf_puts(out, "-ERR syntax error; expected RESUME [NOW]\r\n");
		return;
	}
	log_info("console command=\"%s\" by=\"%s\"", at_once ? "RESUME NOW" : "RESUME",
	         c->peer);
	workers_resume(c->admin->shared, at_once);
	await_pause(c, AWAITS_RESUMED);
}

void console_reconnect(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)req;
	log_info("console command=\"RECONNECT\" by=\"%s\"", c->peer);
	workers_reconnect(c->admin->shared);
	buf_puts(out, "+OK\r\n");
}

void console_reload(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)req;
	(void)out;
	log_info("console command=\"RELOAD\" by=\"%s\"", c->peer);
	c->reload = atomic_fetch_add(&c->admin->reloads, 1) + 1;
	console_await(c);
	c->admin->ops->reload(c->admin->arg);
}

void console_shut_down(struct console *c, const struct resp_view *req, struct buf *out)
{
	bool at_once = req->argc > 1;

	if (at_once && !slice_is(req->argv[1], "now")) {
		buf_puts(out, "-ERR syntax error; expected SHUTDOWN [NOW]\r\n");
		return;
	}
	log_info("console command=\"%s\" by=\"%s\"", at_once ? "SHUTDOWN NOW" : "SHUTDOWN",
	         c->peer);
	c->admin->ops->shut_down(c->admin->arg, at_once ? ADMIN_SHUTDOWN_NOW : ADMIN_SHUTDOWN);
	buf_puts(out, "+OK\r\n");
}

void console_drain(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)req;
	log_info("console command=\"DRAIN\" by=\"%s\"", c->peer);
	c->admin->ops->shut_down(c->admin->arg, ADMIN_DRAIN);
	buf_puts(out, "+OK\r\n");
}
