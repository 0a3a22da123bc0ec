/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client_record: what hasp knows of a client at rest, written for the hasp that takes the
 * client over. A record is an array of bulks, pairs of a name and a value. It leaves out fields
 * that have the values of a new client. The other hasp may be of another version: it takes no
 * client whose record has an unknown name.
 */
#include "client/client_internal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp/write.h"

enum record_kind {
	RECORD_FLAG, /* a bool */
	RECORD_BYTE, /* a uint8_t */
	RECORD_INT, /* an int */
	RECORD_TIME, /* a double: clock_now(), which is the same in all processes */
	RECORD_TEXT, /* a result of session_text() */
	RECORD_LOGGED_IN, /* true if session.login is LOGIN_DONE */
	RECORD_LISTENER,
	RECORD_BEHIND, /* a struct sockaddr_storage */
	RECORD_CONNECTION, /* the tokens of client.identity */
	RECORD_ADDRESS,
	RECORD_INPUT, /* the bytes of an incomplete request */
	RECORD_SEEN, /* one entry of holds.seen: "DB WHAT LENGTH KEY VALUE" */
	RECORD_CHECKED, /* as RECORD_SEEN, one checked entry of the read set: WHAT is SEEN_ANY
	                 * if the read has failed, and VALUE is the digest */
};

struct record_field {
	const char *name;
	enum record_kind kind;
	size_t at; /* kinds up to RECORD_TIME: offset in struct client. RECORD_TEXT: an enum
	            * login_text */
};

/* clang-format off */
#define FIELD(name, kind, member) { name, RECORD_##kind, offsetof(struct client, member) }
static const struct record_field fields[] = {
	{ "listener", RECORD_LISTENER, 0 },
	{ "behind", RECORD_BEHIND, 0 },
	{ "connection", RECORD_CONNECTION, 0 },
	{ "address", RECORD_ADDRESS, 0 },
	{ "input", RECORD_INPUT, 0 },
	{ "seen", RECORD_SEEN, 0 },
	{ "checked", RECORD_CHECKED, 0 },
	FIELD("since", TIME, since),
	FIELD("active_at", TIME, active_at),
	FIELD("login_from", TIME, login_from),
	FIELD("pinned", FLAG, pinned),
	FIELD("uncounted", FLAG, needs_wait_ping),
	FIELD("served", FLAG, saw_success),
	FIELD("in_error", FLAG, in_error),
	FIELD("db", INT, session.db),
	FIELD("protocol", BYTE, session.proto),
	{ "user", RECORD_TEXT, TEXT_USER },
	{ "password", RECORD_TEXT, TEXT_PASSWORD },
	{ "name", RECORD_TEXT, TEXT_NAME },
	{ "lib_name", RECORD_TEXT, TEXT_LIB_NAME },
	{ "lib_version", RECORD_TEXT, TEXT_LIB_VER },
	{ "logged_in", RECORD_LOGGED_IN, 0 },
	FIELD("by_hello", FLAG, session.by_hello),
};
/* clang-format on */
#define FIELDS (sizeof(fields) / sizeof(*fields))

/* --- writing ------------------------------------------------------------------------------ */

/* Returns the value of the field; SLICE_NONE if the field is as in a new client. Writes numbers
 * to `scratch`. */
static struct slice record_value(const struct client *c, const struct record_field *f,
                                 char scratch[static 64])
{
	const char *at = (const char *)c + f->at;

	switch (f->kind) {
	case RECORD_TEXT:
		return slice_str(session_text(&c->session, (enum login_text)f->at));
	case RECORD_FLAG:
		return *(const bool *)at ? SLICE_LIT("1") : SLICE_NONE;
	case RECORD_BYTE:
		snprintf(scratch, 64, "%d", *(const uint8_t *)at);
		return slice_str(scratch);
	case RECORD_INT:
		snprintf(scratch, 64, "%d", *(const int *)(const void *)at);
		return slice_str(scratch);
	case RECORD_TIME:
		snprintf(scratch, 64, "%.17g", *(const double *)(const void *)at);
		return slice_str(scratch);
	case RECORD_LOGGED_IN:
		return c->session.login == LOGIN_DONE ? SLICE_LIT("1") : SLICE_NONE;
	case RECORD_LISTENER:
		return slice_str(c->listener);
	case RECORD_BEHIND:
		return slice_of(c->behind, c->behind ? sizeof(*c->behind) : 0);
	case RECORD_CONNECTION:
		return c->identity ? token_slice(c->identity) : SLICE_NONE;
	case RECORD_ADDRESS:
		return c->identity ? owner_address(c->identity) : SLICE_NONE;
	case RECORD_INPUT:
		return buf_slice(&c->in);
	case RECORD_SEEN:
	case RECORD_CHECKED:
		break;
	}
	return SLICE_NONE;
}

