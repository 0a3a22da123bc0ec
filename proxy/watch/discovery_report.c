/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_report: writes the ini file of discovery: what hasp watched, the sections that it
 * proposes, and the patterns that need none. It works on a snapshot of the sums, because
 * merging thousands of patterns takes a while and no client's command may wait for that.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/discovery.h"
#include "watch/tracker_internal.h"

#define NAME_MAX_SIZE 48

/* --- the snapshot ------------------------------------------------------------------------- */

/* Sums up the holds that are over. copy_key_pattern() adds those that clients still have. */
static void end_holds(struct tracker *d, double now)
{
	map_each (&d->keys, node) {
		struct key *k = container_of(node, struct key, node);

		list_drain (struct held_lock, h, &k->holds, in_key) {
			if (h->state != HOLD_HELD)
				tracker_hold_end(d, h, now);
		}
	}
}

static void *copy_of(const void *sums, size_t n)
{
	return sums ? xmemdup(sums, n) : NULL;
}

static void copy_key_pattern(struct discovery_snapshot *snapshot, const struct key_group *from)
{
	struct key_group *s = &snapshot->key_patterns[snapshot->n++];

	*s = *from;
	list_init(&s->keys);
	s->node.key = slice_dup(from->node.key);
	s->lock = copy_of(from->lock, sizeof(*s->lock));
	s->guard = copy_of(from->guard, sizeof(*s->guard));
	if (s->guard && s->guard->near)
		s->near = slice_dup(s->guard->near->node.key);
	if (s->lock)
		tracker_add_open_holds(s->lock, from, snapshot->now);
}

struct discovery_snapshot *discovery_snapshot_new(struct tracker *d, bool so_far, double now)
{
	struct discovery_snapshot *s = xcalloc(1, sizeof(*s));

	if (!so_far)
		end_holds(d, now);
	s->now = now;
	s->seconds = now - d->began;
	s->nclients = d->ncounted;
	s->passed_over = d->passed_over;
	s->passed_by = sampling_passed(d->sampling);
	memcpy(s->secret, d->secret, sizeof(s->secret));
	s->key_patterns = xcalloc(d->key_patterns.n + 1, sizeof(*s->key_patterns));
	map_each (&d->key_patterns, node)
		copy_key_pattern(s, container_of(node, struct key_group, node));
	return s;
}

void discovery_snapshot_free(struct discovery_snapshot *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free((char *)s->key_patterns[i].node.key.p);
		free(s->key_patterns[i].lock);
		free(s->key_patterns[i].guard);
		free((char *)s->key_patterns[i].near.p);
	}
	free(s->key_patterns);
	free(s);
}

/* --- names of sections -------------------------------------------------------------------- */

/* Writes the pattern's words other than "lock" and "mutex" to `name`. Returns the length. */
static size_t put_words(char *name, struct slice pattern)
{
	size_t n = 0, at = 0, end;

	for (; at < pattern.n; at = end) {
		struct slice word;
		while (at < pattern.n && !isalnum((unsigned char)pattern.p[at]))
			at++;
		for (end = at; end < pattern.n && isalnum((unsigned char)pattern.p[end]); end++)
			;
		word = slice_of(pattern.p + at, end - at);
		if (word.n == 0 || slice_is(word, "lock") || slice_is(word, "mutex") ||
		    n + word.n + 2 > NAME_MAX_SIZE / 2)
			continue;
		if (n)
			name[n++] = '-';
		memcpy(name + n, word.p, word.n);
		n += word.n;
	}
	name[n] = '\0';
	return n;
}

struct section_names {
	const struct discovery_result *result;
	bool are_guards;
	char (*v)[NAME_MAX_SIZE];
	size_t n;
};

static bool is_name_taken(const struct section_names *given, const char *name)
{
	const struct discovery_result *r = given->result;

	for (size_t i = 0; i < given->n; i++)
		if (strcmp(given->v[i], name) == 0)
			return true;
	return r->has_section && r->has_section(r->arg, given->are_guards, name);
}

