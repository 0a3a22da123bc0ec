/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_commands.h"

#include <string.h>

#include "base/fatal.h"
#include "lock/scripts/script_call.h"
#include "resp/write.h"

/* The scripts call fewer commands than this. */
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

/* Finds each `redis.call('NAME'` and `redis.pcall('NAME'` in the scripts. (With strstr(), a
 * sanitizer would measure the rest of the text each time.) */
static void called_init(struct called *called)
{
	static const char begin[] = "call('";
	const size_t n = sizeof(begin) - 1;

	called->n = 0;
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		struct slice text = script_get((enum script_id)i)->text;
		const char *at = text.p, *end = text.p + text.n;
		while ((at = memmem(at, (size_t)(end - at), begin, n))) {
			at += n;
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

/* KEYS[1]: any key of hasp's own; ARGV: the names. If acl_check_cmd() does not understand a
 * name, for lack of a subcommand, the command counts as permitted. */
static const char permission_script[] =
	"local denied = {} "
	"for _, name in ipairs(ARGV) do "
	"  local known, allowed = pcall(redis.acl_check_cmd or error, name, "
	"    string.upper(name) == 'PUBLISH' and 'hasp:worker:nobody' or KEYS[1]) "
	"  if known and not allowed then denied[#denied + 1] = name end "
	"end "
	"return denied";

void script_commands_ask_permission(struct buf *out)
{
	struct called called;

	called_init(&called);
	resp_write_array(out, 4 + called.n);
	resp_write_bulk_str(out, "EVAL");
	resp_write_bulk_str(out, permission_script);
	resp_write_bulk_str(out, "1");
	resp_write_bulk_str(out, "hasp:fence");
	for (size_t i = 0; i < called.n; i++)
		resp_write_bulk(out, called.v[i]);
}

void script_commands_denied(const redisReply *reply, struct buf *denied)
{
	if (reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i < reply->elements; i++)
		if (reply->element[i]->type == REDIS_REPLY_STRING)
			buf_printf(denied, "%s%s", i ? " " : "", reply->element[i]->str);
}
