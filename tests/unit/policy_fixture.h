/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy_fixture: a worker's policy_env with a configuration that a test writes, and a client
 * of which only the parts that the policy reads exist. The test makes waiters up, jobs are
 * fake_jobs, and time stands still.
 */
#ifndef HASP_TESTS_UNIT_POLICY_FIXTURE_H
#define HASP_TESTS_UNIT_POLICY_FIXTURE_H

#include "policy/classifier.h"
#include "policy/dispatch.h"
#include "resp/request.h"

#define TEST_FIXTURE struct policy_fixture *f /* for testing.h */

#define POLICY_NOW 100.0
/* The client's tokens by `owner`. */
#define TOKEN_CONNECTION "connection:127.0.0.1:4711/0/c0ffee"
#define TOKEN_ADDRESS "address:127.0.0.1"

struct policy_fixture {
	struct policy_env env;
	struct session session;
	struct context_locks *locks;
	struct tracker_client *watched;
	bool may_be_optimistic, must_log_in, needs_wait_ping;
	struct rewrite_opts opts;
	struct decision d; /* the latest decision; owns `pending` until the command is sent */
	/* The latest command. */
	struct context x;
	struct command_info what;
	struct resp_view view;
	struct request_args args;
	struct buf request;
};

/* *state is a policy_fixture, whose configuration has no rules. */
int policy_set_up(void **state);
int policy_tear_down(void **state);

/* Sets the sections of hasp.ini for later commands. */
void policy_use(struct policy_fixture *f, const char *sections);
/* Redis has reported its commands: GET, GETEX, INCR and SET may use any link, and unknown
 * commands do not exist. */
void policy_learn(struct policy_fixture *f);

/* Another client waits for the lock `name` in any database; NULL: no client waits. */
void policy_waits_for(const char *name);

/* Decides about the command with these words, separated by blanks. */
struct decision *decide(struct policy_fixture *f, const char *words);
/* As decide(), when only the first `nargs` arguments have arrived. */
struct decision *decide_early(struct policy_fixture *f, const char *words, size_t nargs);
/* Returns the kind of link that the command needs. */
enum route route_of(struct policy_fixture *f, const char *words);

/* Decides and sends the command. Returns its pending request. */
struct pending_request *sent_command(struct policy_fixture *f, const char *words);
/* Redis answers. */
void answered(struct policy_fixture *f, struct pending_request *r, const char *frame);
/* Sends the command, and Redis answers. */
void run(struct policy_fixture *f, const char *words, const char *frame);

/* Returns the bytes sent in place of the latest command, in the words of wire.h. */
void assert_rewritten(struct policy_fixture *f, const char *words);

/* The latest command passes without a pending request; hasp refuses it by an error. */
void assert_passed(struct policy_fixture *f, const char *words);
/* The command passes, and its reply says whether a transaction has ended. */
void assert_ends_transaction(struct policy_fixture *f, const char *words);
void assert_refused(struct policy_fixture *f, const char *words, const char *error);
void assert_deferred(struct policy_fixture *f, const char *words);

#endif