/* Makes a name for the pattern's section that no other section has. */
static const char *name_section(struct section_names *given, struct slice pattern)
{
	char *name = given->v[given->n];
	size_t n = put_words(name, pattern);
	int same = 1;

	if (n == 0)
		n = (size_t)snprintf(name, NAME_MAX_SIZE, "all");
	while (is_name_taken(given, name))
		snprintf(name + n, NAME_MAX_SIZE - n, "-%d", ++same);
	given->n++;
	return name;
}

/* --- the parts ---------------------------------------------------------------------------- */

static void put_head(struct buf *out, const struct discovery_snapshot *s,
                     const struct discovery_result *r)
{
	buf_printf(out,
	           "; hasp watched %s for %s: %s on keys, from %s.\n"
	           "; The sections below change nothing yet: mode = observe counts and logs "
	           "what they would do.\n"
	           "; When that is what you expect, write mode = enforce.\n",
	           r->address, TIME(s->seconds), COUNT(r->commands, "command"),
	           COUNT(s->nclients, "connection"));
	if (s->passed_by)
		buf_printf(out,
		           "; Where keys were neither locked nor read and written back, hasp "
		           "looked at samples only: it skipped %s.\n",
		           COUNT(s->passed_by, "command"));
	if (s->passed_over)
		buf_printf(
			out,
			"; Not followed, for lack of memory, or because keys are too long or "
			"have too many patterns: the keys of %s.\n"
			"; Numbers of keys are estimates, all others are lower bounds.\n",
			COUNT(s->passed_over, "command"));
	buf_puts(out, "\n");
	if (r->listen)
		buf_printf(out, "[hasp]\nlisten = %s\n\n[upstream]\naddress = %s\n\n",
		           r->listen, r->address);
}

#define CURE_OF_LOOKS                                                                          \
	"Let the application decide by the reply to the change,\n"                             \
	";     or read and change in one script, in a transaction after WATCH, or under a "    \
	"lock.\n"                                                                              \
	";     In brackets, how often another client had changed the key since the read:"

/* The lines about patterns that hasp only counts, in the order of enum other. */
static const char *const others[] = {
	"of keys that a section in force covers",
	"of keys that a client found missing, set, and deleted later. If they are locks, "
	"two clients get in when both look before one sets it.\n"
	";     Use SET with NX and an expiry, in the application: a section could only "
	"answer the second SET with -LOCKED.\n"
	";     In brackets, how often another client had set the key since the look:",
	"of lists that a client read, deleted and filled again: a lost update if another "
	"client had changed the list since the read.\n"
	";     If DEL and RPUSH are in one MULTI, a guard with acquire_on = LRANGE "
	"prevents that; each LRANGE without them keeps it until its lease ends.\n"
	";     In brackets, how often another client had changed the list since the read:",
	"of keys as leaders use them, set by NX and prolonged or set again, that two "
	"clients may have had at once:\n"
	";     a client used its key after the expiry, when another one had it already. "
	"Until then, both may have led.\n"
	";     Let a leader stop, by its own clock, before the expiry that it asked for, "
	"or let the server that it writes to\n"
	";     reject an older leader, by a fencing token",
	"of keys that were set by NX, and that hasp did not see released: markers, not "
	"locks, or every holder died",
	"of keys that were set by NX, prolonged or set again, and never released, as "
	"leaders do, or clients that store a result:\n"
	";     hasp learns only from releases who owns a lock. It does not see a leader "
	"that goes on after the expiry without using its key",
	"of keys that scripts use: hasp sees the lock of a script only if the script "
	"stores a new string each time,\n"
	";     and a script or the holder compares that string before the release",
	"of keys that several clients found missing and then set, the last one over the "
	"others: a cache may do so;\n"
	";     where the first value has to stay, use SET with NX, and read the value that "
	"stayed",
	"of keys that one connection reads and another one of its address or name writes:\n"
	";     hasp does not know whether the value that is written comes from that read, "
	"and a guard holds for one connection only",
	"of keys that clients changed, as by DECR or SADD, when they had read certain "
	"numbers, and left when they had read others, as a stock of 0.\n"
	";     If the change depends on the read, two clients that read at once both make "
	"it. " CURE_OF_LOOKS,
	"of counters that clients read and then lowered. hasp did not see whether that "
	"depends on the number that they read.\n"
	";     If it does, two clients that read at once both lower the "
	"counter. " CURE_OF_LOOKS,
	"of other keys: no lock was taken there, and no value was read and written back",
};
enum other {
	COVERED,
	LOOKED,
	REFILLED,
	OVERLAPPED,
	MARKERS,
	LEADERS,
	SCRIPTED,
	RACED,
	HOPPED,
	DEPENDENT,
	LOWERED,
	REST,
	OTHERS
};

