/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a node that is up again: by its replication id, hasp recognizes whether it is the
 * same server as before.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/unit/played_server.h"
#include "tests/unit/testing.h"
#include "upstream/node.h"

/* The first questions of hasp's own connection, and the answers of a server before Redis 6. */
#define ASKED                                                                                  \
	"*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nHELLO\r\n*1\r\n$4\r\nROLE\r\n"                        \
	"*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n*1\r\n$7\r\nCOMMAND\r\n"
#define ANSWERS "+PONG\r\n-ERR unknown command\r\n*1\r\n$6\r\nmaster\r\n$0\r\n\r\n*0\r\n"
#define ASKED_HISTORY "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"

#define ID_A "a123456789012345678901234567890123456789"
#define ID_B "b123456789012345678901234567890123456789"

struct fixture {
	struct surroundings at;
	struct played_server server;
	struct node *node;
	unsigned nups, nchanged;
};

static size_t on_commands(void *arg, struct node *n, const redisReply *reply)
{
	(void)arg;
	(void)n;
	(void)reply;
	return 1;
}

static void on_up(void *arg, struct node *n)
{
	(void)n;
	((struct fixture *)arg)->nups++;
}

static void on_changed(void *arg, struct node *n)
{
	(void)n;
	((struct fixture *)arg)->nchanged++;
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

static const struct node_ops ops = {
	.on_commands = on_commands,
	.on_up = on_up,
	.on_moved = on_event,
	.on_released = on_event,
	.on_alarm = on_alarm,
	.on_changed = on_changed,
};

static void set_up(struct fixture *f)
{
	char address[300];

	log_set_level(LOG_SEV_ERROR);
	surroundings_init(&f->at, 4096);
	use_test_clock(&f->at.env);
	f->at.env.name = NULL;
	played_server_init(&f->server, &f->at);
	f->node = node_new(&f->at.env, &ops, f);
	node_use(f->node,
	         &(struct node_settings){ .connect_timeout_ms = 10000, .links_per_login = 1 });
	snprintf(address, sizeof(address), "unix:%s", f->at.env.address.host);
	node_move(f->node, address, NULL);
}

static void tear_down(struct fixture *f)
{
	node_stop(f->node);
	node_free(f->node);
	played_server_fini(&f->server);
	surroundings_fini(&f->at);
}

STRUCT_FIXTURE(set_up, tear_down);

/* The server accepts the connection, and answers `info` to INFO replication. */
static void come_up(struct fixture *f, const char *info)
{
	unsigned before = f->nups;

	played_server_accept(&f->server);
	played_server_expect(&f->server, ASKED);
	played_server_send(&f->server, ANSWERS);
	assert_int_equal(f->nups, before + 1);
	played_server_expect(&f->server, ASKED_HISTORY);
	played_server_send(&f->server, info);
}

static void come_up_as(struct fixture *f, const char *id)
{
	char text[256], info[300];
	int n = snprintf(text, sizeof(text),
	                 "# Replication\r\nrole:master\r\nmaster_replid:%s\r\n"
	                 "master_replid2:0000000000000000000000000000000000000000\r\n",
	                 id);

	snprintf(info, sizeof(info), "$%d\r\n%s\r\n", n, text);
	come_up(f, info);
}

/* The server has worked for an hour, so the node reconnects at once. */
static void go_down(struct fixture *f)
{
	now_s += 3600;
	played_server_close(&f->server);
}

TEST(the_server_that_comes_first_is_no_other_one)
{
	come_up_as(f, ID_A);
	assert_int_equal(f->nchanged, 0);
}

TEST(the_same_server_is_known_by_its_replication_id)
{
	come_up_as(f, ID_A);
	go_down(f);
	come_up_as(f, ID_A);
	assert_int_equal(f->nchanged, 0);
	go_down(f);
	come_up_as(f, ID_B);
	assert_int_equal(f->nchanged, 1);
	go_down(f);
	come_up_as(f, ID_B);
	assert_int_equal(f->nchanged, 1);
}

TEST(a_server_that_tells_no_id_may_be_another_one)
{
	static const char *const infos[] = {
		"-NOPERM no permission\r\n",
		"$13\r\nrole:master\r\n\r\n",
		"$0\r\n\r\n",
	};

	come_up(f, infos[0]);
	assert_int_equal(f->nchanged, 0);
	for (unsigned i = 0; i < sizeof(infos) / sizeof(*infos); i++) {
		go_down(f);
		come_up(f, infos[i]);
		assert_int_equal(f->nchanged, i + 1);
	}
	go_down(f);
	come_up_as(f, ID_A);
	assert_int_equal(f->nchanged, 4);
}

/* Clients may have written to that server, and hasp does not know its ID. */
TEST(a_server_that_dies_before_it_has_told_counts_as_another_one)
{
	come_up_as(f, ID_A);
	go_down(f);
	played_server_accept(&f->server);
	played_server_expect(&f->server, ASKED);
	played_server_send(&f->server, ANSWERS);
	played_server_expect(&f->server, ASKED_HISTORY);
	go_down(f);
	come_up_as(f, ID_A);
	assert_int_equal(f->nchanged, 1);
}
