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
	struct decision d; /* the latest; its `pending` until it is sent */
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

/* The sections of hasp.ini that count from now on. */
void policy_use(struct policy_fixture *f, const char *sections);
/* Redis has told its commands: GET, GETEX, INCR and SET may come on any link, and those that
 * are not known do not exist. */
void policy_learn(struct policy_fixture *f);

/* Somebody waits for the lock `name` in any database; NULL: nobody does for any. */
void policy_waits_for(const char *name);

/* Decides about a command of these words, split at blanks. */
struct decision *decide(struct policy_fixture *f, const char *words);
/* The same of the first `nargs` of its arguments, the others of which are still to come. */
struct decision *decide_early(struct policy_fixture *f, const char *words, size_t nargs);
/* The link that it needs. */
enum route route_of(struct policy_fixture *f, const char *words);

/* Decides, and sends what is to be awaited, which is returned. */
struct pending_request *sent_command(struct policy_fixture *f, const char *words);
/* Redis answers. */
void answered(struct policy_fixture *f, struct pending_request *r, const char *frame);
/* Both. */
void run(struct policy_fixture *f, const char *words, const char *frame);

/* What was sent in the place of the latest command, in the words of wire.h. */
void assert_rewritten(struct policy_fixture *f, const char *words);

/* The latest command is passed and nothing remembered; it is refused by an error of hasp's. */
void assert_passed(struct policy_fixture *f, const char *words);
/* It is passed, and its reply says whether a transaction is over. */
void assert_ends_transaction(struct policy_fixture *f, const char *words);
void assert_refused(struct policy_fixture *f, const char *words, const char *error);
void assert_deferred(struct policy_fixture *f, const char *words);

#endif