/* Returns how often hasp saw on the keys what the line of `o` says; 0: the line shows no
 * numbers. */
static uint64_t other_times(enum other o, const struct key_group *s)
{
	return o == LOOKED                      ? s->raced
	       : o == REFILLED                  ? s->refilled_stale
	       : o == OVERLAPPED                ? s->lock->n[SEEN_OVERLAPPED]
	       : o == DEPENDENT || o == LOWERED ? s->acted_late
	                                        : 0;
}

/* True if the keys seem to be locks that clients take by a read and a SET: at least half of the
 * clients that found no key and set it also deleted it, and few of them read it. Clients of a
 * cache do not delete the key. */
static bool is_looked(const struct key_group *s)
{
	return s->looked > 0 && 2 * s->looked >= s->filled && s->reread < s->looked;
}

/* True if clients change the keys after a look, and the first two that do so at once may both
 * act on what they saw. */
static bool is_acted(const struct key_group *s)
{
	return s->acted_late > 0 || s->acted_in_turn >= IN_TURN_ENOUGH;
}

static enum other other_of(const struct key_group *s)
{
	bool by_nx = s->lock && s->lock->taken[WAY_SETNX] + s->lock->taken[WAY_SET_NX];

	if (s->covered)
		return COVERED;
	if (is_looked(s))
		return LOOKED;
	if (s->refilled)
		return REFILLED;
	if (by_nx && s->lock->n[SEEN_PROLONGED] && !verdict_is_lock(s))
		return s->lock->n[SEEN_OVERLAPPED] ? OVERLAPPED : LEADERS;
	if (is_acted(s) && verdict_depends(s))
		return DEPENDENT;
	if (s->acted_late && 2 * s->lowered >= s->acted)
		return LOWERED;
	return s->nscripted ? SCRIPTED
	       : by_nx      ? MARKERS
	       : s->raced   ? RACED
	       : s->hopped  ? HOPPED
	                    : REST;
}

/* A line names at most this many patterns, of at most this many bytes together. */
#define OTHERS_NAMED 3
#define NAMED_MAX 150

/* True if a line about `o` names the keys `a` before `b`. The most frequent come first. */
static bool is_named_before(enum other o, const struct key_group *a, const struct key_group *b)
{
	uint64_t m = other_times(o, a), n = other_times(o, b);

	return m == n ? slice_order(a->node.key, b->node.key) <= 0 : m > n;
}

/* Keeps the pattern if it is one of the first that a line about `o` names. */
static void name_first(const struct key_group **first, const struct key_group *s, enum other o)
{
	for (size_t i = 0; i < OTHERS_NAMED; i++) {
		const struct key_group *other = first[i];
		if (other && is_named_before(o, other, s))
			continue;
		first[i] = s;
		if (!other)
			return;
		s = other;
	}
}

/* Names patterns in one line of the ini file, which must not be too long. */
static void put_first(struct buf *out, const struct key_group *const *first, enum other o)
{
	const char *before = ";     such as ";
	bool has_times = (o > COVERED && o <= OVERLAPPED) || o == DEPENDENT || o == LOWERED;
	size_t n = 0;

	for (size_t i = 0; i < OTHERS_NAMED && first[i]; i++) {
		struct slice name = first[i]->node.key;
		if (n + name.n > NAMED_MAX)
			continue;
		buf_printf(out, "%s%.*s", before, (int)name.n, name.p);
		if (has_times)
			buf_printf(out, " (%s)", COUNT(other_times(o, first[i]), "time"));
		before = ", ";
		n += name.n;
	}
	buf_puts(out, n ? "\n" : "");
}

