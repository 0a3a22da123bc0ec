/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/events/stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"
#include "base/quote.h"
#include "lock/model/lock_id.h"

struct stats {
	pthread_mutex_t lock; /* protects `sections`; a worker that counts does not lock it */
	struct list sections;
	size_t nworkers;
	struct top_keys **contended; /* indexed by worker */
};

struct stats_entry {
	struct list node;
	enum stats_kind kind;
	char *name;
	struct section_stats of_worker[];
};

static const struct {
	const char *word;
	uint32_t kinds; /* a bit for each enum stats_kind that counts the field */
} stats_words[STATS] = {
	[STAT_ACQUIRED] = { "acquired", 15 },
	[STAT_RELEASED] = { "released", 15 },
	[STAT_RENEWED] = { "renewed", 13 },
	[STAT_REFUSED] = { "refused", 15 },
	[STAT_WRITES_REFUSED] = { "writes_refused", 7 },
	[STAT_DELETES_REFUSED] = { "deletes_refused", 5 },
	[STAT_UPDATES_REFUSED] = { "updates_refused", 2 },
	[STAT_WAITED] = { "waited", 15 },
	[STAT_HANDED_OVER] = { "handed_over", 15 },
	[STAT_TIMED_OUT] = { "timed_out", 15 },
	[STAT_DEADLOCKS] = { "deadlocks", 7 },
	[STAT_RELEASED_AT_DISCONNECT] = { "released_at_disconnect", 15 },
	[STAT_LOST] = { "lost", 13 },
};