struct seen_writer {
	struct buf *pairs;
	const char *name; /* of the field */
	size_t n;
};

static void write_seen(void *arg, int db, struct slice key, enum seen_value what,
                       struct slice value)
{
	struct seen_writer *w = arg;
	struct buf text = BUF_INIT;

	buf_printf(&text, "%d %d %zu ", db, (int)what, key.n);
	buf_append(&text, key);
	buf_append(&text, value);
	resp_write_bulk_str(w->pairs, w->name);
	resp_write_bulk(w->pairs, buf_slice(&text));
	buf_release(&text);
	w->n++;
}

static void write_checked(const struct read_set *r, struct seen_writer *w)
{
	list_each (const struct read_set_entry, e, &r->entries, node) {
		if (e->checked && e->read)
			write_seen(w, read_set_entry_db(e), read_set_entry_key(e),
			           e->lost ? SEEN_ANY : SEEN_VALUE, e->token);
	}
}

void client_record_write(const struct client *c, struct buf *out)
{
	struct buf pairs = BUF_INIT;
	struct seen_writer seen = { &pairs, "seen", 0 }, checked = { &pairs, "checked", 0 };
	char scratch[64];
	size_t n = 0;

	for (size_t i = 0; i < FIELDS; i++) {
		struct slice value = record_value(c, &fields[i], scratch);

		if (!value.p)
			continue;
		resp_write_bulk_str(&pairs, fields[i].name);
		resp_write_bulk(&pairs, value);
		n += 2;
	}
	seen_values_each(c->locks->holds.seen, write_seen, &seen);
	write_checked(&c->locks->read_set, &checked);
	resp_write_array(out, n + 2 * seen.n + 2 * checked.n);
	buf_append(out, buf_slice(&pairs));
	buf_release(&pairs);
}

/* --- reading ------------------------------------------------------------------------------ */

static const struct record_field *find_field(struct slice name)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (slice_eq(name, slice_str(fields[i].name)))
			return &fields[i];
	return NULL;
}

/* Reads a number. Returns false if `value` is no number. */
static bool record_number(struct slice value, double *number)
{
	char text[64], *end;

	if (value.n == 0 || value.n >= sizeof(text))
		return false;
	memcpy(text, value.p, value.n);
	text[value.n] = '\0';
	*number = strtod(text, &end);
	return *end == '\0';
}

/* An entry of holds.seen, a value that the client has stored or read; or a checked read. */
struct seen_record {
	int db;
	enum seen_value what;
	struct slice key, value;
};

static bool read_seen(struct slice from, struct seen_record *r)
{
	struct slice word;
	double db, what, length;

	if (!slice_cut(&from, ' ', &word) || !record_number(word, &db) ||
	    !slice_cut(&from, ' ', &word) || !record_number(word, &what) ||
	    !slice_cut(&from, ' ', &word) || !record_number(word, &length) ||
	    !(db >= 0 && db <= INT32_MAX) || (what != SEEN_VALUE && what != SEEN_ANY) ||
	    !(length >= 0 && length <= (double)from.n))
		return false;
	r->db = (int)db;
	r->what = (enum seen_value)(int)what;
	r->key = slice_of(from.p, (size_t)length);
	r->value = slice_of(from.p + r->key.n, from.n - r->key.n);
	return true;
}

