/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/events/event.h"

#include <string.h>

#include "base/quote.h"
#include "lock/model/lock_id.h"

/* Log lines in 10 seconds, for each event of each section. */
#define EVENT_BURST 10
/* Unless the level is debug, hasp logs one refused try in this time: contention is normal. */
#define CONTENTION_SECONDS 60.0
/* How many bytes of a key a log line shows. */
#define EVENT_KEY_MAX 64

static const char *const event_names[LOCK_EVENTS] = {
	[LOCK_EVENT_LOCK_REFUSED] = "lock_refused",
	[LOCK_EVENT_WRITE_REFUSED] = "write_refused",
	[LOCK_EVENT_DELETE_REFUSED] = "delete_refused",
	[LOCK_EVENT_UPDATE_REFUSED] = "update_refused",
	[LOCK_EVENT_WAIT_TIMED_OUT] = "wait_timed_out",
	[LOCK_EVENT_DEADLOCK] = "deadlock",
	[LOCK_EVENT_RELEASED_AT_DISCONNECT] = "released_at_disconnect",
	[LOCK_EVENT_LOST] = "lock_lost",
	[LOCK_EVENT_HELD_LONG] = "held_long",
	[LOCK_EVENT_WAITED_LONG] = "waited_long",
};

static enum log_severity severity_of(enum lock_event e)
{
	return e == LOCK_EVENT_LOST ? LOG_SEV_WARNING : LOG_SEV_INFO;
}

/* True if the section logs the event. (HELD_LONG and WAITED_LONG have options of their own.) */
static bool is_wanted(const struct section_stats *s, enum lock_event e)
{
	return s->log_events || e == LOCK_EVENT_LOST || e == LOCK_EVENT_HELD_LONG ||
	       e == LOCK_EVENT_WAITED_LONG;
}

bool event_is_logged(struct section_stats *s, enum lock_event e, double now,
                     uint32_t *suppressed)
{
	if (!s || !is_wanted(s, e) || !log_enabled(severity_of(e)))
		return false;
	if (e == LOCK_EVENT_LOCK_REFUSED && !log_enabled(LOG_SEV_DEBUG))
		return log_limit_pass_in(&s->limits[e], now, CONTENTION_SECONDS, 1, suppressed);
	return log_limit_pass(&s->limits[e], now, EVENT_BURST, suppressed);
}

static void print_ms(struct buf *line, const char *word, double seconds)
{
	if (seconds >= 0)
		buf_printf(line, " %s=%.0f", word, seconds * 1000);
}

static void print_text(struct buf *line, const char *word, struct slice text)
{
	if (text.n)
		buf_printf(line, " %s=%s", word, QUOTE(text));
}

/* Returns "127.0.0.1:" for "127.0.0.1:4711 name"; empty: there is no address. */
static struct slice host_of(struct slice called)
{
	const char *blank = memchr(called.p, ' ', called.n);
	size_t n = blank ? (size_t)(blank - called.p) : called.n;

	while (n && called.p[n - 1] != ':')
		n--;
	return slice_of(called.p, n);
}

static bool are_of_one_host(struct slice a, struct slice b)
{
	return a.n && b.n && host_of(a).n && slice_eq(host_of(a), host_of(b));
}

/* Returns the hint for the event's line; NULL: there is none. */
static const char *hint_of(enum lock_event e, const struct event_facts *facts)
{
	if (e != LOCK_EVENT_DELETE_REFUSED)
		return NULL;
	if (are_of_one_host(facts->by, facts->holder))
		return "if both clients are one pool, see owner = address";
	/* (A read since the holder got the lock was a read of the holder's value.) */
	if (facts->read_ago >= 0 && facts->read_ago < facts->held)
		return "the client had read the value: see owner = value";
	return NULL;
}

bool event_has_hint(enum lock_event e, const struct event_facts *facts)
{
	return hint_of(e, facts);
}

void event_log(const struct section_stats *s, enum lock_event e,
               const struct event_facts *facts, uint32_t suppressed)
{
	struct buf line = BUF_INIT;
	struct quoted key = { "" };
	const char *hint = hint_of(e, facts);

	buf_printf(&line, "%s mode=enforce %s=%s key=%s", event_names[e],
	           stats_kind_word(s->kind), s->name, quote(&key, facts->key, EVENT_KEY_MAX));
	if (lock_db_shown(facts->db))
		buf_printf(&line, " db=%d", facts->db);
	print_text(&line, "by", facts->by);
	print_text(&line, "holder", facts->holder);
	print_ms(&line, "held_ms", facts->held);
	print_ms(&line, "waited_ms", facts->waited);
	if (facts->reason)
		buf_printf(&line, " reason=\"%s\"", facts->reason);
	if (hint)
		buf_printf(&line, " hint=\"%s\"", hint);
	buf_printf(&line, " suppressed=%u\n", suppressed);
	log_lines(severity_of(e), buf_slice(&line));
	buf_release(&line);
}