struct stats *stats_new(size_t nworkers)
{
	struct stats *s = xcalloc(1, sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	list_init(&s->sections);
	s->nworkers = nworkers;
	s->contended = xcalloc(nworkers, sizeof(struct top_keys *));
	for (size_t i = 0; i < nworkers; i++)
		s->contended[i] = top_keys_new();
	return s;
}

void stats_free(struct stats *s)
{
	list_shift_each (struct stats_entry, e, &s->sections, node) {
		free(e->name);
		free(e);
	}
	for (size_t i = 0; i < s->nworkers; i++)
		top_keys_free(s->contended[i]);
	free(s->contended);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

const char *stats_kind_word(enum stats_kind kind)
{
	static const char *const words[] = { "lock", "guard", "verbs", "quorum" };

	return words[kind];
}

static struct stats_entry *stats_find(struct stats *s, enum stats_kind kind, const char *name)
{
	list_each (struct stats_entry, e, &s->sections, node) {
		if (e->kind == kind && strcmp(e->name, name) == 0)
			return e;
	}
	return NULL;
}

static struct stats_entry *stats_entry_new(struct stats *s, enum stats_kind kind,
                                           const char *name)
{
	struct stats_entry *e = xcalloc(1, sizeof(*e) + s->nworkers * sizeof(e->of_worker[0]));

	e->kind = kind;
	e->name = xstrdup(name);
	for (size_t i = 0; i < s->nworkers; i++) {
		e->of_worker[i].kind = kind;
		e->of_worker[i].name = e->name;
		e->of_worker[i].contended = s->contended[i];
	}
	list_append(&s->sections, &e->node);
	return e;
}

struct section_stats *stats_section(struct stats *s, enum stats_kind kind, const char *name,
                                    size_t worker)
{
	struct stats_entry *e;

	HASP_ASSERT(worker < s->nworkers);
	pthread_mutex_lock(&s->lock);
	e = stats_find(s, kind, name);
	if (!e)
		e = stats_entry_new(s, kind, name);
	pthread_mutex_unlock(&s->lock);
	return &e->of_worker[worker];
}

struct top_keys *stats_contended_keys(struct stats *s, size_t worker)
{
	HASP_ASSERT(worker < s->nworkers);
	return s->contended[worker];
}

static void stats_add_up(struct stats_sums *sums, const struct section_stats *s)
{
	for (size_t what = 0; what < STATS; what++)
		sums->n[what] += metrics_counted(&s->n[what]);
	for (size_t what = 0; what < STATS_GAUGES; what++)
		sums->now[what] += metrics_counted(&s->now[what]);
	metrics_add_up(&sums->waited, &s->waited);
	metrics_add_up(&sums->held, &s->held);
}

void stats_each(struct stats *s, stats_fn *fn, void *arg)
{
	pthread_mutex_lock(&s->lock);
	list_each (const struct stats_entry, e, &s->sections, node) {
		struct stats_sums sums = { 0 };

		for (size_t i = 0; i < s->nworkers; i++)
			stats_add_up(&sums, &e->of_worker[i]);
		fn(arg, e->kind, e->name, &sums);
	}
	pthread_mutex_unlock(&s->lock);
}

struct stats_sums stats_total(struct stats *s)
{
	struct stats_sums sums = { 0 };

	pthread_mutex_lock(&s->lock);
	list_each (const struct stats_entry, e, &s->sections, node)
		for (size_t i = 0; i < s->nworkers; i++)
			stats_add_up(&sums, &e->of_worker[i]);
	pthread_mutex_unlock(&s->lock);
	return sums;
}

const char *stats_field_word(enum stats_field what)
{
	return stats_words[what].word;
}

bool stats_field_counts(enum stats_field what, enum stats_kind kind)
{
	return stats_words[what].kinds >> kind & 1;
}

static void report_section(void *arg, enum stats_kind kind, const char *name,
                           const struct stats_sums *sums)
{
	struct buf *out = arg;

	buf_printf(out, "totals %s=%s", stats_kind_word(kind), name);
	for (size_t i = 0; i < STATS; i++)
		if (stats_field_counts((enum stats_field)i, kind))
			buf_printf(out, " %s=%llu", stats_words[i].word,
			           (unsigned long long)sums->n[i]);
	buf_puts(out, "\n");
}

void stats_report(struct stats *s, struct buf *out)
{
	stats_each(s, report_section, out);
}

/* --- events --------------------------------------------------------------------------- */

/* How many lines hasp logs in 10 seconds for each event of each section. */
#define EVENT_BURST 10
/* hasp logs one refused try (at level debug, more of them) in this many seconds. */
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

bool event_begin(struct event_to_log *e, struct section_stats *s, enum lock_event event, int db,
                 struct slice key, double now)
{
	*e = (struct event_to_log){ .stats = s,
		                    .event = event,
		                    .at = now,
		                    .db = db,
		                    .key = key,
		                    .held = -1,
		                    .waited = -1,
		                    .read_ago = -1 };
	return event_is_logged(s, event, now, &e->suppressed);
}

static bool are_of_one_host(struct slice a, struct slice b)
{
	return a.n && b.n && host_of(a).n && slice_eq(host_of(a), host_of(b));
}

const char *event_hint(const struct event_to_log *e)
{
	if (e->event != LOCK_EVENT_DELETE_REFUSED)
		return NULL;
	if (are_of_one_host(buf_slice(&e->by), buf_slice(&e->holder)))
		return "if both clients are one pool, see owner = address";
	/* (The client read the key after the holder took it, so it read the holder's value.) */
	if (e->read_ago >= 0 && e->read_ago < e->held)
		return "the client had read the value: see owner = value";
	return NULL;
}

void event_log(struct event_to_log *e)
{
	const struct section_stats *s = e->stats;
	struct buf line = BUF_INIT;
	struct quoted key = { "" };
	const char *hint = event_hint(e);

	buf_printf(&line, "%s mode=enforce %s=%s key=%s", event_names[e->event],
	           stats_kind_word(s->kind), s->name, quote(&key, e->key, EVENT_KEY_MAX));
	if (lock_db_shown(e->db))
		buf_printf(&line, " db=%d", e->db);
	print_text(&line, "by", buf_slice(&e->by));
	print_text(&line, "holder", buf_slice(&e->holder));
	print_ms(&line, "held_ms", e->held);
	print_ms(&line, "waited_ms", e->waited);
	if (e->reason)
		buf_printf(&line, " reason=\"%s\"", e->reason);
	if (hint)
		buf_printf(&line, " hint=\"%s\"", hint);
	buf_printf(&line, " suppressed=%u\n", e->suppressed);
	log_lines(severity_of(e->event), buf_slice(&line));
	buf_release(&line);
	buf_release(&e->by);
	buf_release(&e->holder);
}
