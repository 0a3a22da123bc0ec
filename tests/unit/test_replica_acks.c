/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lock/ack: whether replicas have a lock. The test plays two nodes of a cluster, each
 * with hasp's connection for WAIT, and the clock.
 */

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "lock/ack/replica_acks.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

#define WAIT_MS 500
/* The clock's time at which each lock's lease ends. */
#define LEASE_UNTIL 2000.0
#define OWN_RECORD "$10\r\ntoken 1 w7\r\n"
#define OTHERS_RECORD "$10\r\ntoken 1 w8\r\n"
#define WRITTEN "+OK\r\n"

struct call {
	struct list node;
	control_fn *fn;
	void *arg;
};

/* hasp's connection for WAIT. */
struct control {
	bool up;
	struct list calls; /* calls without an answer, oldest first */
	struct buf words; /* the calls that the test has not read, as words */
	unsigned nreconnects;
};

/* A client that waits for replicas. */
struct asker {
	unsigned nanswers;
	bool enough; /* the last answer */
};

struct fixture {
	double now;
	struct timers timers;
	struct topology topology;
	struct node nodes[2]; /* the first serves the keys that begin with 'a' */
	struct control acks[2];
	const char *moved; /* a key that the second node serves; NULL: none */
	unsigned nredirected;
	struct replica_acks *all;
	struct asker askers[3];
};

/* --- in the place of control.c and node.c ------------------------------------------------- */

struct control *node_acks(struct node *n)
{
	return n->acks;
}

bool control_is_up(const struct control *c)
{
	return c->up;
}

int control_call(struct control *c, int db, struct slice request, control_fn *fn, void *arg)
{
	struct call *call = calloc(1, sizeof(*call));

	assert_true(c->up);
	buf_printf(&c->words, "%d ", db);
	wire_words(&c->words, request);
	*call = (struct call){ .fn = fn, .arg = arg };
	list_append(&c->calls, &call->node);
	return 0;
}

static void answer_call(struct control *c, const redisReply *reply)
{
	struct list *node = list_shift(&c->calls);
	struct call *call;

	assert_non_null(node);
	call = container_of(node, struct call, node);
	call->fn(call->arg, reply);
	free(call);
}

/* The connection breaks. */
static void go_down(struct control *c)
{
	c->up = false;
	while (!list_empty(&c->calls))
		answer_call(c, NULL);
}

void control_reconnect(struct control *c, const char *reason)
{
	assert_string_equal(reason, "Redis does not answer WAIT");
	c->nreconnects++;
	go_down(c);
}

static struct node *node_of(const struct topology *t, struct slice key)
{
	struct fixture *f = container_of(t, struct fixture, topology);
	bool is_first = *key.p == 'a' && !(f->moved && slice_is(key, f->moved));

	return &f->nodes[is_first ? 0 : 1];
}

static struct node *note_redirection(struct topology *t, struct node *asked, struct slice key,
                                     const char *error, bool *asking)
{
	struct fixture *f = container_of(t, struct fixture, topology);

	assert_ptr_equal(asked, &f->nodes[0]);
	assert_string_equal(error, "MOVED 1 127.0.0.1:7001");
	*asking = false;
	f->moved = slice_is(key, "a1") ? "a1" : "a2";
	f->nredirected++;
	return NULL;
}

/* --- the fixture -------------------------------------------------------------------------- */

static double clock_of(void *arg)
{
	return ((struct fixture *)arg)->now;
}

static void set_up(struct fixture *f)
{
	static const struct topology_ops ops = { .node = node_of,
		                                 .redirected = note_redirection };

	f->now = 1000;
	f->timers = (struct timers){ .clock = clock_of, .arg = f };
	f->topology.ops = &ops;
	for (size_t i = 0; i < 2; i++) {
		f->acks[i].up = true;
		list_init(&f->acks[i].calls);
		/* The connection is up. */
		f->nodes[i].control = f->nodes[i].acks = &f->acks[i];
	}
	f->all = replica_acks_new(&f->timers, &f->topology, NULL);
	fake_jobs_answer(NULL);
	log_fixture_open();
}

static void tear_down(struct fixture *f)
{
	for (size_t i = 0; i < 2; i++)
		go_down(&f->acks[i]);
	replica_acks_free(f->all);
	assert_int_equal(f->timers.n, 0);
	timers_fini(&f->timers);
	for (size_t i = 0; i < 2; i++)
		buf_release(&f->acks[i].words);
	fake_jobs_clear();
	log_fixture_close();
}

STRUCT_FIXTURE(set_up, tear_down);

/* Runs the timers that become due, each at its time. */
static void time_passes(struct fixture *f, double seconds)
{
	double until = f->now + seconds;

	while (timers_first(&f->timers) <= until) {
		if (timers_first(&f->timers) > f->now)
			f->now = timers_first(&f->timers);
		timers_run(&f->timers, f->now);
	}
	f->now = until;
}

