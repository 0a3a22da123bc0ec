/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_fixture: a cluster of two nodes that the test plays by hand over unix sockets, and a
 * virtual link to the cluster that records the replies to its user. Node 0 serves the slots
 * below 8192 ("bar", "a"), node 1 the others ("foo", "c"). The test sets the time.
 */
#ifndef HASP_TESTS_UNIT_CLUSTER_FIXTURE_H
#define HASP_TESTS_UNIT_CLUSTER_FIXTURE_H

#include "base/buf.h"
#include "cluster/cluster.h"
#include "tests/unit/surroundings.h"
#include "upstream/node.h"

#define NODES 3
/* Serves no slot, until the test says so. */
#define SPARE 2

#define GET_FOO "*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n"
#define GET_BAR "*2\r\n$3\r\nGET\r\n$3\r\nbar\r\n"
#define ASKING "*1\r\n$6\r\nASKING\r\n"

struct played_node {
	struct node node;
	char address[32]; /* in the map */
	char path[80];
	int listener; /* -1: nobody listens */
	int fd; /* -1: no connection was accepted */
	enum node_health health;
};

struct cluster_fixture {
	struct surroundings at;
	struct played_node nodes[NODES];
	struct slot_map map;
	struct timers timers;
	struct commands *commands;
	struct cluster *cluster;
	struct link_env virtual; /* of virtual links */
	struct link *link;
	struct link_user user;
	unsigned nrefreshed; /* how often the map was to be asked for anew */
	unsigned nverified; /* how often a node was to be asked for its own view, */
	const struct node
		*unverified; /* and the last of these nodes; NULL: none since it was asked */

	/* What the user was told. */
	struct buf bytes;
	unsigned ndown;
	enum link_end end;
	size_t inflight;
	char reason[128];
	unsigned ndrained;
	unsigned ncaptured;

	const char *goes_on; /* it sends this when it gets bytes, once; NULL: nothing */
};

/* For cmocka: a virtual link of its client's own, on which nothing was sent. */
int cluster_set_up(void **state);
/* The same for one that shares. */
int cluster_set_up_shared(void **state);
int cluster_tear_down(void **state);

#define CLUSTER_TEST_SHARED(name) TEST_WITH(name, cluster_set_up_shared, cluster_tear_down)

/* The client sends `text` and expects so many replies. */
void client_sends(struct cluster_fixture *f, const char *text, unsigned replies);
void client_sends_bytes(struct cluster_fixture *f, struct slice bytes, unsigned replies);
void assert_client_got(struct cluster_fixture *f, const char *text);
/* The client sends `request`, which goes to the node as it is, and gets what that answers. */
void assert_passes(struct cluster_fixture *f, size_t node, const char *request,
                   unsigned replies, const char *answer);

/* Accepts what connects to the node, and reads until `text` has come. */
void assert_node_got(struct cluster_fixture *f, size_t node, const char *text);
/* Nothing that was not read has come, nor comes while the loop does what is to be done. */
void assert_node_got_nothing(struct cluster_fixture *f, size_t node);
void node_sends(struct cluster_fixture *f, size_t node, const char *text);
/* Before anything of it is read. */
void node_sends_unseen(struct cluster_fixture *f, size_t node, const char *text);
void node_hangs_up(struct cluster_fixture *f, size_t node);
/* Nobody listens there any more. */
void node_vanishes(struct cluster_fixture *f, size_t node);

/* Time goes on, and timers run. */
void time_passes(struct cluster_fixture *f, double seconds);
/* Lets the loop do what is to be done now. */
void turn_loop(struct cluster_fixture *f);
/* hasp has asked the node, which has answered; the map is as the test made it. `was_down`: as
 * for cluster_node_answered(). */
void node_is_asked(struct cluster_fixture *f, size_t node, bool was_down);
/* The slots of `from` are served by `to`, and the cluster is told. */
void node_takes_over(struct cluster_fixture *f, size_t to, size_t from);

#endif
