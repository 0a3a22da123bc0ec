/* SPDX-License-Identifier: BSD-3-Clause
 *
 * clients_fixture: two clients of a worker, whose links lead to a server that the test plays.
 */
#ifndef HASP_TESTS_UNIT_CLIENTS_FIXTURE_H
#define HASP_TESTS_UNIT_CLIENTS_FIXTURE_H

#include "client/client_internal.h"
#include "net/loop_timers.h"
#include "tests/unit/surroundings.h"

#define TEST_FIXTURE struct clients_fixture *f /* for testing.h */

#define CLIENTS 2

struct clients_fixture {
	struct surroundings at;
	struct node node;
	struct topology topology;
	struct loop_timers timers;
	struct waiter_board board;
	struct client_env env;
	struct client *clients[CLIENTS];
	_Atomic long nclients;
	int fds[CLIENTS]; /* the clients' ends of the connections */
};

/* `config`: the text of hasp's file. The test's group needs ini_make_dir(). */
int clients_set_up_with(void **state, const char *config);
int clients_set_up(void **state); /* with the defaults: clients share links */
int clients_set_up_session(void **state); /* each client has a link of its own */
int clients_tear_down(void **state);

#endif
