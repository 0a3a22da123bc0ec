/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/decode.h"

/* Returns the index of `name` in `names`; -1: it is not there. */
static int find_name(char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

static void sentinels_add(struct sentinels *s, const char *name)
{
	if (s->n == SENTINELS_MAX || find_name(s->names, s->n, name) >= 0)
		return;
	s->named_by[s->n] = 0;
	s->names[s->n++] = xstrdup(name);
}

/* Moves names[from] to names[to], and the names in between by one. */
static void sentinels_move(struct sentinels *s, size_t from, size_t to)
{
	char *name = s->names[from];
	uint32_t named_by = s->named_by[from];
	size_t n = from < to ? to - from : from - to;
	size_t first = from < to ? from : to;

	memmove(s->names + first + (from > to), s->names + first + (from < to),
	        n * sizeof(*s->names));
	memmove(s->named_by + first + (from > to), s->named_by + first + (from < to),
	        n * sizeof(*s->named_by));
	s->names[to] = name;
	s->named_by[to] = named_by;
}

void sentinels_init(struct sentinels *s, char *const *names, size_t n)
{
	*s = (struct sentinels){ .epoch = -1, .configured = names, .nconfigured = n };
	for (size_t i = 0; i < n; i++)
		sentinels_add(s, names[i]);
}

void sentinels_fini(struct sentinels *s)
{
	while (s->n)
		free(s->names[--s->n]);
}

void sentinels_prefer(struct sentinels *s, const char *name)
{
	int i = find_name(s->names, s->n, name);

	if (i >= 0)
		sentinels_move(s, (size_t)i, 0);
}

void sentinels_begin(struct sentinels *s)
{
	s->asked = s->nbehind = s->nwords = 0;
	s->named_known = false;
}

void sentinels_rotate(struct sentinels *s)
{
	if (s->n > 1)
		sentinels_move(s, 0, s->n - 1);
}

const char *sentinels_next(struct sentinels *s)
{
	return s->asked < s->n ? s->names[s->asked++] : NULL;
}

/* --- answers ------------------------------------------------------------------------------ */

void sentinel_write_question(struct buf *out, const char *master)
{
	resp_write_words(out, (const char *[]){ "SENTINEL", "GET-MASTER-ADDR-BY-NAME", master },
	                 3);
}

void sentinel_write_commands(struct buf *out, const char *master)
{
	sentinel_write_question(out, master);
	resp_write_words(out, (const char *[]){ "SENTINEL", "MASTER", master }, 3);
	resp_write_words(out, (const char *[]){ "SENTINEL", "SENTINELS", master }, 3);
}

static bool is_port(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n <= 5 && !s[n] && atoi(s) > 0 && atoi(s) <= UINT16_MAX;
}

/* Prints an address as the configuration has it. Returns false if it is invalid. */
static bool print_address(const char *host, const char *port, char *out, size_t n)
{
	bool is_v6 = strchr(host, ':');

	/* If the text is cut off, address_is_remote() fails, because the host is too long. */
	snprintf(out, n, is_v6 ? "[%s]:%s" : "%s:%s", host, port);
	return is_port(port) && *host && address_is_remote(out);
}

static void read_others(struct sentinel_answer *a, const redisReply *r)
{
	char name[sizeof(a->name)];

	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++) {
		const char *host = reply_value(r->element[i], "ip");
		const char *port = reply_value(r->element[i], "port");
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
	                                        : "hasp does not understand its reply";
	if (named->type != REDIS_REPLY_ARRAY || named->elements != 2 ||
	    pair[0]->type != REDIS_REPLY_STRING || pair[1]->type != REDIS_REPLY_STRING ||
	    !print_address(pair[0]->str, pair[1]->str, a->name, sizeof(a->name)))
		return -1;
	return 0;
}

int sentinel_read(struct sentinel_answer *a, redisReply *const *replies, const char **why)
{
	const char *epoch = reply_value(replies[1], "config-epoch");

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

/* Returns the sentinel's index in `configured`; -1: the configuration does not name it. */
static int configured_number(const struct sentinels *s, const char *name)
{
	return find_name(s->configured, s->nconfigured, name);
}

static bool is_named(const struct sentinel_answer *a, const char *name)
{
	return find_name(a->others, a->nothers, name) >= 0;
}

static void sentinels_add_others(struct sentinels *s, const struct sentinel_answer *a)
{
	for (size_t i = 0; i < a->nothers; i++)
		sentinels_add(s, a->others[i]);
}

/* --- which answer counts ------------------------------------------------------------------ */

static bool needs_second(const struct sentinels *s)
{
	return s->n >= 3;
}

static void note_named(struct sentinels *s, int number, const struct sentinel_answer *a)
{
	for (size_t i = 0; i < s->n; i++)
		if (number >= 0 && number < 32 && is_named(a, s->names[i]))
			s->named_by[i] |= UINT32_C(1) << number;
}

/* True if sentinel `i` may confirm others' answers. If only one sentinel is configured, any
 * may: hasp knows the others only from that sentinel. */
static bool may_confirm(const struct sentinels *s, size_t i)
{
	uint32_t by = s->named_by[i];

	return s->nconfigured < 2 || configured_number(s, s->names[i]) >= 0 || (by & (by - 1));
}

/* Records the answer of the sentinel that was asked last. */
static const struct sentinel_word *note_word(struct sentinels *s,
                                             const struct sentinel_answer *a)
{
	struct sentinel_word *word = &s->words[s->nwords++];
	size_t by = s->asked - 1;

	*word = (struct sentinel_word){ .by = s->names[by],
		                        .confirms = may_confirm(s, by),
		                        .epoch = a->epoch };
	snprintf(word->primary, sizeof(word->primary), "%s", a->name);
	note_named(s, configured_number(s, s->names[by]), a);
	return word;
}

/* Other answers confirm `word` if they name the same primary. Returns the greatest epoch of
 * these that is at least `least`; -1: there is none. */
static int64_t confirmed_epoch(const struct sentinels *s, const struct sentinel_word *word,
                               int64_t least)
{
	int64_t epoch = -1;

	for (size_t i = 0; i < s->nwords && word->confirms; i++) {
		const struct sentinel_word *other = &s->words[i];
		if (other != word && other->confirms && other->epoch >= least &&
		    other->epoch > epoch && strcmp(other->primary, word->primary) == 0)
			epoch = other->epoch;
	}
	return epoch;
}

static int64_t least_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool is_newer_named(const struct sentinels *s, const struct sentinel_word *word)
{
	for (size_t i = 0; i < s->nwords; i++)
		if (s->words[i].epoch > word->epoch &&
		    strcmp(s->words[i].primary, word->primary) != 0)
			return true;
	return false;
}

/* Orders the sentinels: first the one that answered, then those after it, then those before it.
 * Drops sentinels that neither the answer nor the configuration names. */
static void sentinels_learn(struct sentinels *s, size_t answered,
                            const struct sentinel_answer *a)
{
	char *names[SENTINELS_MAX] = { NULL };
	uint32_t named_by[SENTINELS_MAX] = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		size_t at = (answered + i) % s->n;
		char *name = s->names[at];
		if (i == 0 || configured_number(s, name) >= 0 || is_named(a, name)) {
			named_by[n] = s->named_by[at];
			names[n++] = name;
		} else {
			free(name);
		}
	}
	memcpy(s->names, names, n * sizeof(*names));
	memcpy(s->named_by, named_by, n * sizeof(*named_by));
	s->n = n;
	sentinels_add_others(s, a);
	note_named(s, configured_number(s, s->names[0]), a);
}

void sentinels_note(struct sentinels *s, const struct sentinel_answer *a)
{
	HASP_ASSERT(s->asked > 0);
	sentinels_add_others(s, a);
	(void)note_word(s, a);
}

const struct sentinel_word *sentinels_newest(struct sentinels *s)
{
	const struct sentinel_word *newest = NULL;

	for (size_t i = 0; i < s->nwords; i++) {
		const struct sentinel_word *word = &s->words[i];
		int64_t epoch = needs_second(s)
		                        ? least_of(word->epoch, confirmed_epoch(s, word, 0))
		                        : word->epoch;
		if (epoch <= s->epoch)
			continue;
		s->epoch = epoch;
		newest = word;
	}
	return newest;
}

const char *sentinels_take(struct sentinels *s, const struct sentinel_answer *a,
                           const char *primary)
{
	const struct sentinel_word *word;
	bool is_known = primary && strcmp(a->name, primary) == 0;
	int64_t second;

	HASP_ASSERT(s->asked > 0);
	word = note_word(s, a);
	if (a->epoch < s->epoch && ++s->nbehind * 2 <= s->n)
		return "it reports a primary from before the last failover";
	second = confirmed_epoch(s, word, least_of(s->epoch, a->epoch));
	if (second < 0 && needs_second(s)) {
		s->named_known |= is_known;
		if (!is_known || is_newer_named(s, word))
			return "no other sentinel names the same primary";
	}
	s->epoch = second < 0 ? a->epoch : least_of(second, a->epoch);
	sentinels_learn(s, s->asked - 1, a);
	return NULL;
}