/* Asserts that the first node was asked this, and nothing else, since the last call. */
static void assert_asked_at(struct fixture *f, size_t node, const char *words)
{
	struct buf *got = &f->acks[node].words;

	*buf_reserve(got, 1) = '\0';
	assert_string_equal(buf_head(got), words);
	buf_clear(got);
}

static void assert_asked(struct fixture *f, const char *words)
{
	assert_asked_at(f, 0, words);
}

/* The node answers its oldest call. */
static void answer_at(struct fixture *f, size_t node, const char *text)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	answer_call(&f->acks[node], reply);
	freeReplyObject(reply);
	redisReaderFree(reader);
}

/* The first node answers the check of the lock, the write and WAIT. */
static void answer_all(struct fixture *f, const char *look, const char *write, const char *wait)
{
	answer_at(f, 0, look);
	answer_at(f, 0, write);
	answer_at(f, 0, wait);
}

static void on_answer(void *arg, bool enough)
{
	struct asker *a = arg;

	a->nanswers++;
	a->enough = enough;
}

/* Client `i` asks about the lock `key`. */
static struct replica_ask *ask_on_terms(struct fixture *f, size_t i, const char *key,
                                        const struct replica_ask_terms *terms)
{
	const struct attempt t = { .id = { LOCK_KIND_TOKEN, slice_str(key),
		                           SLICE_LIT("token") },
		                   .ticket = SLICE_LIT("w7") };

	return replica_ask_new(f->all, &t, terms, on_answer, &f->askers[i]);
}

static const struct replica_ask_terms usual = {
	.db = 3, .replicas = 2, .timeout_ms = WAIT_MS, .releases = true, .until = LEASE_UNTIL
};

/* Client `i` asks whether two replicas have the lock, and releases it otherwise. */
static struct replica_ask *ask(struct fixture *f, size_t i, const char *key)
{
	return ask_on_terms(f, i, key, &usual);
}

static void assert_answered(const struct fixture *f, size_t i, bool enough)
{
	assert_int_equal(f->askers[i].nanswers, 1);
	assert_int_equal(f->askers[i].enough, enough);
}

static void assert_not_answered(const struct fixture *f, size_t i)
{
	assert_int_equal(f->askers[i].nanswers, 0);
}

#define LOOK(key) "3 GET hasp:fence:{" key "}\n"
#define WRITE_AND_WAIT "3 SET hasp:ack 1 PX 60000\n3 WAIT 2 500\n"
#define UNDO(key)                                                                              \
	"dequeue 5 " key " hasp:fence:{" key "} hasp:queue:{" key                              \
	"} hasp:fence hasp:owner:{" key "} secret w7 0 s token \"\" undo\n"

/* --- the answer of the replicas ----------------------------------------------------------- */

TEST(lock_that_enough_replicas_have_stays)
{
	ask(f, 0, "a1");
	assert_asked(f, "");
	time_passes(f, 0);
	assert_asked(f, LOOK("a1") WRITE_AND_WAIT);
	answer_at(f, 0, OWN_RECORD);
	answer_at(f, 0, WRITTEN);
	assert_not_answered(f, 0);
	answer_at(f, 0, ":2\r\n");
	assert_answered(f, 0, true);
	assert_jobs("");
	assert_nothing_logged();
}

/* covers: replicas_ack_failed */
TEST(lock_that_too_few_replicas_have_is_given_back)
{
	static const redisReply undone = { .type = REDIS_REPLY_INTEGER, .integer = 1 };

	fake_jobs_answer(&undone);
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":1\r\n");
	assert_answered(f, 0, false);
	assert_jobs("3 " UNDO("a1"));
	/* The client waits for this answer; it shall not wait for long. */
	assert_true(fake_jobs_until() == f->now + 1);
	assert_logged("level=warning event=replicas_ack_failed db=3 key=\"a1\" wanted=2 got=1 "
	              "reason=\"too few "
	              "replicas have the lock\"");
}

TEST(undo_that_redis_does_not_answer_is_repeated_while_the_lease_lasts)
{
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":0\r\n");
	assert_jobs("3 " UNDO("a1") "3 again " UNDO("a1"));
	assert_true(fake_jobs_until() == LEASE_UNTIL);
	assert_answered(f, 0, false);
}

TEST(undo_that_redis_refuses_is_repeated)
{
	static const redisReply error = { .type = REDIS_REPLY_ERROR };

	fake_jobs_answer(&error);
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":0\r\n");
	assert_jobs("3 " UNDO("a1") "3 again " UNDO("a1"));
	assert_answered(f, 0, false);
}

