/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of /status.json. The tests play the workers' answers. They compare only times that are
 * over, or have no end, at any time of day.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "admin/http_internal.h"
#include "lock/events/stats.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"
#include "worker/worker_live.h"
#include "worker/worker_metrics.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

#define UPSTREAM "[upstream]\naddress = unix:/nowhere\n"
#define NODES 60
#define ROWS 2

/* --- in the place of the workers ---------------------------------------------------------- */

static const char *not_ready; /* reason why Redis does not answer; NULL: it answers */
static struct worker_gauges gauges;
static struct live live_now;
static struct contended_key contended;
static size_t ncontended;

const char *workers_upstream_trouble(struct worker_shared *shared)
{
	(void)shared;
	return not_ready;
}

const char *workers_not_ready(struct worker_shared *shared)
{
	(void)shared;
	return not_ready;
}

void workers_count(const struct worker_shared *shared, struct worker_counts *c)
{
	(void)shared;
	*c = (struct worker_counts){ 0 };
}

void worker_gauges_ask(struct worker_shared *shared, int64_t timeout_ms,
                       struct worker_gauges *g)
{
	(void)shared;
	(void)timeout_ms;
	*g = gauges;
}

void worker_gauges_fini(struct worker_gauges *g)
{
	*g = (struct worker_gauges){ 0 };
}

void workers_each_observed(struct worker_shared *shared, workers_observed_fn *fn, void *arg)
{
	(void)shared;
	fn(arg, "lock", "carts", "lock_lost", 1);
	fn(arg, "lock", "carts", "lock_outlived_lease", 2);
	fn(arg, "guard", "carts", "lost_update", 3);
	fn(arg, "guard", "others", "lost_update", 4);
}

void workers_discover_write(struct worker_shared *shared, struct json *j)
{
	(void)shared;
	json_bool(j, "played", true);
}

void workers_live(struct worker_shared *shared, enum live_what what, size_t most,
                  int64_t timeout_ms, struct live *live)
{
	(void)shared;
	(void)most;
	(void)timeout_ms;
	assert_int_equal(what, LIVE_HELD);
	*live = live_now;
}

void live_fini(struct live *live)
{
	(void)live;
}

size_t workers_contended(struct worker_shared *shared, struct contended_key *out, size_t most,
                         int64_t timeout_ms)
{
	(void)shared;
	(void)timeout_ms;
	assert_true(most >= ncontended);
	if (ncontended)
		out[0] = contended;
	return ncontended;
}

/* --- the fixture -------------------------------------------------------------------------- */

struct fixture {
	struct worker_shared shared;
	struct http_history *history;
	struct worker_node_gauges nodes[NODES];
	struct live_row held[ROWS], waiting[ROWS];
	struct buf out;
};

static void set_up(struct fixture *f)
{
	f->shared.stats = stats_new(1);
	f->shared.nworkers = 4;
	f->history = http_history_new(&f->shared);
	for (size_t i = 0; i < NODES; i++) {
		strcpy(f->nodes[i].name, "there:1");
	}
	not_ready = NULL;
	gauges = (struct worker_gauges){ .asked = 4, .answered = 4, .nodes = f->nodes };
	live_now = (struct live){ .whole = true,
		                  .held.rows = f->held,
		                  .waiters.rows = f->waiting };
	ncontended = 0;
}

static void tear_down(struct fixture *f)
{
	http_history_free(f->history);
	stats_free(f->shared.stats);
	buf_release(&f->out);
}

STRUCT_FIXTURE(set_up, tear_down);

/* Returns the status under this configuration. */
static const char *status_of(struct fixture *f, const char *ini)
{
	struct config *config = load_anyway(ini);

	buf_clear(&f->out);
	http_status_write(&f->shared, config, f->history, 0, &f->out);
	config_unref(config);
	*buf_reserve(&f->out, 1) = '\0';
	return buf_head(&f->out);
}

static void assert_has(struct fixture *f, const char *ini, const char *text)
{
	const char *all = status_of(f, ini);

	if (!strstr(all, text))
		fail_msg("no %s in %s", text, all);
}

static size_t count_of(const char *all, const char *text)
{
	size_t n = 0;

	for (; (all = strstr(all, text)); all++)
		n++;
	return n;
}

/* --- the process and its servers ---------------------------------------------------------- */

TEST(process_tells_what_it_is_and_whether_it_is_ready)
{
	f->shared.clients = 7;
	assert_has(f, UPSTREAM, "{\"version\":\"" PACKAGE_VERSION "\",\"uptime_s\":");
	assert_has(f, UPSTREAM, "\"not_ready\":null,\"workers\":4,\"clients\":7,");
	not_ready = "no server is reachable";
	assert_has(f, UPSTREAM, "\"not_ready\":\"no server is reachable\",");
	assert_has(f, UPSTREAM, "\"trouble\":\"no server is reachable\",");
	assert_int_equal(count_of(status_of(f, UPSTREAM), "\n"), 1);
}

