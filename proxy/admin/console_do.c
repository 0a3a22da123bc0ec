/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdatomic.h>

#include "admin/admin_internal.h"

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
