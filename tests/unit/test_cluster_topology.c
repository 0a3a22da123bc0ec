/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of upstream/cluster_topology.c: hasp asks nodes for the map of slots. The test plays
 * the nodes, at TCP sockets.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/log_fixture.h"
#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"
#include "upstream/cluster_topology.h"

#define NSERVERS 2
#define CONNS_MAX 64
#define DEADLINE_SECONDS 20

/* A connection from hasp. The test answers only questions for the map. */
struct conn {
	int fd; /* -1: hasp has closed it */
	bool gave_map; /* the test has answered a question that verifies no redirection */
	char asked[512]; /* bytes that hasp has sent, and the test has not answered */
	size_t n;
};

struct server {
	int listener;
	char address[32];
	const char *seeds[1]; /* `address`, for hasp's configuration */
	struct conn conns[CONNS_MAX];
	size_t nconns;
	const struct server *owner; /* has all slots, says this server */
	int epoch; /* of the last failover that the server knows */
	const struct server *gets_slot; /* the server says that a slot moves there; or NULL */
	bool is_down; /* the server reports that the cluster is down */
	bool is_silent; /* the server answers only questions that verify a redirection */
	bool delays_verifying; /* the server answers only the other questions */
	unsigned nended; /* connections with `gave_map` that hasp has closed */
};

struct fixture {
	struct surroundings at;
	struct server servers[NSERVERS];
	struct topology *topology;
	unsigned nchanged, nstopped, nanswered;
	const struct node *stopped;
	uint64_t question;
	bool was_down;
};

/* --- hasp's side -------------------------------------------------------------------------- */

static size_t on_commands(void *arg, struct node *n, const redisReply *reply)
{
	(void)arg;
	(void)n;
	(void)reply;
	return 1;
}

static void on_event(void *arg, struct node *n)
{
	(void)arg;
	(void)n;
}

static void on_alarm(void *arg, struct node *n, enum link_alarm alarm)
{
	(void)arg;
	(void)n;
	(void)alarm;
}

static const struct node_ops node_ops = {
	.on_commands = on_commands,
	.on_up = on_event,
	.on_moved = on_event,
	.on_released = on_event,
	.on_alarm = on_alarm,
	.on_changed = on_event,
};

static void on_changed(void *arg)
{
	((struct fixture *)arg)->nchanged++;
}

static void on_stop(void *arg, struct node *n)
{
	struct fixture *f = arg;

	f->nstopped++;
	f->stopped = n;
}

static void on_answered(void *arg, const struct node *n, uint64_t question, bool was_down)
{
	struct fixture *f = arg;

	(void)n;
	f->nanswered++;
	f->question = question;
	f->was_down = was_down;
}

static const struct cluster_topology_ops ops = {
	.on_node = on_event,
	.on_changed = on_changed,
	.on_gone = on_event,
	.on_stop = on_stop,
	.on_answered = on_answered,
};

/* hasp's configuration names this server. */
static void use(struct fixture *f, const struct server *seed)
{
	topology_use(f->topology,
	             &(struct topology_settings){ .cluster = seed->seeds,
	                                          .ncluster = 1,
	                                          .nodes = { .connect_timeout_ms = 10000,
	                                                     .links_per_login = 1,
	                                                     .failover_wait_ms = 10000 } });
}

/* --- the servers -------------------------------------------------------------------------- */

static void server_init(struct server *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(s->listener, CONNS_MAX), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&in, &len), 0);
	snprintf(s->address, sizeof(s->address), "127.0.0.1:%d", ntohs(in.sin_port));
	s->seeds[0] = s->address;
	s->owner = s;
	s->epoch = 1;
}

static void server_fini(struct server *s)
{
	close(s->listener);
	for (size_t i = 0; i < s->nconns; i++)
		if (s->conns[i].fd >= 0)
			close(s->conns[i].fd);
}