TEST(upstream_is_told_by_its_kind_and_addresses)
{
	assert_has(f, UPSTREAM,
	           "\"upstream\":{\"kind\":\"server\",\"master\":null,"
	           "\"addresses\":[\"unix:/nowhere\"],\"trouble\":null,\"nodes\":[]}");
	assert_has(f, "[upstream]\nmaster = m\nsentinels = 127.0.0.1:1 127.0.0.2:2\n",
	           "\"upstream\":{\"kind\":\"sentinels\",\"master\":\"m\","
	           "\"addresses\":[\"127.0.0.1:1\",\"127.0.0.2:2\"],");
	assert_has(f, "[upstream]\ncluster = 127.0.0.1:1 127.0.0.2:2\n",
	           "\"upstream\":{\"kind\":\"cluster\",\"master\":null,"
	           "\"addresses\":[\"127.0.0.1:1\",\"127.0.0.2:2\"],");
}

TEST(servers_are_told_but_not_those_of_a_quorum)
{
	gauges.nnodes = 3;
	f->nodes[0].state = WORKER_NODE_UP;
	f->nodes[0].latency.n[0] = f->nodes[0].latency.n[3] = 1;
	f->nodes[0].latency.total_us = 3000;
	strcpy(f->nodes[1].quorum, "q");
	f->nodes[2].state = WORKER_NODE_UNCOUNTED;
	strcpy(f->nodes[0].evicts, "allkeys-lru");
	assert_has(f, UPSTREAM,
	           "\"nodes\":[{\"name\":\"there:1\",\"up\":true,"
	           "\"mean_latency_ms\":1.50,\"evicts\":\"allkeys-lru\"},"
	           "{\"name\":\"there:1\",\"up\":false,"
	           "\"mean_latency_ms\":null,\"evicts\":null}]");
}

TEST(no_more_than_fifty_servers_are_told)
{
	gauges.nnodes = NODES;
	assert_int_equal(count_of(status_of(f, UPSTREAM), "\"there:1\""), 50);
}

TEST(discovery_is_null_where_it_is_off)
{
	assert_has(f, UPSTREAM, "\"discover\":null,");
	assert_has(f, UPSTREAM "[discover]\n", "\"discover\":{\"played\":true},");
}

/* --- sections ----------------------------------------------------------------------------- */

#define LOCK "[lock carts]\npattern = cart:* basket:*\nowner = address\nlease = 7s\nwait = 2s\n"
#define GUARD "[guard carts]\npattern = stock:*\nacquire_on = GET\nmode = observe\n"

TEST(section_is_told_with_its_settings)
{
	assert_has(f, UPSTREAM, "\"sections\":[],");
	assert_has(f, UPSTREAM LOCK,
	           "\"sections\":[{\"kind\":\"lock\",\"name\":\"carts\","
	           "\"patterns\":[\"cart:*\",\"basket:*\"],\"owner\":\"address\","
	           "\"mode\":\"enforce\",\"lease_ms\":7000,\"wait_ms\":2000,"
	           "\"max_hold_ms\":600000}],");
	assert_has(f, UPSTREAM GUARD,
	           "\"sections\":[{\"kind\":\"guard\",\"name\":\"carts\","
	           "\"patterns\":[\"stock:*\"],\"owner\":\"connection\","
	           "\"mode\":\"observe\",");
	assert_has(f, UPSTREAM "[verbs]\nlock = TAKE\nowner = user\nlease = 9s\n",
	           "\"sections\":[{\"kind\":\"verbs\",\"name\":\"TAKE\",\"patterns\":[],"
	           "\"owner\":\"user\",\"mode\":\"enforce\",\"lease_ms\":9000,\"wait_ms\":0,"
	           "\"max_hold_ms\":600000}]");
	assert_has(f,
	           UPSTREAM "[quorum q]\nservers = a:1 b:1 c:1\n[verbs]\nquorum = q\n"
	                    "reentrant = no\nmax_lease = 30s\n",
	           "\"sections\":[{\"kind\":\"quorum\",\"name\":\"q\",\"patterns\":[],");
}

