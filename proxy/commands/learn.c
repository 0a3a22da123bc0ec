/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/learn.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "resp/write.h"

/* The fields of an entry in COMMAND's reply: name, arity, flags, first key, last key, step,
 * ... */
enum { NAME, ARITY, FLAGS, FIRST, LAST, STEP, FIELDS };
/* Since Redis 7, an entry also has the specifications of its keys, one for each key or run of
 * keys, and the subcommands of a container. */
enum { KEY_SPECS = 8, SUBCOMMANDS = 9 };

static const struct {
	const char *name;
	uint16_t flag;
} flags[] = {
	{ "write", COMMAND_WRITE },       { "readonly", COMMAND_READONLY },
	{ "noscript", COMMAND_NOSCRIPT }, { "blocking", COMMAND_BLOCKING },
	{ "no_multi", COMMAND_NO_MULTI },
};

/* Commands with one of these flags change their connection's state, or make it wait. */
static const char *const stateful[] = { "blocking", "pubsub", "noscript", "no_multi", "admin" };

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static bool reply_is_text(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS;
}

static bool is_entry(const redisReply *r)
{
	if (r->type != REDIS_REPLY_ARRAY || r->elements < FIELDS ||
	    !reply_is_text(r->element[NAME]) || r->element[FLAGS]->type != REDIS_REPLY_ARRAY)
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

static bool has_flag(const redisReply *entry, const char *flag)
{
	const redisReply *list = entry->element[FLAGS];

	for (size_t i = 0; i < list->elements; i++)
		if (reply_is_text(list->element[i]) &&
		    strcasecmp(list->element[i]->str, flag) == 0)
			return true;
	return false;
}

/* Converts an entry's flags. `known`: the command's row in commands.def; NULL: none. */
static uint16_t read_flags(const struct command *known, const redisReply *entry)
{
	enum command_session session = known ? (enum command_session)known->facts.session
	                                     : SESSION_DEFAULT;
	bool is_stateful = session >= SESSION_OWN_LINK;
	uint16_t found = 0;

	for (size_t k = 0; k < COUNT(flags); k++)
		if (has_flag(entry, flags[k].name))
			found |= flags[k].flag;
	for (size_t k = 0; k < COUNT(stateful) && session != SESSION_ANY_LINK; k++)
		is_stateful |= has_flag(entry, stateful[k]);
	return is_stateful ? found : found | COMMAND_STATELESS;
}

/* Returns the entries of a command's subcommands; NULL: it has none, or Redis lists none. */
static const redisReply *subcommands_of(const redisReply *entry)
{
	const redisReply *subs = entry->elements > SUBCOMMANDS ? entry->element[SUBCOMMANDS]
	                                                       : NULL;

	return subs && subs->type == REDIS_REPLY_ARRAY && subs->elements ? subs : NULL;
}

/* True if the command may name keys that first, last and step do not describe. */
static bool has_hidden_keys(const redisReply *entry)
{
	const redisReply *subs = subcommands_of(entry);

	if (has_flag(entry, "movablekeys"))
		return true;
	for (size_t i = 0; subs && i < subs->elements; i++) {
		const redisReply *sub = subs->element[i];
		if (is_entry(sub) &&
		    (sub->element[FIRST]->integer || has_flag(sub, "movablekeys")))
			return true;
	}
	return false;
}

/* --- specifications of keys --------------------------------------------------------------- */

/* Returns the value of the pair with this `name`; NULL: there is no such pair. */
static const redisReply *field(const redisReply *pairs, const char *name)
{
	if (!pairs || pairs->type != REDIS_REPLY_ARRAY)
		return NULL;
	for (size_t i = 0; i + 1 < pairs->elements; i += 2)
		if (reply_is_text(pairs->element[i]) &&
		    strcmp(pairs->element[i]->str, name) == 0)
			return pairs->element[i + 1];
	return NULL;
}

/* Returns the `spec` in one half of a key specification; NULL: the half has another type. */
static const redisReply *spec_of(const redisReply *half, const char *type)
{
	const redisReply *is = field(half, "type");

	return is && reply_is_text(is) && strcmp(is->str, type) == 0 ? field(half, "spec")
	                                                             : NULL;
}

/* Returns the number called `name`; 0: it is missing, negative, or too large for a field. */
static int16_t positive_number(const redisReply *spec, const char *name)
{
	const redisReply *number = field(spec, name);

	if (!number || number->type != REDIS_REPLY_INTEGER || number->integer < 0 ||
	    number->integer > SHRT_MAX)
		return 0;
	return (int16_t)number->integer;
}

static bool has_number(const redisReply *spec, const char *name, long long n)
{
	const redisReply *number = field(spec, name);

	return number && number->type == REDIS_REPLY_INTEGER && number->integer == n;
}

/* Returns the half of `spec` that says how to find the other keys from the first position. */
static const redisReply *find_keys_of(const redisReply *spec, bool counted)
{
	return spec_of(field(spec, "find_keys"), counted ? "keynum" : "range");
}

/* Returns the argv index of the first key of `spec`; if `counted`, the argv index of the number
 * of keys. Returns 0 if `spec` describes the keys in another way. */
static int16_t index_of(const redisReply *spec, bool counted)
{
	const redisReply *begin = spec_of(field(spec, "begin_search"), "index");
	const redisReply *find = find_keys_of(spec, counted);

	if (!find)
		return 0;
	if (counted && !(has_number(find, "keynumidx", 0) && has_number(find, "firstkey", 1)))
		return 0;
	if (!counted && !(has_number(find, "lastkey", 0) && has_number(find, "limit", 0)))
		return 0;
	return positive_number(begin, "index");
}

/* Finds the keys of a command that has no row, if first, last and step do not describe the
 * keys. Returns false if no number of keys precedes them; in most such commands, one does. */
static bool read_key_specs(struct command *c, const redisReply *entry)
{
	const redisReply *specs = entry->elements > KEY_SPECS ? entry->element[KEY_SPECS]
	                                                      : NULL;
	size_t n = specs && specs->type == REDIS_REPLY_ARRAY ? specs->elements : 0;

	if (n == 1) {
		c->step = positive_number(find_keys_of(specs->element[0], true), "keystep");
		c->first = c->step ? index_of(specs->element[0], true) : 0;
		c->last = 0;
		c->keys = c->first ? KEYS_COUNTED : KEYS_NONE;
		return c->first != 0;
	}
	if (n == 2 && index_of(specs->element[0], false) == 1 &&
	    index_of(specs->element[1], true) == 2 &&
	    has_number(find_keys_of(specs->element[1], true), "keystep", 1)) {
		c->keys = KEYS_DEST_COUNTED;
		c->first = c->last = c->step = 1;
		return true;
	}
	return false;
}

/* --- entries ------------------------------------------------------------------------------ */

/* Fills `c` with the entry's description, and with the table's facts about the same name. */
static bool read_entry(const struct commands *t, const redisReply *entry, struct command *c)
{
	const redisReply *name;
	const struct command *known;
	struct slice text;

	if (!is_entry(entry))
		return false;
	name = entry->element[NAME];
	text = slice_of(name->str, (size_t)name->len);
	*c = (struct command){ 0 };
	if (!command_set_name(c, text))
		return false;
	c->flags = read_flags(commands_find(t, text), entry) | COMMAND_FROM_SERVER;
	c->facts.errors = has_flag(entry, "module") ? ERRORS_OWN : ERRORS_SERVER;
	c->arity = (int16_t)entry->element[ARITY]->integer;
	c->first = (int16_t)entry->element[FIRST]->integer;
	c->last = (int16_t)entry->element[LAST]->integer;
	c->step = (int16_t)entry->element[STEP]->integer;
	c->keys = c->first ? KEYS_RANGE : KEYS_NONE;
	/* For some commands and for containers of subcommands, commands.def describes the keys
	 * better than COMMAND. */
	known = commands_get(t, text);
	if (known && (known->keys != KEYS_RANGE || subcommands_of(entry))) {
		c->keys = known->keys;
		c->first = known->first;
		c->last = known->last;
		c->step = known->step;
		c->flags |= known->flags & COMMAND_WRITE;
	}
	if (known ? known->flags & COMMAND_HIDDEN_KEYS
	          : has_hidden_keys(entry) && !read_key_specs(c, entry))
		c->flags |= COMMAND_HIDDEN_KEYS;
	return true;
}

/* Returns the facts of a renamed command from the row of its original name. The script of a
 * rule calls a command by its original name, which the server now lacks. So hasp checks the
 * lock and runs the command as it came, but does not split it. The client gets a link of its
 * own, because hasp does not follow the command's effect on the connection. */
static struct command_facts facts_of_renamed(const struct command *original)
{
	struct command_facts facts = original->facts;

	if (facts.rule != RULE_PASS)
		facts.rule = RULE_CHECK;
	if (facts.when_long == LONG_SPLIT)
		facts.when_long = LONG_REFUSED;
	if (facts.session >= SESSION_SELECT)
		facts.session = SESSION_OWN_LINK;
	return facts;
}

/* Adds the command `name` from `entry`, the answer to COMMAND INFO. If the command was renamed
 * (rename-command), the entry has the original name, but the table gets `name`. Returns false
 * if the server has no such command, or if the entry has an unknown form. */
static bool learn_named(struct commands *t, struct slice name, const redisReply *entry)
{
	const struct command *original;
	struct command c;

	if (!read_entry(t, entry, &c))
		return false;
	if (!slice_is(name, c.name)) {
		original = commands_find(t, slice_str(c.name));
		if (original)
			c.facts = facts_of_renamed(original);
		if (c.facts.session == SESSION_OWN_LINK)
			c.flags &= (uint16_t)~COMMAND_STATELESS;
		log_warning("command_renamed name=%s original=%s", QUOTE(name), c.name);
		if (!command_set_name(&c, name))
			return false;
	} else {
		log_info("command_learned name=%s", QUOTE(name));
	}
	commands_put(t, &c);
	return true;
}

size_t learn_commands(struct commands *t, const redisReply *reply)
{
	struct command c;
	size_t n = 0;

	if (reply->type != REDIS_REPLY_ARRAY)
		return 0;
	for (size_t i = 0; i < reply->elements; i++) {
		if (!read_entry(t, reply->element[i], &c))
			continue;
		commands_put(t, &c);
		n++;
	}
	if (n)
		commands_set_learned(t);
	return n;
}

/* --- names that the table lacks ----------------------------------------------------------- */

static bool has_name(const struct command *names, size_t n, struct slice name)
{
	for (size_t i = 0; i < n; i++)
		if (slice_is(name, names[i].name))
			return true;
	return false;
}

void unknown_commands_add(struct unknown_commands *u, struct slice name)
{
	if (!has_name(u->names, u->n, name) && !has_name(u->answered, u->nanswered, name) &&
	    u->n < UNKNOWN_COMMANDS_MAX && command_set_name(&u->names[u->n], name))
		u->n++;
}

bool unknown_commands_await(struct unknown_commands *u, struct slice name)
{
	struct command any;

	if (has_name(u->answered, u->nanswered, name) || !command_set_name(&any, name))
		return false;
	unknown_commands_add(u, name);
	u->is_awaited = true;
	return true;
}

bool unknown_commands_query(struct unknown_commands *u, struct buf *out, double now)
{
	if (!u->n || u->nasked || (!u->is_awaited && now < u->ask_at))
		return false;
	resp_write_array(out, 2 + u->n);
	resp_write_bulk_str(out, "COMMAND");
	resp_write_bulk_str(out, "INFO");
	for (size_t i = 0; i < u->n; i++)
		resp_write_bulk_str(out, u->names[i].name);
	u->nasked = u->n;
	u->is_awaited = false;
	u->ask_at = now + UNKNOWN_COMMANDS_SECONDS;
	return true;
}

size_t unknown_commands_learn(struct unknown_commands *u, struct commands *t,
                              const redisReply *reply)
{
	size_t n = 0;

	if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == u->nasked)
		for (size_t i = 0; i < u->nasked; i++)
			n += learn_named(t, slice_str(u->names[i].name), reply->element[i]);
	memcpy(u->answered, u->names, u->nasked * sizeof(*u->names));
	u->nanswered = u->nasked;
	/* Names that came after hasp sent the question wait for the next question. */
	u->n -= u->nasked;
	memmove(u->names, u->names + u->nasked, u->n * sizeof(*u->names));
	u->nasked = 0;
	return n;
}

void unknown_commands_forget(struct unknown_commands *u)
{
	u->nanswered = 0;
}
