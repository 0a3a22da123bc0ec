/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin_post: what other threads have for the admin thread.
 */
#include <stdatomic.h>

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