static void put_bulk(struct buf *out, const char *text)
{
	buf_printf(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void send_map(struct server *s, struct conn *c, bool verifies)
{
	struct buf out = BUF_INIT;
	char info[128], nodes[256] = "";

	if (s->gets_slot)
		snprintf(nodes, sizeof(nodes),
		         "01 %s@1 myself,master - 0 0 1 connected 0-16383 [7->-02]\n"
		         "02 %s@1 master - 0 0 2 connected\n",
		         s->address, s->gets_slot->address);
	snprintf(info, sizeof(info), "cluster_state:%s\r\ncluster_current_epoch:%d\r\n",
	         s->is_down ? "fail" : "ok", s->epoch);
	put_bulk(&out, info);
	if (verifies)
		put_bulk(&out, nodes);
	buf_printf(&out, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%s\r\n",
	           strchr(s->owner->address, ':') + 1);
	/* If hasp has given up waiting, it asks again. */
	(void)send(c->fd, buf_head(&out), buf_len(&out), MSG_NOSIGNAL);
	buf_release(&out);
	c->n = 0;
}

static void conn_read(struct server *s, struct conn *c)
{
	static const char last[] = "$5\r\nSLOTS\r\n";
	bool verifies;
	ssize_t r = recv(c->fd, c->asked + c->n, sizeof(c->asked) - 1 - c->n, MSG_DONTWAIT);

	if (r == 0) {
		close(c->fd);
		c->fd = -1;
		s->nended += c->gave_map;
		return;
	}
	c->n += r > 0 ? (size_t)r : 0;
	c->asked[c->n] = '\0';
	if (!strstr(c->asked, last))
		return;
	verifies = strstr(c->asked, "NODES");
	if (verifies ? s->delays_verifying : s->is_silent)
		return;
	c->gave_map = !verifies;
	send_map(s, c, verifies);
}

static void serve(struct server *s)
{
	int fd = accept(s->listener, NULL, NULL);

	if (fd >= 0) {
		assert_true(s->nconns < CONNS_MAX);
		s->conns[s->nconns++] = (struct conn){ .fd = fd };
	}
	for (size_t i = 0; i < s->nconns; i++)
		if (s->conns[i].fd >= 0)
			conn_read(s, &s->conns[i]);
}

static void on_tick(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

/* Runs hasp and the servers until *n is not `before` any more. */
static void await(struct fixture *f, const volatile unsigned *n, unsigned before)
{
	double until = ev_time() + DEADLINE_SECONDS;
	struct ev_timer tick;

	ev_timer_init(&tick, on_tick, 0.001, 0.001);
	ev_timer_start(f->at.loop, &tick);
	while (*n == before) {
		if (ev_time() > until)
			fail_msg("nothing happened for %d seconds", DEADLINE_SECONDS);
		for (size_t i = 0; i < NSERVERS; i++)
			serve(&f->servers[i]);
		ev_run(f->at.loop, EVRUN_ONCE);
		cluster_topology_reap(f->topology);
	}
	ev_timer_stop(f->at.loop, &tick);
}

/* --- set up and tear down ----------------------------------------------------------------- */

/* hasp has the map of the first server, which has all slots. */
static void set_up(struct fixture *f)
{
	log_fixture_open();
	surroundings_init(&f->at, 4096);
	use_test_clock(&f->at.env);
	f->at.env.name = NULL;
	for (size_t i = 0; i < NSERVERS; i++)
		server_init(&f->servers[i]);
	f->topology = cluster_topology_new(&f->at.env, &node_ops, &ops, f);
	use(f, &f->servers[0]);
	await(f, &f->nchanged, 0);
	await(f, &f->servers[0].nended, 0);
}

static void tear_down(struct fixture *f)
{
	topology_stop(f->topology);
	topology_free(f->topology);
	for (size_t i = 0; i < NSERVERS; i++)
		server_fini(&f->servers[i]);
	surroundings_fini(&f->at);
	log_fixture_close();
}

STRUCT_FIXTURE(set_up, tear_down);

static struct node *node(struct fixture *f)
{
	return topology_node(f->topology, SLICE_LIT("key"));
}

/* --- tests -------------------------------------------------------------------------------- */

TEST(a_node_that_serves_no_slot_any_more_is_stopped)
{
	const struct node *left = node(f);

	f->servers[0].owner = &f->servers[1];
	now_s++;
	cluster_topology_refresh(f->topology);
	await(f, &f->nchanged, 1);
	assert_string_equal(node(f)->links.name, f->servers[1].address);
	assert_int_equal(f->nstopped, 1);
	assert_ptr_equal(f->stopped, left);
}

/* hasp asks for the map again and again, because it cannot connect to the node. */
TEST(a_node_that_was_to_get_a_slot_and_is_away_is_stopped)
{
	f->servers[0].gets_slot = &f->servers[1];
	now_s++;
	(void)cluster_topology_verify(f->topology, node(f));
	await(f, &f->nanswered, 0);
	assert_non_null(topology_next(f->topology, node(f)));
	await(f, &f->nstopped, 0);
	assert_string_equal(f->stopped->links.name, f->servers[1].address);
	assert_string_equal(node(f)->links.name, f->servers[0].address);
}

TEST(an_answer_says_whether_the_cluster_was_down_in_the_last_second)
{
	static const struct {
		bool is_down;
		double seconds; /* since the row before */
		bool was_down;
	} rows[] = {
		{ false, 1, false }, { true, 1, true },   { false, 0.5, true },
		{ false, 1, false }, { true, 0.5, true }, { false, 1, false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t question;

		f->servers[0].is_down = rows[i].is_down;
		now_s += rows[i].seconds;
		question = cluster_topology_verify(f->topology, node(f));
		await(f, &f->nanswered, i);
		assert_true(f->question >= question);
		assert_int_equal(f->was_down, rows[i].was_down);
	}
}

/* If the node does not answer at once, hasp asks for the map again. The map says nothing about
 * the redirection. */
TEST(a_question_about_a_redirection_outlives_the_search)
{
	struct server *s = &f->servers[0];
	unsigned before = s->nended;

	s->delays_verifying = true;
	now_s++;
	(void)cluster_topology_verify(f->topology, node(f));
	await(f, &s->nended, before);
	assert_int_equal(f->nanswered, 0);
	s->delays_verifying = false;
	await(f, &f->nanswered, 0);
}

/* Another cluster counts its failovers on its own. */
TEST(the_epoch_of_another_cluster_may_be_lower)
{
	f->servers[0].epoch = 10;
	now_s++;
	(void)cluster_topology_verify(f->topology, node(f));
	await(f, &f->nanswered, 0);
	f->servers[0].is_silent = true;
	f->servers[1].epoch = 3;
	now_s++;
	use(f, &f->servers[1]);
	await(f, &f->nchanged, 1);
	assert_string_equal(node(f)->links.name, f->servers[1].address);
	assert_not_logged("outdated");
}
