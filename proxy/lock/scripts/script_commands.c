/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_commands.h"

#include <string.h>

#include "base/fatal.h"
#include "lock/scripts/script.h"
#include "resp/write.h"

/* More than the scripts call. */
#define NAMES_MAX 64

struct called {
	struct slice v[NAMES_MAX];
	size_t n;
};

static void called_add(struct called *called, struct slice name)
{
	for (size_t i = 0; i < called->n; i++)
		if (slice_eq(called->v[i], name))
			return;
	HASP_ASSERT(called->n < NAMES_MAX);
	called->v[called->n++] = name;
}

/* `redis.call('NAME'` and `redis.pcall('NAME'` */
static void called_init(struct called *called)
{
	static const char begin[] = "call('";

	called->n = 0;
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		const char *at = script_get((enum script_id)i)->text.p;
		while ((at = strstr(at, begin))) {
			at += sizeof(begin) - 1;
			called_add(called, slice_of(at, strcspn(at, "'")));
		}
	}
}

void script_commands_ask(struct buf *out)
{
	struct called called;

	called_init(&called);
	resp_write_array(out, 2 + called.n);
	resp_write_bulk_str(out, "COMMAND");
	resp_write_bulk_str(out, "INFO");
	for (size_t i = 0; i < called.n; i++)
		resp_write_bulk(out, called.v[i]);
}

size_t script_commands_missing(const redisReply *reply, struct buf *missing)
{
	struct called called;
	size_t n = 0;

	called_init(&called);
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != called.n)
		return 0;
	for (size_t i = 0; i < called.n; i++) {
		if (reply->element[i]->type == REDIS_REPLY_ARRAY)
			continue;
		buf_printf(missing, "%s%.*s", n++ ? " " : "", (int)called.v[i].n,
		           called.v[i].p);
	}
	return n;
}