static bool is_understood(const struct record_field *f, struct slice value)
{
	struct seen_record seen;
	double number;

	switch (f->kind) {
	case RECORD_SEEN:
	case RECORD_CHECKED:
		return read_seen(value, &seen);
	case RECORD_TEXT:
		return value.n == 0 || !memchr(value.p, '\0', value.n);
	case RECORD_BYTE:
		return record_number(value, &number) && (number == 2 || number == 3);
	case RECORD_INT:
		return record_number(value, &number) && number >= 0 && number <= INT32_MAX;
	case RECORD_TIME:
		return record_number(value, &number);
	case RECORD_BEHIND:
		return value.n == sizeof(struct sockaddr_storage);
	default:
		return true;
	}
}

bool client_record_check(const struct resp_view *record, struct slice *listener)
{
	*listener = SLICE_NONE;
	if (record->argc == 0 || record->argc % 2)
		return false;
	for (size_t i = 0; i < record->argc; i += 2) {
		const struct record_field *f = find_field(record->argv[i]);

		if (!f || !is_understood(f, record->argv[i + 1]))
			return false;
		if (f->kind == RECORD_LISTENER)
			*listener = record->argv[i + 1];
	}
	return listener->p;
}

/* Lets the next write of the key check the value that the client has read. */
static void apply_checked(struct client *c, const struct seen_record *r)
{
	const struct policy_env *env = &c->env->policy;
	const struct guard *g = match_enforced_guard(env->matcher, r->key);
	struct read_set *own = &context_locks_own(&c->locks, c)->read_set;

	/* The next hasp may have another configuration. */
	if (!g || g->strategy != STRATEGY_CHECK)
		return;
	if (r->what == SEEN_VALUE)
		(void)read_set_checked(env->read_sets, own, r->db, r->key,
		                       env->guard_stats[g->section.index], r->value);
	else
		read_set_check_failed(env->read_sets, own, r->db, r->key,
		                      env->guard_stats[g->section.index]);
}

static void apply_field(struct client *c, const struct record_field *f, struct slice value)
{
	char *at = (char *)c + f->at;
	struct seen_record seen;
	double number = 0;

	switch (f->kind) {
	case RECORD_TEXT:
		session_set_text(&c->session, (enum login_text)f->at, value);
		break;
	case RECORD_FLAG:
		*(bool *)at = true;
		break;
	case RECORD_BYTE:
		(void)record_number(value, &number);
		*(uint8_t *)at = (uint8_t)number;
		break;
	case RECORD_INT:
		(void)record_number(value, &number);
		*(int *)(void *)at = (int)number;
		break;
	case RECORD_TIME:
		(void)record_number(value, (double *)(void *)at);
		break;
	case RECORD_BEHIND:
		c->behind = xmalloc(sizeof(*c->behind));
		memcpy(c->behind, value.p, sizeof(*c->behind));
		break;
	case RECORD_INPUT:
		buf_take(&c->in, &c->env->inputs);
		buf_append(&c->in, value);
		break;
	case RECORD_LOGGED_IN:
		session_set_logged_in(&c->session);
		break;
	case RECORD_SEEN:
		if (read_seen(value, &seen))
			seen_values_put(&client_own_holds(c)->seen, seen.db, seen.key,
			                seen.what, seen.value);
		break;
	case RECORD_CHECKED:
		if (read_seen(value, &seen))
			apply_checked(c, &seen);
		break;
	case RECORD_LISTENER: /* client_take_over() gets the listener from its caller */
	case RECORD_CONNECTION: /* client_record_apply() sets the connection and the address */
	case RECORD_ADDRESS:
		break;
	}
}

void client_record_apply(const struct resp_view *record, struct client *c)
{
	struct slice connection = SLICE_NONE, address = SLICE_NONE;

	for (size_t i = 0; i < record->argc; i += 2) {
		const struct record_field *f = find_field(record->argv[i]);

		HASP_ASSERT(f);
		apply_field(c, f, record->argv[i + 1]);
		if (f->kind == RECORD_CONNECTION)
			connection = record->argv[i + 1];
		else if (f->kind == RECORD_ADDRESS)
			address = record->argv[i + 1];
	}
	if (connection.n && address.n)
		c->identity = owner_identity_of(connection, address);
}