TEST(caller_that_gives_locks_back_itself_is_only_told)
{
	struct replica_ask_terms terms = usual;

	terms.releases = false;
	ask_on_terms(f, 0, "a1", &terms);
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":1\r\n");
	assert_answered(f, 0, false);
	assert_jobs("");
}

/* A replica that was promoted without the lock has replicas of its own. */
TEST(replicas_of_a_server_without_the_lock_do_not_count)
{
	static const char *const looks[] = { OTHERS_RECORD, "$-1\r\n", "-LOADING\r\n" };

	for (size_t i = 0; i < 3; i++) {
		ask(f, i, "a1");
		time_passes(f, 0);
		answer_all(f, looks[i], WRITTEN, ":2\r\n");
		assert_answered(f, i, false);
		assert_logged("got=2 reason=\"the server does not have the lock\"");
	}
}

TEST(answer_that_is_no_count_of_replicas_is_not_believed)
{
	static const char *const counts[] = { ":-1\r\n", ":10001\r\n", "+OK\r\n" };

	for (size_t i = 0; i < 3; i++) {
		ask(f, i, "a1");
		time_passes(f, 0);
		answer_all(f, OWN_RECORD, WRITTEN, counts[i]);
		assert_answered(f, i, false);
		assert_logged("got=-1 reason=\"hasp does not understand the reply to WAIT\"");
	}
	f->askers[0] = (struct asker){ 0 };
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":10000\r\n");
	assert_answered(f, 0, true);
}

/* Without the write, WAIT would report only on earlier writes. */
TEST(replicas_do_not_count_if_redis_refuses_the_write)
{
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, "-NOREPLICAS Not enough good replicas\r\n", ":2\r\n");
	assert_answered(f, 0, false);
	assert_logged("got=-1 reason=\"NOREPLICAS Not enough good replicas\"");
	/* The old refusal must not answer the next question. */
	ask(f, 1, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":2\r\n");
	assert_answered(f, 1, true);
}

/* --- groups ------------------------------------------------------------------------------- */

TEST(locks_that_are_taken_in_one_turn_share_a_wait)
{
	ask(f, 0, "a1");
	ask(f, 1, "a2");
	time_passes(f, 0);
	assert_asked(f, LOOK("a1") LOOK("a2") WRITE_AND_WAIT);
	answer_at(f, 0, OWN_RECORD);
	answer_at(f, 0, OTHERS_RECORD);
	answer_at(f, 0, WRITTEN);
	answer_at(f, 0, ":2\r\n");
	assert_answered(f, 0, true);
	assert_answered(f, 1, false);
}

TEST(locks_that_are_taken_during_a_wait_are_the_next_group)
{
	ask(f, 0, "a1");
	time_passes(f, 0);
	assert_asked(f, LOOK("a1") WRITE_AND_WAIT);
	ask(f, 1, "a2");
	ask(f, 2, "a3");
	time_passes(f, 0.1);
	assert_asked(f, "");
	answer_all(f, OWN_RECORD, WRITTEN, ":2\r\n");
	assert_answered(f, 0, true);
	assert_not_answered(f, 1);
	assert_asked(f, LOOK("a2") LOOK("a3") WRITE_AND_WAIT);
}

TEST(locks_with_other_terms_or_at_other_nodes_have_waits_of_their_own)
{
	struct replica_ask_terms fewer = usual, shorter = usual;

	fewer.replicas = 1;
	shorter.timeout_ms = 100;
	ask(f, 0, "a1");
	ask_on_terms(f, 1, "a2", &fewer);
	ask_on_terms(f, 2, "a3", &shorter);
	time_passes(f, 0);
	assert_asked(f, LOOK("a1") WRITE_AND_WAIT);
	answer_all(f, OWN_RECORD, WRITTEN, ":2\r\n");
	assert_asked(f, LOOK("a2") "3 SET hasp:ack 1 PX 60000\n3 WAIT 1 500\n");
	answer_all(f, OWN_RECORD, WRITTEN, ":1\r\n");
	assert_answered(f, 1, true);
	assert_asked(f, LOOK("a3") "3 SET hasp:ack 1 PX 60000\n3 WAIT 2 100\n");
}

TEST(locks_of_another_node_are_asked_about_there_meanwhile)
{
	ask(f, 0, "a1");
	ask(f, 1, "b1");
	time_passes(f, 0);
	assert_asked_at(f, 0, LOOK("a1") WRITE_AND_WAIT);
	assert_asked_at(f, 1, LOOK("b1") WRITE_AND_WAIT);
}

/* --- servers that are away ---------------------------------------------------------------- */

TEST(question_waits_for_the_connection)
{
	f->acks[0].up = false;
	ask(f, 0, "a1");
	time_passes(f, 0.4);
	assert_not_answered(f, 0);
	f->acks[0].up = true;
	time_passes(f, 0.02);
	assert_asked(f, LOOK("a1") WRITE_AND_WAIT);
}

