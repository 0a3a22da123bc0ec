/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "resp/write.h"

static bool sentinels_has(const struct sentinels *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->names[i], name) == 0)
			return true;
	return false;
}

static void sentinels_add(struct sentinels *s, const char *name)
{
	if (s->n < SENTINELS_MAX && !sentinels_has(s, name))
		s->names[s->n++] = xstrdup(name);
}

void sentinels_init(struct sentinels *s, char *const *names, size_t n)
{
	*s = (struct sentinels){ .epoch = -1, .nconfigured = n };
	s->configured = xcalloc(n + 1, sizeof(*s->configured));
	for (size_t i = 0; i < n; i++) {
		s->configured[i] = xstrdup(names[i]);
		sentinels_add(s, names[i]);
	}
}

void sentinels_fini(struct sentinels *s)
{
	while (s->n)
		free(s->names[--s->n]);
	for (size_t i = 0; i < s->nconfigured; i++)
		free(s->configured[i]);
	free(s->configured);
}

void sentinels_prefer(struct sentinels *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++) {
		char *found = s->names[i];
		if (strcmp(found, name) != 0)
			continue;
		memmove(s->names + 1, s->names, i * sizeof(*s->names));
		s->names[0] = found;
		return;
	}
}

void sentinels_begin(struct sentinels *s)
{
	s->asked = s->nbehind = 0;
}

void sentinels_rotate(struct sentinels *s)
{
	char *first = s->names[0];

	if (s->n < 2)
		return;
	memmove(s->names, s->names + 1, (s->n - 1) * sizeof(*s->names));
	s->names[s->n - 1] = first;
}

const char *sentinels_next(struct sentinels *s)
{
	return s->asked < s->n ? s->names[s->asked++] : NULL;
}

/* --- answers ------------------------------------------------------------------------------ */

static void write_sentinel_command(struct buf *out, struct slice subcommand, const char *master)
{
	struct slice argv[] = { SLICE_LIT("SENTINEL"), subcommand, slice_str(master) };

	resp_write_request(out, argv, 3);
}

void sentinel_write_question(struct buf *out, const char *master)
{
	write_sentinel_command(out, SLICE_LIT("GET-MASTER-ADDR-BY-NAME"), master);
}

void sentinel_write_commands(struct buf *out, const char *master)
{
	sentinel_write_question(out, master);
	write_sentinel_command(out, SLICE_LIT("MASTER"), master);
	write_sentinel_command(out, SLICE_LIT("SENTINELS"), master);
}

/* The value of a field in a reply of names and values; NULL: it has none. */
static const char *field_of(const redisReply *r, const char *name)
{
	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i + 1 < r->elements; i += 2)
		if (r->element[i]->type == REDIS_REPLY_STRING &&
		    r->element[i + 1]->type == REDIS_REPLY_STRING &&
		    strcmp(r->element[i]->str, name) == 0)
			return r->element[i + 1]->str;
	return NULL;
}

static bool is_port(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n > 0 && n <= 5 && !s[n] && atoi(s) > 0 && atoi(s) <= UINT16_MAX;
}

/* As `address` has it in the file. False: no address comes of it. */
static bool print_address(const char *host, const char *port, char *out, size_t n)
{
	bool is_v6 = strchr(host, ':');
	int len = snprintf(out, n, is_v6 ? "[%s]:%s" : "%s:%s", host, port);

	return is_port(port) && *host && len > 0 && (size_t)len < n && address_is_remote(out);
}

static void read_others(struct sentinel_answer *a, const redisReply *r)
{
	char name[sizeof(a->name)];

	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++) {
		const char *host = field_of(r->element[i], "ip");
		const char *port = field_of(r->element[i], "port");
		if (host && port && a->nothers < SENTINELS_MAX &&
		    print_address(host, port, name, sizeof(name)))
			a->others[a->nothers++] = xstrdup(name);
	}
}

int sentinel_read_named(struct sentinel_answer *a, const redisReply *named, const char **why)
{
	const redisReply *const *pair = (const redisReply *const *)named->element;

	*a = (struct sentinel_answer){ .epoch = 0 };
	*why = named->type == REDIS_REPLY_ERROR ? named->str
	       : named->type == REDIS_REPLY_NIL ? "it does not know that name"
	                                        : "its answer is not understood";
	if (named->type != REDIS_REPLY_ARRAY || named->elements != 2 ||
	    pair[0]->type != REDIS_REPLY_STRING || pair[1]->type != REDIS_REPLY_STRING ||
	    !print_address(pair[0]->str, pair[1]->str, a->name, sizeof(a->name)))
		return -1;
	return address_parse(&a->address, a->name);
}

int sentinel_read(struct sentinel_answer *a, redisReply *const *replies, const char **why)
{
	const char *epoch = field_of(replies[1], "config-epoch");

	if (sentinel_read_named(a, replies[0], why) < 0)
		return -1;
	a->epoch = epoch ? strtoll(epoch, NULL, 10) : 0;
	read_others(a, replies[2]);
	return 0;
}

void sentinel_answer_fini(struct sentinel_answer *a)
{
	while (a->nothers)
		free(a->others[--a->nothers]);
}

static bool is_configured(const struct sentinels *s, const char *name)
{
	for (size_t i = 0; i < s->nconfigured; i++)
		if (strcmp(s->configured[i], name) == 0)
			return true;
	return false;
}

static bool is_named(const struct sentinel_answer *a, const char *name)
{
	for (size_t i = 0; i < a->nothers; i++)
		if (strcmp(a->others[i], name) == 0)
			return true;
	return false;
}

static void sentinels_add_others(struct sentinels *s, const struct sentinel_answer *a)
{
	for (size_t i = 0; i < a->nothers; i++)
		sentinels_add(s, a->others[i]);
}

/* The one that answered comes first, then those behind it, then those before it: so that each
 * has its turn. Left out are those that neither the configuration nor it names. */
static void sentinels_learn(struct sentinels *s, size_t answered,
                            const struct sentinel_answer *a)
{
	char *names[SENTINELS_MAX] = { NULL };
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		char *name = s->names[(answered + i) % s->n];
		if (i == 0 || is_configured(s, name) || is_named(a, name))
			names[n++] = name;
		else
			free(name);
	}
	memcpy(s->names, names, n * sizeof(*names));
	s->n = n;
	sentinels_add_others(s, a);
}

bool sentinels_note(struct sentinels *s, const struct sentinel_answer *a)
{
	bool is_newer = a->epoch > s->epoch;

	if (is_newer)
		s->epoch = a->epoch;
	sentinels_add_others(s, a);
	return is_newer;
}

bool sentinels_take(struct sentinels *s, const struct sentinel_answer *a)
{
	HASP_ASSERT(s->asked > 0);
	if (a->epoch < s->epoch && ++s->nbehind * 2 <= s->n)
		return false;
	s->epoch = a->epoch;
	sentinels_learn(s, s->asked - 1, a);
	return true;
}
