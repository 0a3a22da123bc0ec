/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/learn.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

/* An entry: name, arity, flags, first key, last key, step, ... */
enum { NAME, ARITY, FLAGS, FIRST, LAST, STEP, FIELDS };

static const struct {
	const char *name;
	uint8_t flag;
} flags[] = {
	{ "write", COMMAND_WRITE },
	{ "noscript", COMMAND_NOSCRIPT },
	{ "blocking", COMMAND_BLOCKING },
};

static bool is_text(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS;
}

static bool is_entry(const redisReply *r)
{
	if (r->type != REDIS_REPLY_ARRAY || r->elements < FIELDS ||
	    !is_text(r->element[NAME]) ||
	    r->element[FLAGS]->type != REDIS_REPLY_ARRAY)
		return false;
	for (int i = ARITY; i <= STEP; i++) {
		const redisReply *n = r->element[i];
		if (i == FLAGS)
			continue;
		if (n->type != REDIS_REPLY_INTEGER || n->integer < SHRT_MIN ||
		    n->integer > SHRT_MAX)
			return false;
	}
	return true;
}

static uint8_t read_flags(const redisReply *list)
{
	uint8_t found = 0;

	for (size_t i = 0; i < list->elements; i++)
		for (size_t k = 0; k < sizeof(flags) / sizeof(*flags); k++)
			if (is_text(list->element[i]) &&
			    strcmp(list->element[i]->str, flags[k].name) == 0)
				found |= flags[k].flag;
	return found;
}

static bool learn_one(struct commands *t, const redisReply *entry)
{
	struct command c = { 0 };
	const redisReply *name;
	const struct command *known;

	if (!is_entry(entry))
		return false;
	name = entry->element[NAME];
	if ((size_t)name->len >= sizeof(c.name))
		return false;
	for (size_t i = 0; i < (size_t)name->len; i++)
		c.name[i] = (char)tolower((unsigned char)name->str[i]);
	c.flags = read_flags(entry->element[FLAGS]);
	c.arity = (int16_t)entry->element[ARITY]->integer;
	c.first = (int16_t)entry->element[FIRST]->integer;
	c.last = (int16_t)entry->element[LAST]->integer;
	c.step = (int16_t)entry->element[STEP]->integer;
	c.keys = c.first ? KEYS_RANGE : KEYS_NONE;
	/* Where COMMAND can't tell the keys' places, the built-in table knows better. */
	known = commands_get(t, slice_of(name->str, (size_t)name->len));
	if (known && known->keys != KEYS_RANGE) {
		c.keys = known->keys;
		c.first = known->first;
		c.last = known->last;
		c.step = known->step;
	}
	commands_put(t, &c);
	return true;
}

size_t learn_commands(struct commands *t, const redisReply *reply)
{
	size_t n = 0;

	if (reply->type != REDIS_REPLY_ARRAY)
		return 0;
	for (size_t i = 0; i < reply->elements; i++)
		n += learn_one(t, reply->element[i]);
	return n;
}