TEST(lock_is_given_back_if_the_connection_is_away_for_the_time_out)
{
	f->acks[0].up = false;
	ask(f, 0, "a1");
	time_passes(f, 0.3);
	ask(f, 1, "a2");
	time_passes(f, 0.25);
	assert_answered(f, 0, false);
	assert_jobs("3 " UNDO("a1") "3 again " UNDO("a1"));
	assert_logged("got=-1 reason=\"hasp's connection for WAIT is down\"");
	assert_not_answered(f, 1);
	time_passes(f, 0.3);
	assert_answered(f, 1, false);
}

TEST(lock_is_given_back_if_the_connection_breaks)
{
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_at(f, 0, OWN_RECORD);
	go_down(&f->acks[0]);
	assert_answered(f, 0, false);
	assert_logged("got=-1 reason=\"hasp's connection for WAIT was lost\"");
}

TEST(server_that_is_silent_a_second_longer_than_wait_is_given_up)
{
	ask(f, 0, "a1");
	time_passes(f, 1.49);
	assert_int_equal(f->acks[0].nreconnects, 0);
	time_passes(f, 0.02);
	assert_int_equal(f->acks[0].nreconnects, 1);
	assert_answered(f, 0, false);
	/* An answer ends the silence. */
	f->acks[0].up = true;
	ask(f, 1, "a1");
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":2\r\n");
	time_passes(f, 10);
	assert_int_equal(f->acks[0].nreconnects, 1);
}

/* --- slots that move ---------------------------------------------------------------------- */

#define MOVED "-MOVED 1 127.0.0.1:7001\r\n"

TEST(lock_whose_slot_has_moved_is_asked_about_at_its_new_node)
{
	ask(f, 0, "a1");
	time_passes(f, 0);
	answer_all(f, MOVED, WRITTEN, ":0\r\n");
	assert_not_answered(f, 0);
	assert_jobs("");
	time_passes(f, 0.02);
	assert_int_equal(f->nredirected, 1);
	assert_asked_at(f, 1, LOOK("a1") WRITE_AND_WAIT);
	answer_at(f, 1, OWN_RECORD);
	answer_at(f, 1, WRITTEN);
	answer_at(f, 1, ":2\r\n");
	assert_answered(f, 0, true);
}

/* The write goes to the slot of the first lock. */
TEST(redirected_write_has_the_whole_group_asked_about_again)
{
	ask(f, 0, "a1");
	ask(f, 1, "a2");
	time_passes(f, 0);
	assert_asked(f, LOOK("a1") LOOK("a2") WRITE_AND_WAIT);
	answer_at(f, 0, MOVED);
	answer_at(f, 0, OWN_RECORD);
	answer_at(f, 0, MOVED);
	answer_at(f, 0, ":0\r\n");
	assert_not_answered(f, 0);
	assert_not_answered(f, 1);
	time_passes(f, 0.02);
	assert_asked_at(f, 0, LOOK("a2") WRITE_AND_WAIT);
	assert_asked_at(f, 1, LOOK("a1") WRITE_AND_WAIT);
}

TEST(lock_that_waits_while_its_slot_moves_leaves_the_group)
{
	ask(f, 0, "a1");
	time_passes(f, 0);
	assert_asked(f, LOOK("a1") WRITE_AND_WAIT);
	ask(f, 1, "a2");
	ask(f, 2, "a3");
	f->moved = "a2";
	answer_all(f, OWN_RECORD, WRITTEN, ":2\r\n");
	assert_asked_at(f, 1, LOOK("a2") WRITE_AND_WAIT);
	answer_at(f, 1, OWN_RECORD);
	answer_at(f, 1, WRITTEN);
	answer_at(f, 1, ":2\r\n");
	assert_answered(f, 1, true);
	assert_asked(f, LOOK("a3") WRITE_AND_WAIT);
}

TEST(lock_that_moves_for_longer_than_the_time_out_is_given_back)
{
	ask(f, 0, "a1");
	time_passes(f, 0.6);
	answer_all(f, MOVED, WRITTEN, ":0\r\n");
	assert_answered(f, 0, false);
}

/* --- clients that go ---------------------------------------------------------------------- */

TEST(client_that_has_cancelled_is_not_told)
{
	replica_ask_cancel(ask(f, 0, "a1"));
	replica_ask_cancel(NULL);
	time_passes(f, 0);
	answer_all(f, OWN_RECORD, WRITTEN, ":2\r\n");
	assert_not_answered(f, 0);
}

TEST(question_that_waits_at_the_end_is_not_answered)
{
	f->acks[0].up = false;
	ask(f, 0, "a1");
	replica_acks_free(f->all);
	assert_not_answered(f, 0);
	assert_jobs("");
	assert_int_equal(f->timers.n, 0);
	f->all = replica_acks_new(&f->timers, &f->topology, NULL);
}
