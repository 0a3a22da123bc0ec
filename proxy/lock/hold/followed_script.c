/* SPDX-License-Identifier: BSD-3-Clause
 *
 * followed_script: a script that a client runs on one lock of a rule with owner = value. hasp
 * reads the lock before and after the script, in the same write. The client does not get the
 * replies to these reads.
 *
 *   GET lock   -> nil ---.
 *   PTTL lock  -> -2 ----+
 *   EVAL ...   -> "OK" --+-- feed() --> kept -------.
 *   GET lock   -> "a1" --'                           +-- end() --> the effect of the call
 *   PTTL lock  -> 30000 ----------------------------'
 *
 *   the lock before   after           effect
 *   nil, or "a0"      "a1"            TAKES, if "a1" is an argument of the call, or the integer
 *                                     that it returned; else NONE
 *   "a1"              "a1"            EXPIRES, if the expiry has changed; else NONE
 *   "a1"              nil             DROPS
 *
 * Other clients' commands may run between these five: Redis may read them in two pieces, and in
 * a cluster hasp sends each one separately. So a value that the call does not contain begins no
 * hold.
 */
#include "lock/hold/hold_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "commands/args.h"
#include "resp/write.h"

/* The replies to GET, PTTL, the script, and the second GET, in this order. */
enum { READ_BEFORE, PTTL_BEFORE, ANSWER, READ_AFTER, REPLIES };

/* If the expiry differs between the reads by more than this, in ms, the script has set it.
 * (Redis' clock and hasp's may run at different speeds.) */
#define EXPIRY_MOVED_MS 50

/* How many bytes hasp keeps of a reply: a header, a value and its line end. */
#define REPLY_KEPT (SEEN_VALUE_MAX + 32)

struct followed_script {
	size_t nreplies; /* number of complete replies */
	size_t nargs; /* where the arguments in `bytes` end */
	size_t ends[REPLIES]; /* where each reply in `bytes` ends */
	struct buf bytes; /* the script's arguments, each after its length; then the first
	                   * REPLY_KEPT bytes of each reply */
};

struct followed_script *followed_script_new(const struct slice *args, size_t nargs)
{
	struct followed_script *f = xcalloc(1, sizeof(*f));

	for (size_t i = 0; i < nargs && i < FOLLOWED_ARGS_MAX; i++) {
		if (args[i].n == 0 || args[i].n > SEEN_VALUE_MAX)
			continue;
		buf_append(&f->bytes, slice_of((const char *)&args[i].n, sizeof(args[i].n)));
		buf_append(&f->bytes, args[i]);
	}
	f->nargs = buf_len(&f->bytes);
	return f;
}

void followed_script_free(struct followed_script *f)
{
	buf_release(&f->bytes);
	free(f);
}

size_t followed_script_nbytes(const struct followed_script *f)
{
	return sizeof(*f) + buf_cap(&f->bytes);
}

static void write_reads(struct buf *out, struct slice key)
{
	buf_append(out, SLICE_LIT("*2\r\n$3\r\nGET\r\n"));
	resp_write_bulk(out, key);
	buf_append(out, SLICE_LIT("*2\r\n$4\r\nPTTL\r\n"));
	resp_write_bulk(out, key);
}

void followed_script_write(const struct lock_request *p, struct slice request, struct buf *out)
{
	write_reads(out, p->keys[0]);
	buf_append(out, request);
	write_reads(out, p->keys[0]);
}

/* Returns where reply number `i` begins in f->bytes. */
static size_t reply_start(const struct followed_script *f, size_t i)
{
	return i ? f->ends[i - 1] : f->nargs;
}

void followed_script_feed(struct lock_request *p, struct slice bytes, bool ended)
{
	struct followed_script *f = p->followed;
	size_t space = REPLY_KEPT - (buf_len(&f->bytes) - reply_start(f, f->nreplies));

	HASP_ASSERT(f->nreplies < REPLIES);
	buf_append(&f->bytes, slice_of(bytes.p, bytes.n < space ? bytes.n : space));
	if (ended)
		f->ends[f->nreplies++] = buf_len(&f->bytes);
}

