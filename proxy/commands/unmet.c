/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/unmet.h"

#include "base/fatal.h"
#include "commands/learn.h"
#include "resp/write.h"

static bool has_name(const struct command *names, size_t n, struct slice name)
{
	for (size_t i = 0; i < n; i++)
		if (slice_is(name, names[i].name))
			return true;
	return false;
}

void unmet_note(struct unmet *u, struct slice name)
{
	if (!has_name(u->names, u->n, name) && !has_name(u->answered, u->nanswered, name) &&
	    u->n < UNMET_MAX && command_set_name(&u->names[u->n], name))
		u->n++;
}

bool unmet_await(struct unmet *u, struct slice name)
{
	struct command any;

	if (has_name(u->answered, u->nanswered, name) || !command_set_name(&any, name))
		return false;
	unmet_note(u, name);
	u->is_awaited = true;
	return true;
}

void unmet_ask(struct unmet *u, struct buf *out, double now)
{
	HASP_ASSERT(unmet_is_due(u, now));
	resp_write_array(out, 2 + u->n);
	resp_write_bulk_str(out, "COMMAND");
	resp_write_bulk_str(out, "INFO");
	for (size_t i = 0; i < u->n; i++)
		resp_write_bulk_str(out, u->names[i].name);
	u->nasked = u->n;
	u->is_awaited = false;
	u->ask_at = now + UNMET_SECONDS;
}

size_t unmet_learn(struct unmet *u, struct commands *t, const redisReply *reply)
{
	size_t n = 0;

	if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == u->nasked)
		for (size_t i = 0; i < u->nasked; i++)
			n += learn_named(t, slice_str(u->names[i].name), reply->element[i]);
	memcpy(u->answered, u->names, u->nasked * sizeof(*u->names));
	u->nanswered = u->nasked;
	/* Names that came during the question wait for the next one. */
	u->n -= u->nasked;
	memmove(u->names, u->names + u->nasked, u->n * sizeof(*u->names));
	u->nasked = 0;
	return n;
}

void unmet_forget(struct unmet *u)
{
	u->nanswered = 0;
}
