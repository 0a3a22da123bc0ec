/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/guard/checked_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/sha1.h"

/* How many bytes hasp keeps of a reply's line, which is a header or an error. */
#define LINE_KEPT 24

struct checked_key {
	size_t i; /* index among the command's keys */
	size_t at, n; /* position and length of the key in `names` */
	struct section_stats *stats;
	bool known; /* hasp has read the whole value, and `digest` is its digest */
	uint8_t ndigest; /* length of `digest`; 0: the key has no value */
	char digest[SHA1_HEX + 1];
};

struct checked_read {
	struct read_sets *table;
	struct read_set *read_set;
	int db;
	bool writes; /* the command writes the keys: see checked_read_new() */
	bool each;
	bool completed;
	uint64_t left; /* bytes of the current value and its line end that are still to come */
	bool digests; /* the next write needs a digest of the current value */
	size_t value; /* index of the current or next value in the reply */
	uint8_t nline; /* bytes in `line` */
	char line[LINE_KEPT]; /* the header that is being read, or was read last */
	struct sha1 sha1; /* digests the value that is being read */
	size_t next; /* index in `keys` of the key whose value comes next */
	size_t nkeys;
	struct checked_key *keys;
	struct buf names;
};

struct checked_read *checked_read_new(struct read_sets *table, struct read_set *r, int db,
                                      bool each, bool writes)
{
	struct checked_read *c = xcalloc(1, sizeof(*c));

	c->table = table;
	c->read_set = r;
	c->db = db;
	c->each = each;
	c->writes = writes;
	return c;
}

void checked_read_add(struct checked_read *c, size_t i, struct slice key,
                      struct section_stats *stats)
{
	/* Double the array at each power of two. */
	if ((c->nkeys & (c->nkeys - 1)) == 0)
		c->keys = xrealloc(c->keys, (c->nkeys ? 2 * c->nkeys : 1) * sizeof(*c->keys));
	c->keys[c->nkeys++] = (struct checked_key){
		.i = i, .at = buf_len(&c->names), .n = key.n, .stats = stats
	};
	buf_append(&c->names, key);
}

/* Returns the key whose value is being read; NULL: that key is not checked. */
static struct checked_key *wanted(const struct checked_read *c)
{
	if (c->next == c->nkeys || (c->each && c->keys[c->next].i != c->value))
		return NULL;
	return &c->keys[c->next];
}

/* Ends a value. `known`: `digest` is the digest of the whole value. */
static void end_value(struct checked_read *c, bool known, const char *digest)
{
	struct checked_key *k = wanted(c);

	c->value++;
	if (!k)
		return;
	c->next++;
	k->known = known;
	k->ndigest = (uint8_t)strlen(digest);
	memcpy(k->digest, digest, k->ndigest);
}

static void end_line(struct checked_read *c)
{
	long long n;

	if (*c->line == '*' && c->each && c->value == 0)
		return;
	if (*c->line != '$' && *c->line != '_') { /* the line is an error */
		end_value(c, false, "");
		return;
	}
	n = *c->line == '$' ? strtoll(c->line + 1, NULL, 10) : -1;
	if (n < 0) {
		end_value(c, true, c->each ? READ_SET_NO_STRING : "");
		return;
	}
	c->left = (uint64_t)n + 2;
	c->digests = n <= CHECKED_VALUE_MAX && wanted(c);
	if (c->digests)
		sha1_begin(&c->sha1);
}

/* Reads bytes of a header. Returns how many. */
static size_t digest_line(struct checked_read *c, struct slice bytes)
{
	const char *end = memchr(bytes.p, '\n', bytes.n);
	size_t n = end ? (size_t)(end - bytes.p) : bytes.n;
	size_t space = sizeof(c->line) - 1 - c->nline;

	memcpy(c->line + c->nline, bytes.p, n < space ? n : space);
	c->nline += (uint8_t)(n < space ? n : space);
	if (!end)
		return n;
	c->line[c->nline] = '\0';
	c->nline = 0;
	end_line(c);
	return n + 1;
}

/* Reads bytes of a value and its line end. Returns how many. */
static size_t digest_value(struct checked_read *c, struct slice bytes)
{
	size_t n = bytes.n < c->left ? bytes.n : (size_t)c->left;
	uint64_t value = c->left > 2 ? c->left - 2 : 0;
	char digest[SHA1_HEX + 1] = "";

	if (c->digests)
		sha1_add(&c->sha1, bytes.p, n < value ? n : (size_t)value);
	c->left -= n;
	if (c->left)
		return n;
	if (c->digests)
		sha1_end_hex(&c->sha1, digest);
	end_value(c, c->digests, digest);
	return n;
}

void checked_read_feed(struct checked_read *c, struct slice bytes)
{
	while (bytes.n && !c->writes) {
		size_t n = c->left ? digest_value(c, bytes) : digest_line(c, bytes);
		bytes = slice_of(bytes.p + n, bytes.n - n);
	}
}

static struct slice checked_name(const struct checked_read *c, const struct checked_key *k)
{
	return slice_of(buf_head(&c->names) + k->at, k->n);
}

/* Redis has run the transaction's write of the keys: ends earlier reads of them. */
static void end_reads(const struct checked_read *c, int db)
{
	for (size_t i = 0; i < c->nkeys; i++) {
		struct read_set_entry *e = read_set_find(c->table, c->read_set, db,
		                                         checked_name(c, &c->keys[i]));
		if (e && e->checked && e->read)
			read_set_entry_over(e);
	}
}

/* Stores each known digest; the read of any other key counts as failed. */
static void store_digests(const struct checked_read *c, int db)
{
	for (size_t i = 0; i < c->nkeys; i++) {
		const struct checked_key *k = &c->keys[i];
		struct slice digest = slice_of(k->digest, k->ndigest);

		if (!k->known)
			read_set_check_failed(c->table, c->read_set, db, checked_name(c, k),
			                      k->stats);
		else if (read_set_checked(c->table, c->read_set, db, checked_name(c, k),
		                          k->stats, digest))
			stats_add(k->stats, STAT_ACQUIRED);
	}
}

/* True if the line is an error after which no read counts as failed. After WRONGTYPE, the
 * client knows that the key is no string. After NOAUTH, it must log in before it can write. */
static bool leaves_no_mark(const char *line)
{
	return strncmp(line, "-WRONGTYPE ", 11) == 0 || strncmp(line, "-NOAUTH ", 8) == 0;
}

void checked_read_complete(struct checked_read *c, int db, const struct resp_reply *reply,
                           struct slice frame)
{
	bool failed = resp_reply_is_error(reply);

	c->completed = true;
	checked_read_feed(c, frame);
	if (c->writes && !failed)
		end_reads(c, db);
	if (!c->writes && !(failed && leaves_no_mark(c->line)))
		store_digests(c, db);
}

void checked_read_forget(struct checked_read *c)
{
	c->completed = true;
}

size_t checked_read_nbytes(const struct checked_read *c)
{
	return sizeof(*c) + c->nkeys * sizeof(*c->keys) + buf_cap(&c->names);
}

void checked_read_free(struct checked_read *c)
{
	if (!c->completed && !c->writes && !c->read_set->ended)
		store_digests(c, c->db);
	buf_release(&c->names);
	free(c->keys);
	free(c);
}