static struct slice reply_of(const struct followed_script *f, size_t i)
{
	size_t at = reply_start(f, i);

	return slice_of(buf_head(&f->bytes) + at, f->ends[i] - at);
}

bool followed_script_failed(const struct lock_request *p)
{
	const struct followed_script *f = p->followed;

	return f && f->nreplies > ANSWER && slice_starts(reply_of(f, ANSWER), SLICE_LIT("-"));
}

/* Reads a reply to GET: writes the string, or SLICE_NONE for nil. False: the reply is something
 * else, or the string is too long. */
static bool read_value(struct slice reply, struct slice *value)
{
	const char *end = memchr(reply.p, '\n', reply.n); /* NOLINT(clang-analyzer-core.*) */

	*value = SLICE_NONE;
	if (!end || (*reply.p != '$' && *reply.p != '_'))
		return false;
	if (*reply.p == '_' || reply.p[1] == '-')
		return true;
	*value = slice_of(end + 1, (size_t)(reply.p + reply.n - end) - 3);
	return value->n <= SEEN_VALUE_MAX;
}

/* True if the lock's value is an argument of the call, or the integer that the script returned:
 * some scripts compute the time at which the lock ends, and store that. */
static bool is_of_call(const struct followed_script *f, struct slice value)
{
	struct slice args = slice_of(buf_head(&f->bytes), f->nargs);
	struct slice answer = reply_of(f, ANSWER);
	size_t n;

	for (; args.n; args = slice_of(args.p + n, args.n - n)) {
		memcpy(&n, args.p, sizeof(n));
		args = slice_of(args.p + sizeof(n), args.n - sizeof(n));
		if (slice_eq(slice_of(args.p, n), value))
			return true;
	}
	/* `:1700000060\r\n` */
	return answer.n == value.n + 3 && *answer.p == ':' &&
	       slice_eq(slice_of(answer.p + 1, value.n), value);
}

/* True if the script has set another expiry. `left_ms`: PTTL's reply after the script;
 * `passed_ms`: the longest time that may have passed between the reads. */
static bool moved_expiry(struct lock_request *p, int64_t left_ms, double passed_ms)
{
	struct slice reply = reply_of(p->followed, PTTL_BEFORE);
	int64_t before_ms;

	if (*reply.p != ':' || left_ms < 0 ||
	    !slice_integer(slice_of(reply.p + 1, reply.n - 3), &before_ms))
		return false;
	if (before_ms < 0)
		p->moved = EXPIRY_ADDED;
	else if (left_ms > before_ms + EXPIRY_MOVED_MS)
		p->moved = EXPIRY_LATER;
	return p->moved != EXPIRY_EARLIER ||
	       (double)left_ms + passed_ms + EXPIRY_MOVED_MS < (double)before_ms;
}

/* Records that the lock has, or had, `value`, and expires in `left_ms`; -1: never. */
static void set_lock(struct lock_request *p, struct slice value, int64_t left_ms)
{
	token_release(p->token);
	p->token = token_new(value);
	p->leased = left_ms >= 0;
	p->lease_ms = left_ms < 0 ? 0 : left_ms ? left_ms : 1;
	p->ends_ms = p->lease_ms;
}

void followed_script_end(struct lock_request *p, const struct resp_reply *pttl,
                         double passed_ms)
{
	const struct followed_script *f = p->followed;
	struct slice before, after;

	if (f->nreplies < REPLIES || pttl->type != ':' ||
	    !read_value(reply_of(f, READ_BEFORE), &before) ||
	    !read_value(reply_of(f, READ_AFTER), &after))
		return;
	if (!after.p && before.p) {
		p->effect = LOCK_EFFECT_DROPS;
		set_lock(p, before, -1);
	}
	/* -2: the lock has expired after the GET. */
	if (!after.p || pttl->integer < -1)
		return;
	if (before.p && slice_eq(before, after)) {
		set_lock(p, after, pttl->integer);
		if (moved_expiry(p, pttl->integer, passed_ms))
			p->effect = LOCK_EFFECT_EXPIRES;
	} else if (is_of_call(f, after)) {
		set_lock(p, after, pttl->integer);
		p->effect = LOCK_EFFECT_TAKES;
	}
}