static void put_others(struct buf *out, const struct discovery_snapshot *all)
{
	uint64_t n[OTHERS] = { 0 };
	const struct key_group *first[OTHERS][OTHERS_NAMED] = { 0 };

	for (size_t i = 0; i < all->n; i++) {
		const struct key_group *s = &all->key_patterns[i];
		enum other o = other_of(s);
		if (o > OVERLAPPED && (verdict_is_lock(s) || verdict_is_guard(s)))
			continue;
		n[o]++;
		name_first(first[o], s, o);
	}
	for (size_t i = 0; i < OTHERS; i++) {
		if (n[i])
			buf_printf(out, ";   %s %s\n", COUNT(n[i], "pattern"), others[i]);
		if (i != COVERED && i != REST)
			put_first(out, first[i], (enum other)i);
	}
}

/* Marks patterns that a section in force matches: hasp watched them before it had the
 * section. */
static void mark_covered(struct discovery_snapshot *all, const struct discovery_result *r)
{
	for (size_t i = 0; r->covers && i < all->n; i++) {
		struct key_group *s = &all->key_patterns[i];

		s->covered = r->covers(r->arg, slice_of(s->sample, s->nsample));
	}
}

/* Writes sections to `out`, and the patterns without one to `left`. */
static void put_findings(struct buf *out, struct buf *left, const struct discovery_snapshot *s,
                         const struct discovery_result *r, enum finding_kind kind)
{
	size_t n;
	struct finding *found = discovery_find(s, kind, &n);
	struct section_names given = { r, kind == FINDING_GUARD, NULL, 0 };

	given.v = xcalloc(n + 1, sizeof(*given.v));
	for (size_t i = 0; i < n; i++) {
		struct finding *f = &found[i];
		if (!r->examples)
			f->example = NULL;
		if (kind == FINDING_LOCK && !discovery_lock_is_proposed(f))
			discovery_put_lock_left(left, f);
		else if (kind == FINDING_LOCK)
			discovery_put_lock(out, f,
			                   name_section(&given, buf_slice(&f->pattern)));
		else if (!discovery_guard_is_proposed(f))
			discovery_put_guard_left(left, f);
		else
			discovery_put_guard(out, f,
			                    name_section(&given, buf_slice(&f->pattern)));
	}
	free(given.v);
	discovery_findings_free(found, n);
}

void discovery_report(struct discovery_snapshot *s, const struct discovery_result *r,
                      struct buf *out)
{
	struct buf left = BUF_INIT;

	mark_covered(s, r);
	put_head(out, s, r);
	put_findings(out, &left, s, r, FINDING_LOCK);
	put_findings(out, &left, s, r, FINDING_GUARD);
	put_others(&left, s);
	if (buf_len(&left)) {
		buf_puts(out, "; Examined, without a section:\n");
		buf_append(out, buf_slice(&left));
	}
	buf_release(&left);
}

/* --- progress ----------------------------------------------------------------------------- */

static void add_progress(struct discovery_progress *p, const struct key_group *s)
{
	struct lock_verdict v;

	if (verdict_is_lock(s)) {
		p->locks++;
		v = lock_verdict(s->lock);
		if (!verdict_may_count(s->lock))
			p->harm += v.stolen + v.late + s->lock->n[SEEN_BARE_STAYED];
	} else if (verdict_is_guard(s)) {
		p->guards++;
		p->harm += verdict_is_refresh(s->guard) ? 0 : s->guard->stale;
	}
}

void discovery_count(struct tracker *d, double now, struct discovery_progress *p)
{
	*p = (struct discovery_progress){ .seconds = now - d->began,
		                          .key_patterns = d->key_patterns.n };
	map_each (&d->key_patterns, node)
		add_progress(p, container_of(node, struct key_group, node));
}

void discovery_put_progress(const struct discovery_progress *p, struct buf *out)
{
	buf_printf(out,
	           "discover: %s, %s, %s of keys: %s of locks, %s of values written back, harm "
	           "seen %s\n",
	           TIME(p->seconds), COUNT(p->commands, "command"),
	           COUNT(p->key_patterns, "pattern"), COUNT(p->locks, "kind"),
	           COUNT(p->guards, "kind"), COUNT(p->harm, "time"));
}