TEST(section_is_told_with_its_own_totals)
{
	struct section_stats *lock = stats_section(f->shared.stats, STATS_LOCK, "carts", 0);
	struct section_stats *guard = stats_section(f->shared.stats, STATS_GUARD, "carts", 0);
	const char *all, *second;

	metrics_count(&lock->n[STAT_ACQUIRED], 5);
	metrics_count(&guard->n[STAT_ACQUIRED], 6);
	metrics_count(&guard->n[STAT_UPDATES_REFUSED], 7);
	stats_change(lock, STAT_HELD, true);
	stats_change(guard, STAT_WAITERS, true);
	stats_waited(lock, 0.5);
	stats_held(lock, 1);
	stats_held(lock, 2);
	/* The configuration no longer has this section. */
	metrics_count(&stats_section(f->shared.stats, STATS_LOCK, "old", 0)->n[STAT_ACQUIRED],
	              9);
	all = status_of(f, UPSTREAM LOCK GUARD);
	assert_int_equal(count_of(all, "\"totals\":{"), 2);
	assert_int_equal(count_of(all, "\"acquired\":5,"), 1);
	assert_int_equal(count_of(all, "\"acquired\":6,"), 1);
	/* Only guards count these; only locks count what is held. */
	assert_int_equal(count_of(all, "\"updates_refused\":"), 1);
	assert_int_equal(count_of(all, "\"updates_refused\":7"), 1);
	assert_int_equal(count_of(all, "\"held\":1,\"waiting\":0,\"mean_wait_ms\":500.00,"
	                               "\"mean_hold_ms\":1500.00}"),
	                 1);
	second = strstr(all, "\"kind\":\"guard\"");
	assert_non_null(second);
	assert_int_equal(count_of(second,
	                          "},\"waiting\":1,\"mean_wait_ms\":null,"
	                          "\"mean_hold_ms\":null,\"observed\":{\"lost_update\":3}}"),
	                 1);
}

TEST(observed_section_has_its_own_events)
{
	assert_has(f, UPSTREAM GUARD, ",\"observed\":{\"lost_update\":3}}],");
	assert_has(f, UPSTREAM LOCK "mode = observe\n",
	           ",\"observed\":{\"lock_lost\":1,\"lock_outlived_lease\":2}}],");
	assert_int_equal(count_of(status_of(f, UPSTREAM LOCK), "\"observed\""), 0);
}

/* --- locks and waiters -------------------------------------------------------------------- */

static struct live_row row_of(const struct section_stats *section, const char *key)
{
	return (struct live_row){
		.section = section,
		.db = 3,
		/* A date in the future, and one in the past. */
		.since = 1e12,
		.until = -1e12,
		.key = slice_str(key),
		.key_len = strlen(key),
		.client = SLICE_LIT("127.0.0.1:4711 me"),
	};
}

TEST(lock_is_told_with_its_waiters)
{
	const struct section_stats *s = stats_section(f->shared.stats, STATS_LOCK, "carts", 0);

	f->held[0] = row_of(s, "cart:1");
	f->held[0].owner = SLICE_LIT("me");
	f->held[0].renewed = true;
	f->held[0].fence = 12;
	f->held[0].waiters = 1;
	f->waiting[0] = row_of(s, "cart:1");
	live_now.held.n = live_now.waiters.n = 1;
	live_now.held.total = 1000;
	live_now.waiters.total = 2000;
#define ROW                                                                                    \
	"\"key\":\"cart:1\",\"key_bytes\":6,\"db\":3,\"kind\":\"lock\",\"section\":\"carts\"," \
	"\"client\":\"127.0.0.1:4711 me\",\"since_ms\":0,\"left_ms\":0"
	assert_has(f, UPSTREAM,
	           "\"whole\":true,\"locks\":{\"total\":1000,\"known\":true,\"rows\":[{" ROW
	           ",\"owner\":\"me\",\"renewed\":true,\"fence\":12,\"waiters\":1}]},"
	           "\"waiters\":{\"total\":2000,\"rows\":[{" ROW "}]},");
}

TEST(lock_without_section_or_end_has_null_there)
{
	f->held[0] = row_of(NULL, "a");
	f->held[0].until = INFINITY;
	live_now.held.n = 1;
	assert_has(f, UPSTREAM, "\"kind\":null,\"section\":null,");
	assert_has(f, UPSTREAM, "\"left_ms\":null,\"owner\":\"\",\"renewed\":false,");
}

TEST(rows_of_some_workers_only_are_not_whole)
{
	live_now.whole = false;
	assert_has(f, UPSTREAM, "\"whole\":false,");
}

TEST(contended_key_is_told_by_its_head)
{
	contended = (struct contended_key){
		.kind = STATS_GUARD,
		.section = "stock",
		.key = { .db = 2, .len = 3, .head = "key and more" },
		.counts = { .missed = 7 },
	};
	contended.counts.n[CONTENTION_REFUSED] = 5;
	contended.counts.n[CONTENTION_WAITED] = 6;
	assert_has(f, UPSTREAM, "\"contended\":{\"window_s\":300,\"rows\":[]},\"history\":{");
	ncontended = 1;
	assert_has(f, UPSTREAM,
	           "\"rows\":[{\"key\":\"key\",\"key_bytes\":3,\"db\":2,\"kind\":\"guard\","
	           "\"section\":\"stock\",\"refused\":5,\"waited\":6,\"missed\":7}]}");
	memset(contended.key.head, 'k', TOP_KEYS_HEAD);
	contended.key.len = 1000;
	assert_has(f, UPSTREAM, "kkk\",\"key_bytes\":1000,");
	assert_int_equal(count_of(strstr(status_of(f, UPSTREAM), "\"contended\""), "kk"),
	                 TOP_KEYS_HEAD - 1);
}
