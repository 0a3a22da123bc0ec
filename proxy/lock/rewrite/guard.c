/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/rewrite/guard.h"

#include <ctype.h>
#include <stdlib.h>

#include "commands/args.h"
#include "resp/write.h"

/* How many bytes of a key an error shows; as in hasp_error() in scripts/includes/errors.lua. */
#define SHOWN_MAX 128

bool rewrite_guard_fits(const struct command *c, const struct resp_view *req, bool writes,
                        bool resp3)
{
	bool safe = c->facts.lua == LUA_SAFE || (c->facts.lua == LUA_SAFE_RESP2 && !resp3);

	/* A write fits only the script for writes, other commands only the script for reads. */
	return safe && req->argc <= ARGS_UNPACK_MAX && writes == !!(c->flags & COMMAND_WRITE);
}

static int compare_keys(const void *a, const void *b)
{
	const struct guarded_key *x = a, *y = b;

	return slice_order(x->key, y->key);
}

size_t rewrite_guard_sort(struct guarded_key *keys, size_t n)
{
	size_t left = 0;

	if (n <= 1)
		return n;
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < n; i++)
		if (left == 0 || compare_keys(&keys[left - 1], &keys[i]) != 0) {
			keys[left++] = keys[i];
		} else {
			keys[left - 1].writes |= keys[i].writes;
			keys[left - 1].releases |= keys[i].releases;
		}
	return left;
}

/* True if the key is guarded, so that the call names it already. */
static bool is_guarded_key(const struct guarded_command *g, struct slice key)
{
	struct guarded_key k = { .key = key };

	return bsearch(&k, g->keys, g->n, sizeof(k), compare_keys) != NULL;
}

static size_t count_others(const struct guarded_command *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->all.n; i++)
		n += !is_guarded_key(g, g->req->argv[g->all.v[i].arg]);
	return n;
}

/* Writes the names of the key's guard and of the guard's queue to `p`, and returns the end of
 * the bytes. They take at most the space of GUARD_NAMES names. */
#define GUARD_NAMES 3
static char *put_guard_names(char *p, enum key_naming naming, struct slice key)
{
	static const enum key_name guard = KEY_NAME_GUARD;

	p = key_names_put_bulks(p, naming, key, &guard, 1);
	return key_names_put_guard_queue_bulk(p, naming, key);
}

/* Appends those of the command's keys that are not guarded. */
static void write_other_keys(struct buf *out, const struct guarded_command *g)
{
	for (size_t i = 0; i < g->all.n; i++) {
		struct slice key = g->req->argv[g->all.v[i].arg];
		if (!is_guarded_key(g, key))
			resp_write_bulk(out, key);
	}
}

/* Returns how many arguments the script gets for the command that it runs. */
static size_t count_args(const struct guarded_command *g)
{
	return g->apart ? 0 : g->req->argc;
}

static void write_command(struct buf *out, const struct guarded_command *g)
{
	for (size_t i = 0; i < count_args(g); i++)
		resp_write_bulk(out, g->req->argv[i]);
}

/* Returns the key's token for the script. If the guard was lost, returns a token that no owner
 * has, so that the script refuses the write. (The owner may have got the guard again, by a
 * grant after its waiter gave up, but its read is outdated.) */
static struct slice token_of(const struct guarded_key *k)
{
	return k->lost && k->writes ? SLICE_LIT("-") : k->token;
}

/* Returns the state of a key, as the script expects it. */
static const char *state_of(const struct guarded_key *k, enum script_id id)
{
	/* (A read that also writes the key counts as a write of a key that was read.) */
	if (!k->held || (id == SCRIPT_GUARD_READ && k->acquires && !k->writes))
		return "-";
	return k->releases ? "m" : "mk";
}

/* Writes the call of guard_read or guard_write, as guarded_key() in scripts/includes/guard.lua
 * reads it. */
static void write_guard_call(struct buf *out, enum script_id id,
                             const struct guarded_command *g, const struct rewrite_opts *opts)
{
	script_call_begin(out, id, opts, 3 * g->n + count_others(g),
	                  SCRIPT_CALL_SECRET_ARGS + 1 + SCRIPT_CALL_WAIT_ARGS + 3 * g->n +
	                          count_args(g));
	for (size_t i = 0; i < g->n; i++) {
		struct slice key = g->keys[i].key;
		char *p = buf_reserve(out, key_names_space(key, GUARD_NAMES + 1));

		p = put_guard_names(p, opts->naming, key);
		buf_added_to(out, resp_put_bulk(p, key));
	}
	write_other_keys(out, g);

	resp_write_bulk(out, opts->secret);
	resp_write_bulk_int(out, (long long)g->n);
	script_call_write_wait(out, opts, g->wait_ms);
	for (size_t i = 0; i < g->n; i++) {
		resp_write_bulk(out, token_of(&g->keys[i]));
		resp_write_bulk_int(out, g->keys[i].lease_ms);
		resp_write_bulk_str(out, state_of(&g->keys[i], id));
	}
	write_command(out, g);
}

void rewrite_guard_read(struct buf *out, const struct guarded_command *g,
                        const struct rewrite_opts *opts)
{
	write_guard_call(out, SCRIPT_GUARD_READ, g, opts);
}

