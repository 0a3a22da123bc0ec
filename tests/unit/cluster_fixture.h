/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_fixture: a cluster of two nodes that the test plays by hand over unix sockets, and a
 * virtual link to the cluster that records the replies to its user. Node 0 serves the slots
 * below 8192 ("bar", "a"), node 1 the others ("foo", "c"). The test sets the time.
 */
#ifndef HASP_TESTS_UNIT_CLUSTER_FIXTURE_H
#define HASP_TESTS_UNIT_CLUSTER_FIXTURE_H

#include <time.h>

#include "base/buf.h"
#include "cluster/cluster.h"
#include "tests/unit/surroundings.h"
#include "upstream/node.h"

#define TEST_FIXTURE struct cluster_fixture *f /* for testing.h */

#define NODES 3
/* Serves no slot until the test gives it slots. */
#define SPARE 2

#define GET_FOO "*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n"
#define GET_BAR "*2\r\n$3\r\nGET\r\n$3\r\nbar\r\n"
#define ASKING "*1\r\n$6\r\nASKING\r\n"

struct played_node {
	struct node node;
	char address[32]; /* as in the map */
	char path[80];
	int listener; /* listening socket; -1: the node is down */
	int fd; /* the connection from hasp; -1: none was accepted */
	enum node_health health;
};

struct cluster_fixture {
	struct surroundings at;
	struct played_node nodes[NODES];
	struct slot_map map;
	struct timers timers;
	struct commands *commands;
	struct cluster *cluster;
	struct link_env virtual; /* environment of the virtual links */
	struct link *link;
	struct link_user user;
	unsigned nrefreshed; /* how often the session asked for a new map */
	unsigned nverified; /* how often the session asked for a node's own view, */
	const struct node *unverified; /* and the last of these nodes; NULL: it has asked for
	                                * none since the test last looked */

	/* Calls of the user's callbacks. */
	struct buf bytes;
	unsigned ndown;
	enum link_end end;
	size_t inflight;
	char reason[128];
	unsigned ndrained;
	unsigned ncaptured;

	const char *goes_on; /* the user sends this once, when it gets bytes; NULL: nothing */
};

/* For cmocka: a virtual link of one client, on which nothing was sent. */
int cluster_set_up(void **state);
/* As cluster_set_up(), for a client that shares node connections. */
int cluster_set_up_shared(void **state);
int cluster_tear_down(void **state);

#define CLUSTER_TEST_SHARED(name) TEST_WITH(name, cluster_set_up_shared, cluster_tear_down)

/* The client sends `text` and expects `n` replies. */
void client_sends(struct cluster_fixture *f, const char *text, unsigned replies);
void client_sends_bytes(struct cluster_fixture *f, struct slice bytes, unsigned replies);
void assert_client_got(struct cluster_fixture *f, const char *text);
/* The client sends `request`, which reaches the node unchanged, and gets the node's reply. */
void assert_passes(struct cluster_fixture *f, size_t node, const char *request,
                   unsigned replies, const char *answer);

/* Accepts a connection to the node, and reads until `text` has arrived. */
void assert_node_got(struct cluster_fixture *f, size_t node, const char *text);
/* Fails if unread bytes have arrived, or arrive while the loop runs its pending work. */
void assert_node_got_nothing(struct cluster_fixture *f, size_t node);
void node_sends(struct cluster_fixture *f, size_t node, const char *text);
/* The node closes the connection before the session has read anything from it. */
void node_sends_unseen(struct cluster_fixture *f, size_t node, const char *text);
/* Waits until the session has closed its connection to the node. */
void assert_node_was_left(struct cluster_fixture *f, size_t node);
void node_hangs_up(struct cluster_fixture *f, size_t node);
/* The node stops listening. */
void node_vanishes(struct cluster_fixture *f, size_t node);

/* Advances the clock, and runs the timers. */
void time_passes(struct cluster_fixture *f, double seconds);
/* Runs the loop until it has no more work. */
void turn_loop(struct cluster_fixture *f);
/* Runs the loop once, then sleeps for a millisecond. Fails if the test has waited for too long
 * since `began`. */
void nap(struct cluster_fixture *f, time_t began);
/* Reports that the node has answered hasp's question; the map is the test's. `was_down`: as for
 * cluster_node_answered(). */
void node_is_asked(struct cluster_fixture *f, size_t node, bool was_down);
/* Moves the slots of `from` to `to`, and reports the new map to the cluster. */
void node_takes_over(struct cluster_fixture *f, size_t to, size_t from);

#endif
