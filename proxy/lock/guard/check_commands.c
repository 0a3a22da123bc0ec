/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/guard/check_commands.h"

#include <strings.h>

enum guard_list { ACQUIRE, RELEASE };

struct checking {
	const struct config *config;
	const struct commands *commands;
	struct buf *faults;
	size_t n;
};

/* Returns the command's fault and which commands would be right; NULL: no fault. */
static const char *find_fault(const struct commands *t, const char *name, enum guard_list list)
{
	const struct command *c = commands_get(t, slice_str(name));

	if (commands_lack(t, slice_str(name)))
		return "is unknown to Redis; expected commands that it has";
	if (!c)
		return NULL;
	if (c->flags & COMMAND_BLOCKING)
		return "may block; expected commands that answer at once";
	if (c->flags & COMMAND_NOSCRIPT)
		return "is forbidden in scripts, which guards use; expected commands that "
		       "scripts may call";
	if (c->flags & COMMAND_HIDDEN_KEYS)
		return "has keys in positions that Redis does not report; expected commands "
		       "with keys in fixed positions";
	if (c->keys == KEYS_NONE)
		return "has no key; expected commands that name one";
	if (list == RELEASE && !(c->flags & COMMAND_WRITE))
		return "does not write; expected commands that do";
	return NULL;
}

static void check_list(struct checking *k, const struct guard *g, const struct strings *names,
                       enum guard_list list)
{
	for (size_t i = 0; i < names->n; i++) {
		const char *what = find_fault(k->commands, names->v[i], list);

		if (!what)
			continue;
		sources_print(&k->config->sources, names->lines[i], k->faults);
		buf_printf(k->faults, ": '%s' in '%s' of [guard %s] %s, such as %s\n",
		           names->v[i], list == ACQUIRE ? "acquire_on" : "release_on",
		           g->section.name, what, list == ACQUIRE ? "GET" : "SET");
		k->n++;
	}
}

size_t check_commands(const struct config *c, const struct commands *t, struct buf *faults)
{
	struct checking k = { c, t, faults, 0 };

	for (size_t i = 0; i < c->nguards; i++) {
		check_list(&k, c->guards[i], &c->guards[i]->acquire_on, ACQUIRE);
		check_list(&k, c->guards[i], &c->guards[i]->release_on, RELEASE);
	}
	return k.n;
}

/* Redis' own commands without a row in commands.def. */
static const char *const others[] = {
	"acl",      "bgrewriteaof", "bgsave",  "config", "debug",    "echo",
	"failover", "lastsave",     "latency", "lolwut", "pubsub",   "replicaof",
	"save",     "slaveof",      "slowlog", "swapdb", "time",     "pfselftest",
	"command",  "module",       "psync",   "sync",   "replconf", "memory",
};

static bool is_of_redis(const struct commands *builtin, const char *name)
{
	if (commands_find(builtin, slice_str(name)))
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strcasecmp(name, others[i]) == 0)
			return true;
	return false;
}

size_t check_verbs(const struct config *c, struct buf *faults)
{
	const struct verbs *v = &c->verbs;
	static const char *const such_as[VERB_COUNT] = {
		[VERB_LOCK] = "LOCK",          [VERB_UNLOCK] = "UNLOCK",
		[VERB_EXTEND] = "LOCK.EXTEND", [VERB_INFO] = "LOCK.INFO",
		[VERB_LIST] = "LOCK.LIST",     [VERB_MLOCK] = "MLOCK",
		[VERB_MUNLOCK] = "MUNLOCK",
	};
	struct commands *t;
	size_t n = 0;

	if (!v->enabled)
		return 0;
	t = commands_new();
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (!is_of_redis(t, v->names[i]))
			continue;
		sources_print(&c->sources, v->name_lines[i], faults);
		buf_printf(faults,
		           ": '%s' in '%s' of [verbs] is a command of Redis; expected a name "
		           "that Redis does not use, such as %s\n",
		           v->names[i], verb_options[i], such_as[i]);
		n++;
	}
	commands_free(t);
	return n;
}