static inline char *put_text(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

void rewrite_guard_optimistic(struct buf *out, const struct resp_view *req, struct slice key,
                              struct slice token, int64_t lease_ms, enum key_naming naming)
{
	static const enum key_name guard = KEY_NAME_GUARD;
	static const char exists[] = "*2\r\n$6\r\nEXISTS\r\n", set[] = "*6\r\n$3\r\nSET\r\n",
			  nx_px[] = "$2\r\nNX\r\n$2\r\nPX\r\n";
	char *p = buf_reserve(out, sizeof(exists) + sizeof(set) + sizeof(nx_px) +
	                                   key_names_space(key, GUARD_NAMES) + RESP_BULK_SPACE +
	                                   token.n + RESP_BULK_INT_SPACE);

	p = put_text(p, exists, sizeof(exists) - 1);
	p = key_names_put_guard_queue_bulk(p, naming, key);
	p = put_text(p, set, sizeof(set) - 1);
	p = key_names_put_bulks(p, naming, key, &guard, 1);
	p = resp_put_bulk(p, token);
	p = put_text(p, nx_px, sizeof(nx_px) - 1);
	buf_added_to(out, resp_put_bulk_int(p, lease_ms));
	resp_write_request(out, req->argv, req->argc);
}

/* True if the command is the usual write: it releases the guard of its only guarded key, which
 * the connection has read. */
static bool is_finish(const struct guarded_command *g)
{
	const struct guarded_key *k = g->keys;

	return !g->apart && g->n == 1 && k->held && k->releases;
}

static void write_finish_call(struct buf *out, const struct guarded_command *g,
                              const struct rewrite_opts *opts)
{
	struct slice key = g->keys->key, token = token_of(g->keys);
	char *p = script_call_open(out, SCRIPT_GUARD_FINISH, opts, 3 + count_others(g),
	                           SCRIPT_CALL_SECRET_ARGS + 2 + count_args(g),
	                           key_names_space(key, GUARD_NAMES + 1));

	p = put_guard_names(p, opts->naming, key);
	buf_added_to(out, resp_put_bulk(p, key));
	write_other_keys(out, g);

	p = buf_reserve(out,
	                2 * RESP_BULK_SPACE + opts->secret.n + token.n + RESP_BULK_INT_SPACE);
	p = resp_put_bulk(p, opts->secret);
	p = resp_put_bulk(p, token);
	buf_added_to(out, resp_put_bulk_int(p, g->keys->lease_ms));
	write_command(out, g);
}

/* Writes the call of check_write. */
static void write_check_call(struct buf *out, const struct guarded_command *g,
                             const struct rewrite_opts *opts)
{
	script_call_begin(out, SCRIPT_CHECK_WRITE, opts, g->n + count_others(g),
	                  SCRIPT_CALL_SECRET_ARGS + 1 + g->n + count_args(g));
	for (size_t i = 0; i < g->n; i++)
		resp_write_bulk(out, g->keys[i].key);
	write_other_keys(out, g);

	resp_write_bulk(out, opts->secret);
	resp_write_bulk_int(out, (long long)g->n);
	for (size_t i = 0; i < g->n; i++)
		resp_write_bulk(out, token_of(&g->keys[i]));
	write_command(out, g);
}

void rewrite_guard_write(struct buf *out, const struct guarded_command *g,
                         const struct rewrite_opts *opts)
{
	if (g->keys->checked)
		write_check_call(out, g, opts);
	else if (is_finish(g))
		write_finish_call(out, g, opts);
	else
		write_guard_call(out, SCRIPT_GUARD_WRITE, g, opts);
}

enum script_id rewrite_guard_release(struct buf *out, struct slice key, struct slice token,
                                     const struct rewrite_opts *opts)
{
	char *p = script_call_open(out, SCRIPT_GUARD_RELEASE, opts, 2,
	                           SCRIPT_CALL_SECRET_ARGS + 1,
	                           key_names_space(key, GUARD_NAMES));

	buf_added_to(out, put_guard_names(p, opts->naming, key));
	resp_write_bulk(out, opts->secret);
	resp_write_bulk(out, token);
	return SCRIPT_GUARD_RELEASE;
}

/* Writes a key for an error, as the scripts show it. */
static void write_shown(struct buf *out, struct slice key)
{
	buf_append(out, SLICE_LIT("'"));
	for (size_t i = 0; i < key.n && i < SHOWN_MAX; i++) {
		char c = iscntrl((unsigned char)key.p[i]) ? '?' : key.p[i];
		buf_append(out, slice_of(&c, 1));
	}
	buf_append(out, SLICE_LIT("'"));
}

void rewrite_guard_locked_error(struct buf *out, struct slice key)
{
	buf_puts(out, "-LOCKED ");
	write_shown(out, key);
	buf_puts(out, " is guarded by another owner\r\n");
}

bool rewrite_guard_is_lost(struct slice line, struct slice key)
{
	struct buf start = BUF_INIT;
	bool is_lost;

	buf_puts(&start, "-LOCKLOST ");
	write_shown(&start, key);
	is_lost = buf_len(&start) && slice_starts(line, buf_slice(&start));
	buf_release(&start);
	return is_lost;
}
