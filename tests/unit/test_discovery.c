/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of discovery: its findings, and the file that it writes. The tests set the time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "tests/unit/heap.h"
#include "tests/unit/testing.h"
#include "watch/discovery.h"
#include "watch/tracker_internal.h"

#define CLIENTS 4
#define SMALL_MEMORY ((size_t)1 << 20)

struct fixture {
	struct tracker *tracker;
	struct tracker_client *clients[CLIENTS];
	struct tracker_act act; /* the last act */
	double now;
	struct discovery_result result; /* what report() asks for */
	char *report;
};

static void set_up(struct fixture *f)
{
	static const uint8_t secret[SIPHASH_SECRET_SIZE] = { 7 };

	f->now = 100;
	f->result.listen = "127.0.0.1:6380";
	f->result.address = "redis:6379";
	f->result.commands = 1204;
	f->tracker = tracker_new(secret, SMALL_MEMORY, f->now);
	/* The last client is on another machine. */
	for (uint64_t i = 0; i < CLIENTS; i++)
		f->clients[i] = tracker_client_new(f->tracker, i < CLIENTS - 1 ? 1 : 3);
}

static void close_client(struct fixture *f, size_t i)
{
	if (f->clients[i])
		tracker_client_free(f->tracker, f->clients[i], f->now);
	f->clients[i] = NULL;
}

static void tear_down(struct fixture *f)
{
	for (size_t i = 0; i < CLIENTS; i++)
		close_client(f, i);
	tracker_free(f->tracker);
	free(f->report);
}

STRUCT_FIXTURE(set_up, tear_down);

/* Returns the act of client `i` on the key, 10 ms later. */
static const struct tracker_act *by(struct fixture *f, size_t i, const char *key)
{
	f->now += 0.01;
	f->act = (struct tracker_act){
		.tracker = f->tracker,
		.client = f->clients[i],
		.key = slice_str(key),
		.now = f->now,
		.sent = f->now - 0.001,
	};
	return &f->act;
}

static uint64_t value(const struct fixture *f, const char *s)
{
	return tracker_hash(f->tracker, slice_str(s));
}

static void take(struct fixture *f, size_t i, const char *key)
{
	tracker_took(by(f, i, key), WAY_SET_NX, 1000, value(f, "1"));
}

static void release(struct fixture *f, size_t i, const char *key)
{
	tracker_deleted(by(f, i, key), TRACKER_GONE);
}

static void put_report(struct fixture *f, bool so_far, struct buf *out)
{
	struct discovery_snapshot *s = discovery_snapshot_new(f->tracker, so_far, f->now);

	discovery_report(s, &f->result, out);
	discovery_snapshot_free(s);
}

static const char *report(struct fixture *f)
{
	struct buf out = BUF_INIT;

	put_report(f, false, &out);
	buf_append(&out, slice_of("", 1));
	free(f->report);
	f->report = xstrdup(buf_head(&out));
	buf_release(&out);
	return f->report;
}

static void assert_told(struct fixture *f, const char *words)
{
	if (!strstr(report(f), words))
		fail_msg("no '%s' in\n%s", words, f->report);
}

static void assert_not_told(struct fixture *f, const char *words)
{
	if (strstr(report(f), words))
		fail_msg("'%s' in\n%s", words, f->report);
}

/* --- whose release it is ------------------------------------------------------------------ */

TEST(a_release_that_leaves_the_holder_s_own_in_vain_is_a_theft)
{
	take(f, 0, "lock:a");
	release(f, 1, "lock:a");
	assert_not_told(f, "removed another holder's lock");
	tracker_deleted(by(f, 0, "lock:a"), TRACKER_WAS_GONE);
	assert_told(f, "1 release removed another holder's lock");
	assert_told(f, "owner = connection\n");
}

TEST(losers_that_release_are_thieves_for_there_is_a_release_too_many)
{
	for (int i = 0; i < 3; i++) {
		take(f, 0, "lock:a");
		tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
		release(f, 1, "lock:a");
		take(f, 2, "lock:a");
		release(f, 0, "lock:a");
		tracker_deleted(by(f, 2, "lock:a"), TRACKER_WAS_GONE);
	}
	assert_told(f, "6 releases removed another holder's lock");
	assert_told(f, "0 by another one: owner = connection");
}

TEST(a_late_release_removes_the_next_holder_s_lock)
{
	take(f, 0, "lock:a");
	f->now += 2;
	take(f, 1, "lock:a");
	release(f, 0, "lock:a");
	tracker_deleted(by(f, 1, "lock:a"), TRACKER_WAS_GONE);
	assert_told(f, "1 release removed another holder's lock");
	assert_told(f, "1 holder outlived the expiry of their lock");
	assert_told(f, "renew = yes");
}

TEST(connections_of_one_address_that_release_for_each_other_are_one_owner)
{
	for (int i = 0; i < 30; i++) {
		take(f, 0, "lock:a");
		release(f, 1, "lock:a");
	}
	assert_told(f, "30 by another one of the same address: owner = address");
	assert_told(f, "owner = address\n");
	assert_not_told(f, "little evidence");
}

/* Client 0 takes the lock 20 times. Each time, client `other` prolongs it, and client `last`
 * releases it. */
static void prolong_for_another(struct fixture *f, size_t other, bool by_set, size_t last)
{
	for (int i = 0; i < 20; i++) {
		take(f, 0, "lock:a");
		if (by_set)
			tracker_wrote(by(f, other, "lock:a"), value(f, "1"), 1000, false);
		else
			tracker_expires(by(f, other, "lock:a"), 1000);
		release(f, last, "lock:a");
	}
}

TEST(whose_lock_another_connection_prolongs_has_perhaps_two_connections)
{
	prolong_for_another(f, 1, false, 0);
	assert_told(f,
	            "Question: does one client use several connections? 20 times a connection");
	assert_told(f, "\n;[lock a]\n;pattern = lock:a\n;owner = connection\n;mode");
	prolong_for_another(f, 3, true, 0);
	assert_told(f, "40 times a connection that had not taken the lock set its expiry");
	assert_not_told(f, "had other uses");
}

TEST(a_pool_whose_connections_prolong_and_release_has_one_owner)
{
	prolong_for_another(f, 1, false, 1);
	assert_not_told(f, "Question");
	assert_told(f, "owner = address\n");
}

TEST(who_sets_the_expiry_of_a_lock_that_it_did_not_get_is_another_client)
{
	for (int i = 0; i < 20; i++) {
		take(f, 0, "lock:a");
		tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
		tracker_expires(by(f, 1, "lock:a"), 1000);
		release(f, 0, "lock:a");
	}
	assert_not_told(f, "Question");
}

TEST(those_of_one_name_are_one_owner_wherever_they_are)
{
	tracker_client_rename(f->clients[0], 5);
	tracker_client_rename(f->clients[3], 5);
	take(f, 0, "lock:a");
	release(f, 3, "lock:a");
	take(f, 3, "lock:a");
	release(f, 0, "lock:a");
	assert_told(f, "2 by another one of the same name: owner = name");
}

TEST(those_with_nothing_in_common_are_told_to_be_named)
{
	take(f, 0, "lock:a");
	release(f, 3, "lock:a");
	close_client(f, 0);
	assert_told(f, "\n;owner = name\n");
	assert_told(f, "Question: which connections share a lock?");
}

TEST(a_pool_stays_one_when_its_connections_are_refused_too)
{
	for (size_t i = 0; i < 30; i++) {
		take(f, i % 3, "lock:a");
		tracker_refused(by(f, (i + 1) % 3, "lock:a"), WAY_SET_NX);
		release(f, (i + 1) % 3, "lock:a");
	}
	assert_told(f,
	            "0 released by the connection that took the lock, 30 by another one of the "
	            "same address");
	assert_not_told(f, "removed another holder's lock");
}

/* Client 0 takes the lock, with its expiry date as the value; client 1 finds that the date has
 * passed. */
static void let_it_pass(struct fixture *f, const char *ends)
{
	tracker_took(by(f, 0, "lock:a"), WAY_SETNX, 0, value(f, ends));
	tracker_refused(by(f, 1, "lock:a"), WAY_SETNX);
	tracker_read(by(f, 1, "lock:a"), READ_GET);
}

static void work_in_turn(struct fixture *f)
{
	for (size_t i = 0; i < 30; i++) {
		tracker_took(by(f, i % 2, "lock:a"), WAY_SETNX, 0, value(f, "mine") + 2 * i);
		release(f, i % 2, "lock:a");
	}
}

TEST(those_of_one_address_that_take_locks_over_are_no_pool)
{
	work_in_turn(f);
	for (size_t i = 0; i < 3; i++) {
		let_it_pass(f, "ends");
		tracker_wrote(by(f, 1, "lock:a"), value(f, "later"), 0, false);
		release(f, 1, "lock:a");
		tracker_took(by(f, 0, "lock:a"), WAY_SETNX, 0, value(f, "last"));
		release(f, 0, "lock:a");
	}
	assert_told(f, "taken 39 times by SETNX, GETSET or SET");
	assert_told(f, "3 times a client took the lock over: it read another holder's value");
	assert_told(f, "3 holders never released a lock that was taken over");
	assert_told(f, "36 released by the connection that took the lock, 0 by another one");
	assert_told(f, "Question: does the application take an error for a refusal?");
	assert_told(f, "hasp would keep it for as long as max_hold says");
	assert_told(f, "\n;[lock a]\n;pattern = lock:a\n;owner = connection\n");
}

/* Neither holder has left its lock to the other client on purpose. */
TEST(a_holder_that_looked_or_left_has_not_yielded_its_lock)
{
	let_it_pass(f, "ends");
	tracker_wrote(by(f, 1, "lock:a"), value(f, "later"), 0, false);
	close_client(f, 0);
	release(f, 1, "lock:a");
	tracker_took(by(f, 2, "lock:a"), WAY_SETNX, 0, value(f, "third"));
	tracker_read(by(f, 2, "lock:a"), READ_GET);
	tracker_read(by(f, 1, "lock:a"), READ_GET);
	tracker_wrote(by(f, 1, "lock:a"), value(f, "fourth"), 0, false);
	release(f, 1, "lock:a");
	tracker_took(by(f, 2, "lock:a"), WAY_SETNX, 0, value(f, "last"));
	assert_told(f, "2 times a client took the lock over");
	assert_not_told(f, "never released a lock that was taken over");
}

static void swap(struct fixture *f, size_t client, const char *key, bool was_there)
{
	if (!tracker_swapped(by(f, client, key), value(f, "ok"), was_there))
		tracker_wrote(by(f, client, key), value(f, "ok"), 0, false);
}

static void swap_names(struct fixture *f, const char *key)
{
	swap(f, 0, key, false);
	swap(f, 1, key, true);
	close_client(f, 0);
	swap(f, 2, key, true);
	tracker_deleted(by(f, 1, key), TRACKER_GONE);
}

TEST(a_key_that_its_name_calls_a_lock_may_be_taken_by_GETSET)
{
	swap_names(f, "names:lock");
	assert_told(f, "names:lock    1 key, taken 1 time by GETSET or SET");
	assert_told(f, "1 lock stayed without an expiry when the holder's connection closed");
	assert_told(f, "Question: does the application take an error for a refusal?");
	assert_told(f, "\n;[lock names]\n");
}

TEST(a_section_has_the_words_of_its_pattern)
{
	swap_names(f, "mutex:aZ09_lock.zA90");
	assert_told(f, "\n;[lock aZ09-zA90]\n");
}

TEST(other_keys_that_GETSET_sets_are_values)
{
	swap_names(f, "names:last");
	assert_told(f, "1 pattern of other keys");
}

TEST(a_pool_that_sets_its_lock_again_takes_nothing_over)
{
	for (size_t i = 0; i < 30; i++) {
		take(f, 0, "lock:a");
		tracker_read(by(f, 1, "lock:a"), READ_GET);
		tracker_wrote(by(f, 1, "lock:a"), value(f, "1"), 1000, false);
		release(f, 1, "lock:a");
	}
	assert_told(f, "30 by another one of the same address: owner = address\n");
	assert_not_told(f, "took the lock over");
}

TEST(those_that_delete_what_they_take_next_may_be_no_pool)
{
	work_in_turn(f);
	for (size_t i = 0; i < 3; i++) {
		let_it_pass(f, "ends");
		release(f, 1, "lock:a");
		tracker_took(by(f, 1, "lock:a"), WAY_SETNX, 0, value(f, "later"));
		release(f, 1, "lock:a");
	}
	assert_told(f,
	            "Question: does each client take and release a lock over one connection?");
	assert_told(f, "also for clients that end the lock of a holder that takes too long");
	assert_told(f, "\n;[lock a]\n;pattern = lock:a\n;owner = address\n");
}

TEST(nor_does_a_value_of_its_own_keep_them_out)
{
	uint64_t mine = value(f, "mine");

	for (size_t i = 0; i < 12; i++, mine += 2) {
		size_t other = (i + 1) % 2;
		tracker_took(by(f, i % 2, "lock:a"), WAY_SETNX, 1000, mine);
		tracker_read(by(f, i % 2, "lock:a"), READ_GET);
		if (i % 4 == 3) {
			tracker_refused(by(f, other, "lock:a"), WAY_SETNX);
			tracker_read(by(f, other, "lock:a"), READ_GET);
			release(f, other, "lock:a");
			mine += 2;
			tracker_took(by(f, other, "lock:a"), WAY_SETNX, 1000, mine);
			tracker_read(by(f, other, "lock:a"), READ_GET);
			release(f, other, "lock:a");
		} else {
			release(f, i % 2, "lock:a");
		}
	}
	assert_told(f, "also for clients that end the lock of a holder that takes too long");
	assert_told(f, "\n;owner = connection\n");
}

/* A client that did not get the lock deletes it. */
static void delete_unasked(struct fixture *f, size_t holder, size_t loser)
{
	take(f, holder, "lock:a");
	tracker_refused(by(f, loser, "lock:a"), WAY_SET_NX);
	release(f, loser, "lock:a");
	tracker_deleted(by(f, holder, "lock:a"), TRACKER_WAS_GONE);
}

TEST(losers_among_a_pool_may_not_pass_as_its_owner)
{
	for (size_t i = 0; i < 30; i++) {
		take(f, 0, "lock:a");
		release(f, 1, "lock:a");
		if (i % 6 == 0)
			delete_unasked(f, 0, 2);
	}
	assert_told(f, "35 by another one\n");
	assert_told(f,
	            "Question: does each client take and release a lock over one connection?");
	assert_told(f, "also for clients that delete a lock that they did not get");
	assert_told(f, "\n;[lock a]\n");
	assert_not_told(f, "\n[lock");
}

TEST(nor_may_losers_whose_connection_has_other_users)
{
	for (size_t i = 0; i < 30; i++) {
		take(f, 0, "lock:a");
		tracker_refused(by(f, 0, "lock:a"), WAY_SET_NX);
		release(f, 0, "lock:a");
		delete_unasked(f, 0, 1);
	}
	assert_told(f,
	            "Question: does each client take and release a lock over one connection?");
	assert_not_told(f, "\n[lock");
}

/* A pool whose releases come over other connections. Each late holder deletes the lock of the
 * client on the other machine. */
TEST(late_releases_of_a_pool_do_not_hide_what_it_has_in_common)
{
	for (size_t i = 0; i < 9; i++) {
		take(f, 0, "lock:a");
		release(f, 1, "lock:a");
	}
	for (size_t i = 0; i < 10; i++) {
		take(f, 0, "lock:a");
		f->now += 2;
		take(f, CLIENTS - 1, "lock:a");
		release(f, 1, "lock:a");
		tracker_deleted(by(f, CLIENTS - 1, "lock:a"), TRACKER_WAS_GONE);
	}
	assert_told(f, "10 releases removed another holder's lock");
	assert_told(f, "9 by another one of the same address: owner = address\n");
	assert_told(f, "\n[lock a]\n");
}

/* One late holder begins a chain: each deletes the lock of the next one, on the other machine.
 * `again`: the connection has meanwhile taken the lock for another order. */
static void assert_owner_is_seen_beside_chains(struct fixture *f, bool again)
{
	for (size_t i = 0; i < 12; i++) {
		take(f, 0, "lock:a");
		release(f, 1, "lock:a");
	}
	for (size_t i = 0; i < 3; i++) {
		take(f, 0, "lock:a");
		f->now += 2;
		if (again) {
			take(f, 0, "lock:a");
			release(f, 0, "lock:a");
		}
		for (size_t j = 0; j < 3; j++) {
			take(f, CLIENTS - 1, "lock:a");
			release(f, 1, "lock:a");
			take(f, 2, "lock:a");
			release(f, CLIENTS - 1, "lock:a");
		}
		tracker_deleted(by(f, 1, "lock:a"), TRACKER_WAS_GONE);
	}
	assert_told(f, "of the same address: owner = address\n");
	assert_told(f, "\n[lock a]\n");
}

TEST(late_releases_in_a_chain_do_not_hide_what_a_pool_has_in_common)
{
	assert_owner_is_seen_beside_chains(*state, false);
}

TEST(late_releases_are_seen_though_the_connection_took_the_lock_again)
{
	assert_owner_is_seen_beside_chains(*state, true);
}

/* Some holders are late, but their own DELs find no lock. Later, another host releases locks on
 * purpose. */
TEST(late_holders_do_not_make_releases_by_another_host_thefts)
{
	for (size_t i = 0; i < 12; i++) {
		take(f, 0, "lock:a");
		release(f, 1, "lock:a");
	}
	for (size_t i = 0; i < 3; i++) {
		take(f, 0, "lock:a");
		f->now += 2;
		tracker_deleted(by(f, 0, "lock:a"), TRACKER_WAS_GONE);
		take(f, 2, "lock:a");
		release(f, CLIENTS - 1, "lock:a");
	}
	assert_told(f, "Question: which connections share a lock? Some that released it");
	assert_told(f, "\n;[lock a]\n");
	assert_not_told(f, "removed another holder's lock");
}

/* A script takes the lock with a token; another script releases it unless it has expired. */
static void take_by_script(struct fixture *f, size_t i, int number)
{
	char name[16];
	uint64_t token;

	snprintf(name, sizeof(name), "token%d", number);
	token = value(f, name);
	tracker_script(by(f, i, "lock:a"),
	               &(struct tracker_script){ 1, &token, 1, 1, true, 0 });
}

static void release_by_script(struct fixture *f, size_t i, int number, bool is_there)
{
	char name[16];
	uint64_t token;

	snprintf(name, sizeof(name), "token%d", number);
	token = value(f, name);
	tracker_script(by(f, i, "lock:a"),
	               &(struct tracker_script){ 2, &token, 1, 1, is_there, 0 });
}

TEST(script_locks_that_are_outlived_or_forgotten_get_a_question)
{
	for (int i = 0; i < 40; i++) {
		take_by_script(f, i % 2, i);
		if (i % 10 == 7) {
			take_by_script(f, 1 - i % 2, 100 + i);
			release_by_script(f, i % 2, i, false);
			release_by_script(f, 1 - i % 2, 100 + i, true);
		} else if (i % 10 != 3) {
			release_by_script(f, i % 2, i, true);
		}
	}
	assert_told(f, "4 holders outlived the expiry");
	for (size_t i = 0; i < 2; i++)
		close_client(f, i);
	assert_told(f, "4 locks expired without a release");
	assert_told(f, "Question: is a lock left to expire on purpose");
	assert_not_told(f, "\n[lock");
}

/* Several users share a connection. */
TEST(script_locks_that_are_released_late_are_not_forgotten)
{
	for (int i = 0; i < 40; i++) {
		take_by_script(f, 0, i);
		if (i % 10 == 7) {
			take_by_script(f, 0, 100 + i);
			release_by_script(f, 0, i, false);
			release_by_script(f, 0, 100 + i, true);
		} else {
			release_by_script(f, 0, i, true);
		}
	}
	assert_told(f, "4 holders outlived the expiry");
	assert_told(f, "\n[lock a]\npattern = lock:a\nowner = value\nrenew = yes\n");
}

/* hasp saw only one of three locks outlived, with little evidence; all three share a
 * pattern. */
TEST(locks_of_little_evidence_share_the_section_of_one_that_was_harmed)
{
	static const char *const keys[] = { "jobs:red", "jobs:green", "jobs:blue" };

	for (size_t i = 0; i < 9; i++) {
		tracker_took(by(f, 0, keys[i % 3]), WAY_SET_NX, 60000, value(f, "1") + 2 * i);
		f->now += i == 3 ? 61 : 0;
		by(f, 0, keys[i % 3]);
		f->act.watches = i != 3;
		tracker_deleted(&f->act, i == 3 ? TRACKER_WAS_GONE : TRACKER_GONE);
	}
	assert_told(f, "\n[lock jobs]\npattern = jobs:*\nowner = value\nrenew = yes\n");
}

/* A clean-up job deleted the key, although it did not exist. */
TEST(a_key_of_which_nothing_was_seen_does_not_hide_a_pattern)
{
	tracker_deleted(by(f, 0, "jobs:f/7"), TRACKER_WAS_GONE);
	for (size_t i = 0; i < 9; i++) {
		take(f, 0, i % 2 ? "jobs:7" : "jobs:8");
		release(f, 1, i % 2 ? "jobs:7" : "jobs:8");
		tracker_deleted(by(f, 0, i % 2 ? "jobs:7" : "jobs:8"), TRACKER_WAS_GONE);
	}
	assert_told(f, "\n[lock jobs]\npattern = jobs:*\n");
}

/* The holder crashed. */
TEST(a_key_that_was_only_taken_does_not_hide_a_pattern)
{
	take(f, 2, "jobs:f/7");
	tracker_read(by(f, 1, "jobs:f/7"), READ_GET);
	for (size_t i = 0; i < 9; i++) {
		take(f, 0, i % 2 ? "jobs:7" : "jobs:8");
		release(f, 1, i % 2 ? "jobs:7" : "jobs:8");
		tracker_deleted(by(f, 0, i % 2 ? "jobs:7" : "jobs:8"), TRACKER_WAS_GONE);
	}
	assert_told(f, "\n[lock jobs]\npattern = jobs:*\n");
}

/* The lock is sometimes released late; a lock with a similar name was never released. */
TEST(a_lock_is_not_renewed_where_another_of_such_a_name_was_forgotten)
{
	for (size_t i = 0; i < 40; i++) {
		const char *key = i % 2 ? "jobs:red" : "jobs:green";
		take(f, i % 2, key);
		f->now += i % 4 == 0 || i % 10 == 5 ? 1.1 : 0;
		if (i % 10 == 5)
			tracker_deleted(by(f, i % 2, key), TRACKER_WAS_GONE);
		else if (i % 4)
			release(f, i % 2, key);
	}
	assert_told(f, "Question: is a lock left to expire on purpose");
	assert_told(f, "\n;[lock jobs-red]\n");
	assert_not_told(f, "\n[lock jobs-red]");
}

TEST(script_locks_whose_owners_look_before_DEL_are_locks)
{
	for (int i = 0; i < 40; i++) {
		take_by_script(f, i % 2, i);
		if (i % 10 == 7) {
			tracker_read(by(f, i % 2, "lock:a"), READ_GET);
			take_by_script(f, 1 - i % 2, 100 + i);
			release(f, i % 2, "lock:a");
			tracker_missed(by(f, 1 - i % 2, "lock:a"), false);
		} else {
			tracker_read(by(f, i % 2, "lock:a"), READ_GET);
			release(f, i % 2, "lock:a");
		}
	}
	assert_told(f, "taken 44 times by a script, released by DEL after a look at the value");
	assert_told(f, "4 releases removed another holder's lock");
	assert_told(f, "outlived the expiry");
	assert_told(f, "\n[lock a]\npattern = lock:a\nowner = value\nrenew = yes\n");
}

static void count_up(struct fixture *f, size_t i, bool expires)
{
	tracker_took(by(f, i, "visits"), WAY_INCR, 0, 0);
	if (expires)
		tracker_expires(by(f, i, "visits"), 5000);
	tracker_refused(by(f, 1, "visits"), WAY_INCR);
	release(f, i, "visits");
}

/* The last of three clients deletes the key when all have come. */
TEST(a_count_that_another_client_deletes_gets_a_question)
{
	for (size_t i = 0; i < 5; i++) {
		tracker_took(by(f, i % 3, "barrier"), WAY_INCR, 0, 0);
		tracker_expires(by(f, i % 3, "barrier"), 5000);
		tracker_refused(by(f, (i + 1) % 3, "barrier"), WAY_INCR);
		tracker_refused(by(f, (i + 2) % 3, "barrier"), WAY_INCR);
		release(f, (i + 2) % 3, "barrier");
	}
	assert_told(f, "Question: is this a lock, or a counter? A connection counted to 1, and "
	               "another one deleted the key.");
	assert_told(f, "\n;[lock barrier]\n");
}

/* Client `i` counts to one and, if `deletes`, deletes the key. */
static void count_once(struct fixture *f, size_t i, const char *key, bool deletes)
{
	tracker_took(by(f, i, key), WAY_INCR, 0, 0);
	tracker_expires(by(f, i, key), 5000);
	if (deletes)
		release(f, i, key);
	f->now += 6;
}

TEST(a_count_that_no_client_took_further_gets_a_question_unless_its_name_says_lock)
{
	for (size_t i = 0; i < 5; i++) {
		count_once(f, i % 3, "logins", true);
		count_once(f, i % 3, "lock:a", true);
	}
	assert_told(f, "a counter? No client counted further than 1.");
	assert_told(f, "\n;[lock logins]\n");
	assert_told(f, "\n[lock a]\n");
}

TEST(so_do_counts_that_are_seldom_deleted)
{
	for (size_t i = 0; i < 20; i++) {
		count_once(f, i % 3, "logins", i % 5 == 0);
		tracker_refused(by(f, 3, "logins"), WAY_INCR);
	}
	assert_told(f, "a counter? Most of the keys were not deleted.");
	assert_told(f, "\n;[lock logins]\n");
}

TEST(a_count_that_begins_by_SET_NX_is_no_lock)
{
	for (size_t i = 0; i < 5; i++) {
		take(f, 0, "visits");
		tracker_refused(by(f, 1, "visits"), WAY_INCR);
		release(f, 0, "visits");
	}
	assert_told(f, "a counter? Clients set the key by NX, and count it up.");
	assert_told(f, "\n;[lock visits]\n");
}

/* hasp would refuse DECR while another client has the lock. */
TEST(a_lock_that_clients_change_may_be_a_value)
{
	for (size_t i = 0; i < 5; i++) {
		take(f, 0, "left");
		tracker_used(by(f, 1, "left"), true);
		release(f, 0, "left");
	}
	assert_told(f, "Question: is this a lock, or a value? 5 times a client changed it");
	assert_told(f, "\n;[lock left]\n");
}

TEST(a_count_that_begins_anew_is_no_lock_unless_it_expires)
{
	count_up(f, 0, false);
	assert_not_told(f, "[lock");
	count_up(f, 0, true);
	assert_told(f, "[lock visits]\npattern = visits\nowner = connection\nlease = 5s\n");
}

/* Each client counts for itself, and starts over after it has read and written a value. */
TEST(what_is_written_beside_a_counter_is_not_left_to_its_lock)
{
	for (size_t i = 0; i < 30; i++) {
		tracker_took(by(f, i % 2, "visits"), WAY_INCR, 0, 0);
		tracker_expires(by(f, i % 2, "visits"), 5000);
		tracker_refused(by(f, i % 2, "visits"), WAY_INCR);
		tracker_read(by(f, 0, "value"), READ_GET);
		tracker_read(by(f, 1, "value"), READ_GET);
		tracker_wrote(by(f, 0, "value"), 0, 0, false);
		tracker_wrote(by(f, 1, "value"), 0, 0, false);
		release(f, i % 2, "visits");
	}
	assert_told(f, "Question: is this a lock, or a counter?");
	assert_told(f, "30 writes overwrote what another connection had written");
	assert_not_told(f, "written by holders of a lock");
}

/* The script takes a token, and returns a number that rises with each lock. */
TEST(a_lock_that_is_released_by_its_token_is_not_made_by_its_script)
{
	char name[16];

	for (int i = 0; i < 6; i++) {
		uint64_t token, number;
		snprintf(name, sizeof(name), "token%d", i);
		token = value(f, name);
		snprintf(name, sizeof(name), "%d", 2000000 + i);
		number = value(f, name);
		tracker_script(by(f, 0, "lock:a"),
		               &(struct tracker_script){ 1, &token, 1, 1, true, number });
		tracker_script(by(f, 0, "lock:a"),
		               &(struct tracker_script){ 2, &token, 1, 1, i < 5, 0 });
	}
	assert_told(f, "\n[lock a]\npattern = lock:a\nowner = value\n");
	assert_not_told(f, "Question");
}

/* Client 0 counts to one and leaves; other clients go on counting. */
static void leave_count(struct fixture *f, const char *key)
{
	tracker_took(by(f, 0, key), WAY_INCR, 0, 0);
	close_client(f, 0);
	for (size_t i = 0; i < 10; i++)
		tracker_refused(by(f, 1, key), WAY_INCR);
	tracker_read(by(f, 2, key), READ_GET);
}

TEST(a_count_that_was_left_behind_is_a_lock_if_its_name_says_so)
{
	leave_count(f, "balance:lock");
	assert_told(f, "taken 1 time by INCR, never released\n");
	assert_told(f, "1 lock stayed without an expiry when the holder's connection closed");
	assert_told(f, "10 more counts followed");
	assert_told(f, "no release was seen: owner = connection\n");
	assert_told(f, "[lock balance]\npattern = balance:lock\nowner = connection\n"
	               "lease = 5s\nrenew = yes\nmax_hold = 600s\nmode =");
}

/* A client that waits for a lock does nothing else. */
TEST(so_may_one_that_clients_raise_between_other_commands)
{
	leave_count(f, "stats:lock");
	tracker_refused(by(f, 1, "stats:lock"), WAY_INCR);
	tracker_read(by(f, 1, "page"), READ_GET);
	tracker_refused(by(f, 1, "stats:lock"), WAY_INCR);
	assert_told(f, "a counter? Clients that counted further used other keys in between.");
	assert_told(f, "\n;[lock stats]\n");
}

TEST(one_of_another_name_may_just_be_a_count)
{
	leave_count(f, "blocked:visits");
	assert_not_told(f, "[lock");
}

/* Each `pause` seconds, all clients try to take the lock. */
static void poll_lock(struct fixture *f, double pause)
{
	for (size_t i = 0; i < 20; i++) {
		take(f, i % CLIENTS, "lock:a");
		for (size_t j = 1; j < CLIENTS; j++)
			tracker_refused(by(f, (i + j) % CLIENTS, "lock:a"), WAY_SET_NX);
		release(f, i % CLIENTS, "lock:a");
		f->now += pause;
	}
}

TEST(who_tries_once_a_second_may_leave_its_work_out_and_gets_no_wait)
{
	poll_lock(f, 1);
	assert_told(f, "[lock a]");
	assert_not_told(f, "wait = ");
}

/* The client comes back as soon after it had the lock as after it was refused. */
TEST(who_tries_again_soon_but_always_is_told_of_a_wait_and_gets_none)
{
	poll_lock(f, 0.1);
	assert_told(f, "[lock a]");
	assert_not_told(f, "\nwait = ");
	assert_told(f, "goes on with work of its own, add wait = 1s.");
}

/* Each client has a value of its own for each lock, and repeats it until it has the lock. Else,
 * each try has a new value. */
static void insist(struct fixture *f, bool repeats)
{
	for (size_t i = 0; i < 20; i++) {
		tracker_took(by(f, i % 2, "lock:a"), WAY_SET_NX, 1000, 1000 + 2 * i);
		for (size_t j = 0; j < 4; j++) {
			by(f, (i + 1) % 2, "lock:a");
			f->act.tried = 1000 + 2 * (i + 1) + (repeats ? 0 : 1000 * j);
			tracker_refused(&f->act, WAY_SET_NX);
		}
		release(f, i % 2, "lock:a");
	}
}

TEST(who_repeats_a_value_of_its_own_wants_the_lock_for_one_piece_of_work)
{
	insist(f, true);
	assert_told(f, "\nwait = 1s\n");
}

TEST(who_tries_with_new_values_may_have_other_work_each_time)
{
	insist(f, false);
	assert_told(f, "[lock a]");
	assert_not_told(f, "\nwait = ");
}

TEST(who_waits_for_marks_to_expire_gets_no_wait)
{
	for (size_t i = 0; i < 24; i++) {
		take(f, i % 2, "lock:a");
		for (size_t j = 0; j < 5; j++)
			tracker_refused(by(f, (i + 1) % 2, "lock:a"), WAY_SET_NX);
		f->now += 0.8;
		tracker_refused(by(f, (i + 1) % 2, "lock:a"), WAY_SET_NX);
		if (i % 2)
			release(f, i % 2, "lock:a");
		f->now += 0.3;
	}
	assert_told(f, "expired without a release");
	assert_not_told(f, "wait = ");
}

/* Client 0 takes the lock 20 times. Client `looks` reads it and, if it is there, deletes it in
 * a transaction that watches the key. Each fifth lock expires first, and is read only if
 * `late`. */
static void release_watched(struct fixture *f, size_t looks, bool late)
{
	for (uint64_t i = 0; i < 20; i++) {
		tracker_took(by(f, 0, "lock:a"), WAY_SET_NX, 1000, value(f, "1") + 2 * i);
		if (i % 5 == 0) {
			f->now += 2;
			if (late)
				tracker_missed(by(f, looks, "lock:a"), false);
			continue;
		}
		tracker_read(by(f, looks, "lock:a"), READ_GET);
		by(f, looks, "lock:a");
		f->act.watches = true;
		tracker_deleted(&f->act, TRACKER_GONE);
	}
}

TEST(who_looks_before_a_watched_release_and_finds_no_lock_was_late)
{
	release_watched(f, 0, true);
	assert_told(f, "4 holders outlived the expiry of their lock");
	assert_told(f, "\n[lock a]\npattern = lock:a\nowner = value\n");
	assert_told(f, "\nrenew = yes\n");
}

TEST(it_may_look_over_another_connection_of_its_pool)
{
	release_watched(f, 1, true);
	assert_told(f, "4 holders outlived the expiry of their lock");
	assert_told(f, "some for at least 1.0 s; expiry 1.0 s\n");
	assert_not_told(f, "no lock was seen held for longer");
	assert_told(f, "\nrenew = yes\n");
}

TEST(locks_that_expired_unreleased_are_not_passed_over)
{
	release_watched(f, 0, false);
	assert_told(f, "Examined, without a section");
	assert_told(f,
	            "\n;     4 locks expired without a release, although the connection stayed "
	            "open: hasp cannot tell\n");
	assert_not_told(f, "outlived the expiry");
}

TEST(a_late_release_of_a_user_that_shares_its_connection_may_be_hidden)
{
	for (int i = 0; i < 20; i++) {
		take(f, 0, "lock:a");
		tracker_refused(by(f, 0, "lock:a"), WAY_SET_NX);
		f->now += 2;
		take(f, 0, "lock:a");
		release(f, 0, "lock:a"); /* by the first user */
	}
	assert_told(f, "20 locks expired without a release, or with a late one that");
	assert_told(f, "Question: is a lock left to expire on purpose");
	assert_told(f, "\n;renew = yes\n");
}

TEST(a_lock_that_a_script_deletes_without_a_comparison_is_no_marker)
{
	for (int i = 0; i < 30; i++) {
		take(f, 0, "lock:a");
		tracker_script(by(f, 0, "lock:a"),
		               &(struct tracker_script){ .id = 1, .nkeys = 1, .did = true });
	}
	assert_told(f, "1 pattern of keys that scripts use: hasp sees the lock");
	assert_not_told(f, "markers");
}

/* Each client sets marks, and deletes the mark of the one action that failed. */
static void set_marks(struct fixture *f, int n, size_t nclients)
{
	char key[16];

	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "sent:%d", i);
		tracker_took(by(f, (size_t)i % nclients, key), WAY_SETNX, 0, value(f, "1"));
		if (i == 0)
			release(f, 0, key);
	}
}

TEST(marks_without_an_expiry_may_be_left_on_purpose)
{
	set_marks(f, 10, 2);
	assert_told(
		f,
		"\n;   Question: is a lock left without an expiry on purpose, as a mark that "
		"something was done? 9 locks had neither an expiry nor a release.\n");
	assert_told(f, "\n;[lock sent]\n");
	assert_not_told(f, "no lock was seen held for longer");
	assert_not_told(f, "when the holder's connection closed");
	for (size_t i = 0; i < 2; i++)
		close_client(f, i);
	assert_told(f, "9 locks had neither an expiry nor a release");
	assert_told(f, "9 locks stayed without an expiry when the holder's connection closed");
}

TEST(a_mark_that_another_client_deletes_is_not_left)
{
	set_marks(f, 2, 2);
	close_client(f, 1);
	release(f, 0, "sent:1");
	assert_not_told(f, "neither an expiry nor a release");
}

TEST(a_client_that_takes_very_many_locks_did_not_close_its_connection)
{
	set_marks(f, HOLDS_MAX + 3, 1);
	assert_not_told(f, "when the holder's connection closed");
	assert_told(f, "1,026 locks had neither an expiry nor a release");
}

/* --- a lock that is taken again ----------------------------------------------------------- */

/* The client took the lock again after it had expired: it never released the first one. */
TEST(who_takes_an_expired_lock_again_has_not_outlived_it)
{
	take(f, 0, "lock:a");
	f->now += 2;
	take(f, 0, "lock:a");
	release(f, 0, "lock:a");
	assert_told(f, "1 released by the connection that took the lock");
	assert_not_told(f, "outlived the expiry");
}

static void take_for_long(struct fixture *f, size_t i, const char *own)
{
	tracker_took(by(f, i, "lock:a"), WAY_SET_NX, 900000, value(f, own));
}

static void release_by_value(struct fixture *f, size_t i, const char *own)
{
	uint64_t args[] = { value(f, own) };

	tracker_script(by(f, i, "lock:a"), &(struct tracker_script){ 1, args, 1, 1, true, 0 });
}

/* hasp learns that a script released a lock only when the lock is taken again. */
TEST(a_script_has_released_a_lock_that_its_client_takes_again)
{
	take_for_long(f, 0, "x");
	release_by_value(f, 0, "x");
	take_for_long(f, 0, "y");
	release(f, 0, "lock:a");
	assert_told(f, "taken 2 times by SET NX, released by DEL and by scripts");
	assert_told(f, "sound as far as was seen");
	assert_not_told(f, "[lock");
}

TEST(a_script_has_released_a_lock_that_another_client_takes)
{
	take_for_long(f, 0, "x");
	release_by_value(f, 0, "x");
	take_for_long(f, 1, "y");
	/* Client 0 has lost its lock: this lock is client 1's. */
	release(f, 0, "lock:a");
	assert_told(f, "released by DEL and by scripts or transactions that compare the value");
}

/* --- leaders ------------------------------------------------------------------------------ */

/* Client 0 leads. When its key has expired, client 1 leads. */
static void lead_in_turn(struct fixture *f)
{
	take(f, 0, "led");
	tracker_expires(by(f, 0, "led"), 1000);
	f->now += 2;
	take(f, 1, "led");
}

TEST(a_leader_that_uses_its_key_when_another_one_leads_is_told_of)
{
	lead_in_turn(f);
	assert_told(f, "prolonged or set again, and never released, as leaders do");
	tracker_read(by(f, 0, "led"), READ_GET);
	tracker_read(by(f, 0, "led"), READ_GET);
	lead_in_turn(f);
	tracker_expires(by(f, 0, "led"), 1000);
	lead_in_turn(f);
	tracker_wrote(by(f, 0, "led"), value(f, "1"), 1000, false);
	assert_told(f, "1 pattern of keys as leaders use them");
	assert_told(f, "\n;     such as led (3 times)\n");
}

TEST(a_leader_that_finds_its_key_expired_but_no_other_leader_is_not)
{
	take(f, 0, "led");
	tracker_expires(by(f, 0, "led"), 1000);
	f->now += 2;
	tracker_missed(by(f, 0, "led"), false);
	take(f, 1, "led");
	tracker_read(by(f, 2, "led"), READ_GET);
	assert_told(f, "as leaders do");
	assert_not_told(f, "keys as leaders use them");
}

/* --- several locks ------------------------------------------------------------------------ */

static void take_both(struct fixture *f, size_t i, const char *first, const char *second)
{
	take(f, i, first);
	take(f, i, second);
	release(f, i, second);
	release(f, i, first);
}

TEST(locks_that_clients_take_in_opposite_order_are_told_of)
{
	take_both(f, 0, "lock:a", "lock:b");
	take_both(f, 1, "lock:a", "lock:b");
	take_both(f, 1, "lock:b", "lock:a");
	assert_not_told(f, "the other way round");
	take_both(f, 0, "lock:a", "lock:b");
	assert_told(f, "1 time a client that had one lock asked for another one");
}

TEST(so_are_those_of_clients_that_wait_for_each_other)
{
	take(f, 0, "lock:a");
	take(f, 1, "lock:b");
	tracker_refused(by(f, 0, "lock:b"), WAY_SET_NX);
	assert_not_told(f, "the other way round");
	tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	release(f, 0, "lock:a");
	release(f, 1, "lock:b");
	assert_told(f, "1 time a client that had one lock asked for another one");
}

TEST(clients_wait_for_no_key_that_is_set_once_and_never_deleted)
{
	for (int i = 0; i < 2; i++) {
		size_t one = (size_t)i, other = (size_t)!i;
		take(f, one, "done:4711");
		take(f, one, "lock:a");
		release(f, one, "lock:a");
		take(f, other, "lock:a");
		tracker_refused(by(f, other, "done:4711"), WAY_SET_NX);
		release(f, other, "lock:a");
		f->now += 2;
	}
	assert_not_told(f, "the other way round");
}

TEST(holders_that_share_a_connection_may_have_one_lock_each)
{
	take(f, 0, "lock:a");
	tracker_refused(by(f, 0, "lock:a"), WAY_SET_NX);
	release(f, 0, "lock:a");
	take(f, 0, "lock:b");
	tracker_refused(by(f, 0, "lock:b"), WAY_SET_NX);
	release(f, 0, "lock:b");
	take_both(f, 0, "lock:a", "lock:b");
	take_both(f, 1, "lock:b", "lock:a");
	assert_not_told(f, "the other way round");
}

TEST(so_are_those_of_clients_that_wait_by_GETSET)
{
	swap(f, 0, "lock:a", false);
	swap(f, 1, "lock:b", false);
	swap(f, 0, "lock:b", true);
	assert_not_told(f, "the other way round");
	swap(f, 1, "lock:a", true);
	release(f, 0, "lock:a");
	release(f, 1, "lock:b");
	assert_told(f, "1 time a client that had one lock asked for another one");
}

/* --- what is sound ------------------------------------------------------------------------ */

static void hold_by_value(struct fixture *f, size_t i, const char *key, const char *own)
{
	uint64_t args[] = { value(f, "other"), value(f, own) };

	tracker_took(by(f, i, key), WAY_SET_NX, 1000, value(f, own));
	tracker_script(by(f, i, key), &(struct tracker_script){ 1, args, 2, 1, true, 0 });
}

TEST(who_compares_a_value_of_its_own_is_left_alone)
{
	hold_by_value(f, 0, "lock:a", "x");
	hold_by_value(f, 1, "lock:a", "y");
	hold_by_value(f, 0, "lock:a", "z");
	assert_told(f, "taken 3 times by SET NX, released by scripts or transactions that "
	               "compare the value");
	assert_told(f, "sound");
	assert_not_told(f, "[lock");
}

TEST(one_who_compares_but_outlives_the_expiry_is_owned_by_value_and_renewed)
{
	uint64_t late = value(f, "late");

	hold_by_value(f, 0, "lock:a", "x");
	hold_by_value(f, 1, "lock:a", "y");
	tracker_took(by(f, 0, "lock:a"), WAY_SET_NX, 1000, late);
	f->now += 2;
	tracker_script(by(f, 0, "lock:a"), &(struct tracker_script){ 1, &late, 1, 1, true, 0 });
	assert_told(f, "owner = value\nrenew = yes\n");
}

TEST(a_value_that_comes_again_is_no_owner)
{
	uint64_t late = value(f, "x");

	hold_by_value(f, 0, "lock:a", "x");
	hold_by_value(f, 1, "lock:a", "y");
	tracker_took(by(f, 0, "lock:a"), WAY_SET_NX, 1000, late);
	f->now += 2;
	tracker_script(by(f, 0, "lock:a"), &(struct tracker_script){ 1, &late, 1, 1, true, 0 });
	assert_told(f, "renew = yes\n");
	assert_not_told(f, "owner = value");
}

#define LONG_LEASE_MS 899000

static void take_long(struct fixture *f, size_t i)
{
	tracker_took(by(f, i, "clean:default"), WAY_SET_NX, LONG_LEASE_MS, value(f, "1"));
}

static void release_long(struct fixture *f, size_t i)
{
	tracker_deleted(by(f, i, "clean:default"), TRACKER_GONE);
}

TEST(a_lock_that_is_deleted_long_before_its_expiry_is_left_alone)
{
	for (size_t i = 0; i < 3; i++) {
		take_long(f, i);
		tracker_refused(by(f, (i + 1) % 3, "clean:default"), WAY_SET_NX);
		release_long(f, i);
	}
	assert_not_told(f, "[lock");
	assert_told(f, "clean:default    1 key, taken 3 times by SET NX, released by DEL\n"
	               ";     sound as far as was seen: always with an expiry, and at least "
	               "15 minutes before it when the lock was released\n"
	               ";     little evidence");
	for (size_t i = 0; i < 60; i++) {
		take_long(f, i % 3);
		release_long(f, i % 3);
	}
	assert_told(f, "sound as far as was seen");
	assert_not_told(f, "little evidence");
}

/* A scheduler does this if it forks after taking the lock. */
TEST(so_is_one_that_another_connection_of_the_address_renews_and_deletes)
{
	take_long(f, 0);
	for (int i = 0; i < 100; i++) {
		f->now += 60;
		tracker_expires(by(f, 1, "clean:default"), LONG_LEASE_MS);
	}
	release_long(f, 1);
	assert_not_told(f, "[lock");
	assert_told(f, "at least 14 minutes before it");
}

TEST(not_so_one_that_a_stranger_deletes)
{
	take_long(f, 0);
	release_long(f, CLIENTS - 1);
	close_client(f, 0);
	assert_told(f, "[lock clean-default]");
}

TEST(nor_one_whose_holder_came_near_its_expiry)
{
	take_long(f, 0);
	release_long(f, 0);
	assert_not_told(f, "[lock");
	take_long(f, 1);
	f->now += 100;
	release_long(f, 1);
	assert_told(f, "[lock clean-default]");
	assert_told(f, "no harm was seen:");
}

TEST(nor_one_whose_holder_came_near_it_before_it_set_it_again)
{
	take_long(f, 0);
	f->now += 890;
	tracker_expires(by(f, 0, "clean:default"), LONG_LEASE_MS);
	release_long(f, 0);
	assert_told(f, "[lock clean-default]");
}

TEST(nor_one_that_was_outlived)
{
	take_long(f, 0);
	f->now += 900;
	take_long(f, 1);
	release_long(f, 0);
	assert_told(f, "[lock clean-default]");
	assert_told(f, "1 release removed another holder's lock");
	assert_told(f, "1 holder outlived the expiry");
	assert_told(f, "renew = yes\n");
}

/* A client that did not get the lock deletes it, too, and another time the lock exists. */
TEST(nor_one_that_is_also_deleted_in_vain)
{
	take_long(f, 0);
	release_long(f, 0);
	tracker_deleted(by(f, 1, "clean:default"), TRACKER_WAS_GONE);
	assert_told(f, "[lock clean-default]");
}

TEST(nor_one_that_losers_delete)
{
	take_long(f, 0);
	tracker_refused(by(f, 1, "clean:default"), WAY_SET_NX);
	release_long(f, 1);
	tracker_deleted(by(f, 0, "clean:default"), TRACKER_WAS_GONE);
	assert_told(f, "[lock clean-default]");
	assert_told(f, "1 release removed another holder's lock");
}

TEST(what_is_never_released_is_a_marker)
{
	take(f, 0, "seen:1");
	take(f, 0, "seen:2");
	assert_told(
		f, "1 pattern of keys that were set by NX, and that hasp did not see released");
	assert_not_told(f, "[lock");
}

/* --- waiting ------------------------------------------------------------------------------ */

TEST(tries_that_are_made_again_become_a_wait)
{
	take(f, 0, "lock:a");
	for (int i = 0; i < 150; i++)
		tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	release(f, 0, "lock:a");
	take(f, 1, "lock:a");
	release(f, 1, "lock:a");
	assert_told(f, "wait = 2s\n");
}

/* Client 1 tries three times in 20 ms, gets the lock 20 ms later, and releases it. */
static void try_and_get(struct fixture *f, const char *key)
{
	take(f, 0, key);
	for (int i = 0; i < 3; i++)
		tracker_refused(by(f, 1, key), WAY_SET_NX);
	release(f, 0, key);
	take(f, 1, key);
	release(f, 1, key);
}

/* Client 1 tries to take the lock, and has pipelined `n` commands so far. */
static void try_with_pipelined(struct fixture *f, uint32_t n)
{
	by(f, 1, "lock:a");
	f->act.npipelined = n;
	tracker_refused(&f->act, WAY_SET_NX);
}

/* A wait would delay the other commands. */
TEST(a_connection_that_has_several_uses_at_a_time_gets_no_wait)
{
	try_and_get(f, "lock:a");
	assert_told(f, "\nwait = 1s\n");
	assert_told(f, "Remove wait if a refused client leaves its work out.\n");
	f->now += 1;
	take(f, 0, "lock:a");
	try_with_pipelined(f, 7);
	try_with_pipelined(f, 7);
	assert_told(f, "\nwait = 1s\n");
	try_with_pipelined(f, 8);
	assert_not_told(f, "wait =");
	assert_told(f, "a wait would delay those");
}

TEST(nor_does_one_that_uses_another_key_between_its_tries)
{
	try_and_get(f, "lock:a");
	f->now += 1;
	take(f, 0, "lock:a");
	tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	tracker_read(by(f, 1, "lock:a"), READ_GET);
	tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	assert_told(f, "\nwait = 1s\n");
	tracker_read(by(f, 1, "page:1"), READ_GET);
	tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	assert_not_told(f, "wait =");
	assert_told(f, "a wait would delay those");
}

TEST(a_wait_ends_with_the_lock)
{
	for (int i = 0; i < 10; i++) {
		try_and_get(f, "lock:a");
		f->now += 1.5;
	}
	assert_told(f, "clients repeated attempts that were refused, for 41 ms (p90)");
	assert_told(f, "wait = 1s\n");
}

TEST(who_gets_the_lock_at_once_has_not_waited)
{
	try_and_get(f, "lock:a");
	for (int i = 0; i < 20; i++) {
		f->now += 1;
		take(f, 1, "lock:a");
		release(f, 1, "lock:a");
	}
	assert_told(f, "clients repeated attempts that were refused, for 41 ms (p90)");
}

TEST(who_gets_the_lock_long_after_its_last_try_has_not_waited)
{
	take(f, 0, "lock:a");
	for (int i = 0; i < 3; i++)
		tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	release(f, 0, "lock:a");
	f->now += 3;
	take(f, 1, "lock:a");
	release(f, 1, "lock:a");
	assert_not_told(f, "wait =");
}

TEST(a_try_long_after_the_last_one_is_another_wait)
{
	take(f, 0, "lock:a");
	for (int i = 0; i < 10; i++) {
		f->now += 3;
		tracker_refused(by(f, 1, "lock:a"), WAY_SET_NX);
	}
	release(f, 0, "lock:a");
	assert_not_told(f, "wait =");
}

TEST(none_where_a_connection_refuses_itself)
{
	take(f, 0, "lock:a");
	for (int i = 0; i < 10; i++)
		tracker_refused(by(f, 0, "lock:a"), WAY_SET_NX);
	release(f, 0, "lock:a");
	assert_not_told(f, "wait =");
}

/* --- guards ------------------------------------------------------------------------------- */

static void read_value(struct fixture *f, size_t i)
{
	tracker_read(by(f, i, "stock:7"), READ_GET);
}

static void write_value(struct fixture *f, size_t i, const char *s)
{
	tracker_wrote(by(f, i, "stock:7"), value(f, s), 0, false);
}

TEST(a_write_over_another_s_is_a_lost_update)
{
	write_value(f, 0, "10");
	read_value(f, 1);
	read_value(f, 2);
	write_value(f, 1, "9");
	write_value(
		f, 2,
		"9"); /* the same value again is a lost update, too: it should have been 8 */
	assert_told(f, "1 write overwrote");
	assert_told(f, "[guard stock]\npattern = stock:*\nacquire_on = GET\nwait = 2s\n");
}

TEST(hashes_that_are_read_mostly_get_a_question)
{
	write_value(f, 0, "10");
	for (size_t i = 0; i < CLIENTS; i++)
		tracker_read(by(f, i, "stock:7"), READ_HGET);
	write_value(f, 1, "9");
	write_value(f, 2, "8");
	assert_told(f, "2 reads had no write back");
	assert_told(f, "strategy = check, which lets readers pass, guards strings only");
	assert_told(f, ";[guard stock]\n;pattern = stock:*\n;acquire_on = HGET\n;wait = 10s\n");
}

/* Two clients update at once, `n` times. */
static void update_twice(struct fixture *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		read_value(f, 0);
		read_value(f, 1);
		write_value(f, 0, "9");
		write_value(f, 1, "8");
	}
}

TEST(a_few_reads_without_a_write_need_a_wait_that_outlasts_their_leases)
{
	update_twice(f, 60);
	assert_not_told(f, "had no write back");
	assert_told(f, "acquire_on = GET\nwait = 2s\n");
	read_value(f, 2);
	assert_told(f,
	            ";   1 read had no write back: each keeps other clients waiting until the "
	            "lease of its guard ends.\n");
	assert_told(f, "acquire_on = GET\nwait = 10s\n");
}

/* Clients compare, and the value was different: a guard would refuse each such write. */
TEST(a_guard_that_few_reads_would_keep_for_nothing_checks_only)
{
	update_twice(f, 30);
	assert_told(f, "acquire_on = GET\nwait = 2s\n");
	read_value(f, 2);
	assert_told(f, "1 read had no write back: strategy = check");
	assert_told(f, "acquire_on = GET\nstrategy = check\nmode");
}

TEST(reads_of_no_value_would_keep_it_too_unless_one_is_written)
{
	update_twice(f, 30);
	for (size_t i = 0; i < 3; i++) {
		release(f, 0, "stock:7");
		tracker_missed(by(f, 0, "stock:7"), false);
		write_value(f, 0, "9");
	}
	release(f, 0, "stock:7");
	tracker_missed(by(f, 2, "stock:7"), true);
	assert_told(f, "acquire_on = GET\nwait = 2s\n");
	tracker_missed(by(f, 2, "stock:7"), false);
	assert_told(f, "acquire_on = GET\nstrategy = check\nmode");
}

static void refill(struct fixture *f, size_t i)
{
	release(f, i, "turns:7");
	tracker_used(by(f, i, "turns:7"), true);
}

TEST(lists_that_are_read_and_filled_again_over_others_are_told_of)
{
	tracker_used(by(f, 0, "turns:7"), true);
	for (size_t i = 0; i < 3; i++) {
		tracker_listed(by(f, 0, "turns:7"));
		tracker_listed(by(f, 1, "turns:7"));
		refill(f, 0);
		refill(f, 1);
		refill(f, 1);
	}
	assert_told(f, "1 pattern of lists that a client read, deleted and filled again");
	assert_told(f,
	            "had changed the list since the read:\n;     such as turns:* (3 times)\n");
}

TEST(a_guard_is_waited_for_longer_where_many_come_and_take_long)
{
	write_value(f, 0, "10");
	for (size_t i = 0; i < CLIENTS; i++)
		read_value(f, i);
	f->now += 3;
	for (size_t i = 0; i < CLIENTS; i++)
		write_value(f, i, "9");
	assert_told(f, "up to 4 connections at once");
	assert_told(f, "lease = 9s\nwait = 30s\n");
}

TEST(a_client_that_writes_back_what_it_has_read_overwrites_too)
{
	write_value(f, 0, "10");
	read_value(f, 1);
	write_value(f, 0, "11");
	write_value(f, 1, "10");
	assert_told(f, "1 write overwrote what another connection had written");
}

#define LIFE_MS 60000

/* The client writes back a value that no client wrote before. */
static void write_back(struct fixture *f, size_t i, const char *key)
{
	char s[40];

	snprintf(s, sizeof(s), "%f", f->now);
	tracker_wrote(by(f, i, key), value(f, s), LIFE_MS, false);
}

/* Clients 1 and 2 read a value written `age` seconds ago, and write a new one. */
static void refresh(struct fixture *f, const char *key, double age)
{
	f->now += age;
	tracker_read(by(f, 1, key), READ_GET);
	tracker_read(by(f, 2, key), READ_GET);
	write_back(f, 1, key);
	write_back(f, 2, key);
}

TEST(a_cache_that_is_refreshed_early_is_proposed_as_a_comment)
{
	struct discovery_progress p;

	write_back(f, 0, "page:7");
	for (int i = 0; i < 3; i++)
		refresh(f, "page:7", 50);
	assert_told(f, "3 writes overwrote what another connection had written since the read\n"
	               ";   each write set an expiry of at most 60.0 s, and most of it");
	assert_told(f, "looks like a cache that is refreshed early");
	assert_told(f, "\n;[guard page]\n;pattern = page:*\n;acquire_on = GET\n;wait = 2s\n"
	               ";mode = observe          ; then enforce\n\n");
	assert_not_told(f, "\n[guard");
	discovery_count(f->tracker, f->now, &p);
	assert_int_equal(0, p.harm);
}

/* Client 3 sent its read before client 1 got its answer; it got the old value, and hasp saw
 * its reply later. */
TEST(a_read_that_crosses_the_write_does_not_make_it_a_cart)
{
	struct tracker_act late;

	write_back(f, 0, "page:7");
	f->now += 50;
	tracker_read(by(f, 1, "page:7"), READ_GET);
	tracker_read(by(f, 2, "page:7"), READ_GET);
	late = *by(f, 3, "page:7");
	write_back(f, 1, "page:7");
	late.now = by(f, 3, "page:7")->now;
	tracker_read(&late, READ_GET);
	write_back(f, 2, "page:7");
	write_back(f, 3, "page:7");
	assert_told(f, "2 writes overwrote");
	assert_told(f, "page:*    1 key, read and written back 3 times\n;");
	assert_told(f, "looks like a cache that is refreshed early");
}

TEST(a_cart_that_expires_is_not_taken_for_a_cache)
{
	struct discovery_progress p;

	write_back(f, 0, "cart:7");
	refresh(f, "cart:7", 50);
	for (int i = 0; i < 3; i++)
		refresh(f, "cart:7", 1);
	assert_told(
		f,
		"4 writes overwrote what another connection had written since the read: lost");
	assert_told(f, "each write set an expiry of at most 60.0 s: if the values come "
	               "from another source, as those of a cache, leave this section out\n");
	assert_told(f, "\n[guard cart]\npattern = cart:*\n");
	discovery_count(f->tracker, f->now, &p);
	assert_int_equal(4, p.harm);
}

TEST(nor_is_one_that_is_once_written_without_an_expiry)
{
	write_back(f, 0, "cart:7");
	refresh(f, "cart:7", 50);
	f->now += 50;
	tracker_read(by(f, 1, "cart:7"), READ_GET);
	tracker_wrote(by(f, 1, "cart:7"), value(f, "x"), 0, false);
	assert_told(f, "\n[guard cart]\n");
	assert_not_told(f, "set an expiry");
}

/* EXPIRE renews the key, as for a session in use. */
TEST(nor_is_one_that_is_kept_alive)
{
	write_back(f, 0, "cart:7");
	f->now += 50;
	tracker_expires(by(f, 0, "cart:7"), LIFE_MS);
	refresh(f, "cart:7", 1);
	assert_told(f, "\n[guard cart]\n");
}

TEST(caches_and_carts_do_not_share_a_pattern)
{
	static const char *const keys[] = { "app:one:7", "app:two:7", "app:three:7",
		                            "app:cart:7" };

	for (size_t i = 0; i < 4; i++) {
		write_back(f, 0, keys[i]);
		refresh(f, keys[i], i < 3 ? 50 : 1);
	}
	assert_told(f, "\n;pattern = app:one:*\n");
	assert_told(f, "\npattern = app:cart:*\n");
}

/* Transfers between accounts do this: with guards, two that pay each other would wait for each
 * other. */
TEST(clients_that_read_several_keys_before_they_write_them_get_no_guard)
{
	for (size_t i = 0; i < 2; i++) {
		tracker_read(by(f, i, "money:1"), READ_GET);
		tracker_read(by(f, i, "money:2"), READ_GET);
	}
	for (size_t i = 0; i < 2; i++) {
		tracker_wrote(by(f, i, "money:1"), value(f, i ? "3" : "4"), 0, false);
		tracker_wrote(by(f, i, "money:2"), value(f, i ? "5" : "6"), 0, false);
	}
	assert_not_told(f, "[guard");
	assert_told(f, "2 lost updates seen, but connections read several keys");
}

TEST(what_one_command_reads_is_guarded_at_once)
{
	struct tracker_act a;

	for (size_t i = 0; i < 2; i++) {
		a = *by(f, i, "money:1");
		tracker_read(&a, READ_MGET);
		a.key = slice_str("money:2");
		tracker_read(&a, READ_MGET);
	}
	for (size_t i = 0; i < 2; i++) {
		tracker_wrote(by(f, i, "money:1"), value(f, i ? "3" : "4"), 0, false);
		tracker_wrote(by(f, i, "money:2"), value(f, i ? "5" : "6"), 0, false);
	}
	assert_told(f, "[guard money]\npattern = money:*\nacquire_on = MGET\n");
}

/* A cache: the key expired, and each client fills it. */
TEST(what_was_missed_is_not_written_back)
{
	write_value(f, 0, "10");
	read_value(f, 1);
	read_value(f, 2);
	tracker_deleted(by(f, 0, "stock:7"), TRACKER_GONE);
	for (size_t i = 1; i < 3; i++)
		tracker_missed(by(f, i, "stock:7"), false);
	write_value(f, 1, "11");
	write_value(f, 2, "12");
	assert_not_told(f, "[guard");
	assert_not_told(f, "written back 1 time");
}

TEST(caches_that_several_fill_at_once_are_told_of)
{
	for (size_t i = 0; i < 2; i++)
		tracker_missed(by(f, i, "page:7"), false);
	for (size_t i = 0; i < 2; i++)
		tracker_wrote(by(f, i, "page:7"), value(f, "x"), 1000, false);
	tracker_missed(by(f, 0, "user:7"), false);
	tracker_wrote(by(f, 0, "user:7"), value(f, "x"), 1000, false);
	tracker_missed(by(f, 1, "user:7"), false);
	tracker_wrote(by(f, 1, "user:7"), value(f, "x"), 1000, false);
	assert_told(f, ";   1 pattern of keys that several clients found missing and then set");
	assert_told(f, ";   1 pattern of other keys");
}

TEST(who_has_set_a_marker_is_not_under_a_lock)
{
	char key[40];

	for (unsigned i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "seen:%u", i);
		take(f, 0, key);
	}
	write_value(f, 1, "10");
	read_value(f, 0);
	write_value(f, 1, "9");
	write_value(f, 0, "9");
	assert_told(f, "[guard stock]");
}

TEST(under_a_lock_the_lock_has_to_hold)
{
	take(f, 0, "lock:7");
	release(f, 0, "lock:7");
	take(f, 0, "lock:7");
	read_value(f, 0);
	write_value(f, 1, "9");
	write_value(f, 0, "9");
	release(f, 0, "lock:7");
	assert_not_told(f, "[guard");
	assert_told(f, "cure the lock, not this key");
}

TEST(work_after_a_lock_that_was_forgotten_is_not_under_it)
{
	for (size_t i = 0; i < 3; i++) {
		take(f, 0, "lock:7");
		release(f, 0, "lock:7");
		take(f, 0, "lock:7");
		if (i < 2) {
			read_value(f, 0);
			write_value(f, 1, "8");
			write_value(f, 0, "9");
		}
		if (i == 1)
			release(f, 0, "lock:7");
		f->now += 2;
	}
	assert_told(f, "1 write under this lock overwrote another client's");
}

TEST(work_that_outlives_a_lock_that_is_not_released_asks_for_renewal)
{
	for (size_t i = 0; i < 5; i++) {
		take(f, 1, "lock:7");
		release(f, 1, "lock:7");
		take(f, 0, "lock:7");
		read_value(f, 0);
		f->now += 2;
		write_value(f, 0, "9");
	}
	assert_told(f, "5 holders outlived the expiry of their lock:");
	assert_told(f, "\nrenew = yes\n");
}

TEST(connections_of_one_address_work_under_each_other_s_locks)
{
	take(f, 1, "lock:8");
	release(f, 1, "lock:8");
	take(f, 0, "lock:7");
	read_value(f, 1);
	write_value(f, 3, "9");
	write_value(f, 1, "9");
	release(f, 0, "lock:7");
	assert_told(f,
	            "nearly all writes came while a connection of the writer's address or name "
	            "held a lock, such as lock:*.\n");
}

TEST(a_guard_is_proposed_where_one_write_in_ten_is_outside_such_locks)
{
	read_value(f, 1);
	write_value(f, 1, "10");
	take(f, 1, "lock:8");
	release(f, 1, "lock:8");
	take(f, 0, "lock:7");
	read_value(f, 1);
	write_value(f, 3, "9");
	write_value(f, 1, "9");
	for (size_t i = 0; i < 8; i++) {
		read_value(f, 1);
		write_value(f, 1, "8");
	}
	assert_told(f, "1 write overwrote what another connection had written since the read");
	assert_told(f, "read and written back 10 times");
	assert_not_told(f, "nearly all writes came while a connection");
	read_value(f, 1);
	write_value(f, 1, "7");
	assert_told(f, "nearly all writes came while a connection");
}

TEST(connections_that_rarely_read_twice_have_one_user)
{
	read_value(f, 0);
	for (size_t i = 0; i < 10; i++) {
		read_value(f, 0);
		write_value(f, 0, "9");
	}
	assert_told(f, "no update was lost");
	assert_not_told(f, "several users share a connection");
	read_value(f, 0);
	read_value(f, 0);
	write_value(f, 0, "9");
	assert_told(f, "if several users share a connection");
}

/* --- patterns ----------------------------------------------------------------------------- */

static void use_lock(struct fixture *f, const char *key)
{
	take(f, 0, key);
	release(f, 0, key);
}

TEST(one_key_is_its_own_pattern_and_several_are_one)
{
	use_lock(f, "v2:lock");
	use_lock(f, "job1:lock");
	use_lock(f, "job2:lock");
	assert_told(f, "pattern = v2:lock\n");
	assert_told(f, "pattern = job*:lock\n");
}

TEST(a_star_in_a_key_is_no_part_that_varies)
{
	use_lock(f, "*:a*b:lock");
	use_lock(f, "*:c:lock");
	assert_told(f, "pattern = \\*:a\\*b:lock\n");
	assert_told(f, "pattern = \\*:c:lock\n");
}

TEST(words_that_vary_are_one_pattern_unless_that_catches_others)
{
	use_lock(f, "lock:red");
	use_lock(f, "lock:green");
	assert_told(f, "pattern = lock:red\n"); /* two keys are too few for a pattern */
	use_lock(f, "lock:blue");
	assert_told(f, "[lock all]\npattern = lock:*\n");
	tracker_used(by(f, 0, "lock:paint:list"), true);
	assert_told(f, "pattern = lock:red\n");
}

TEST(words_between_other_separators_vary_too)
{
	static const char *const rows[][4] = {
		{ "cron-lock-cleanup", "cron-lock-daily_report", "cron-lock-send_mails",
		  "cron-lock-*" },
		{ "jobs.red.lock", "jobs.green.lock", "jobs.blue.lock", "jobs.*.lock" },
		{ "lock_red", "lock_green", "lock_dark_blue", "pattern = lock_red" },
		{ "q:red-1:lock", "q:green-1:lock", "q:blue-1:lock", "pattern = q:*:lock\n" },
		{ "m:ann.roe:lock", "m:ben.doe:lock", "m:cid:lock", "m:*:lock" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		for (size_t j = 0; j < 3; j++)
			use_lock(f, rows[i][j]);
		assert_told(f, rows[i][3]);
	}
	use_lock(f, "lock_blue");
	assert_told(f, "pattern = lock_*\n");
	for (int i = 0; i < 70; i++) {
		char key[] = "cart-aa-lock";
		key[5] += (char)(i / 10);
		key[6] += (char)(i % 10);
		use_lock(f, key);
	}
	assert_told(f, "pattern = cart-*-lock\n");
	assert_true(f->tracker->key_patterns.n < 90);
}

/* The first part often is the name of the application: a few are no pattern. */
TEST(users_names_in_front_are_one_pattern_if_there_are_many)
{
	static const char *const names[] = { "ann", "ben", "cid", "dot", "eve", "fay", "gus" };
	char key[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(key, sizeof(key), "%s:lock", names[i]);
		use_lock(f, key);
	}
	assert_told(f, "pattern = ann:lock\n");
	use_lock(f, "hal:lock");
	assert_told(f, "[lock all]\npattern = *:lock\n");
	assert_not_told(f, "ann");
	tracker_used(by(f, 0, "pad:lock"), true);
	assert_told(f, "pattern = ann:lock\n");
}

/* Both variable parts become a `*`, whichever of them the varying words are in. */
TEST(words_beside_a_part_that_varies_are_one_pattern_with_it)
{
	use_lock(f, "lock:order:4711:17");
	use_lock(f, "lock:order:4711:main");
	assert_told(f, "pattern = lock:order:*:*\n");
	assert_not_told(f, "main\n");
}

static void use_lock_for(struct fixture *f, const char *key, int64_t lease_ms)
{
	tracker_took(by(f, 0, key), WAY_SETNX, lease_ms, value(f, "1"));
	release(f, 0, key);
}

/* One section for both locks would be wrong for one of them. */
TEST(locks_that_are_not_used_alike_have_patterns_of_their_own)
{
	use_lock(f, "lock:red");
	use_lock(f, "lock:green");
	use_lock_for(f, "lock:blue", 1000);
	assert_told(f, "pattern = lock:red\n");
	assert_told(f, "pattern = lock:green\n");
	assert_told(f, "pattern = lock:blue\n");
	/* A pattern for the first three keys would match the last one. */
	use_lock(f, "lock:white");
	assert_told(f, "pattern = lock:red\n");
}

TEST(a_pattern_stands_behind_the_narrower_ones_that_it_matches)
{
	const char *narrow, *wide;

	use_lock(f, "lock:7");
	use_lock_for(f, "lock:7:pay", 20000);
	use_lock_for(f, "lock:8:pay", 20000);
	narrow = strstr(report(f), "pattern = lock:*:pay\n");
	wide = strstr(f->report, "pattern = lock:*\n");
	assert_non_null(narrow);
	assert_non_null(wide);
	assert_true(narrow < wide);
}

/* Uses enough different words that later ones share one pattern. */
static void use_words(struct fixture *f, const char *before, const char *behind)
{
	char word[4] = "axa", key[32];

	for (unsigned i = 0; i < 64; i++) {
		word[0] = (char)('a' + i / 8);
		word[2] = (char)('a' + i % 8);
		snprintf(key, sizeof(key), "%s%s%s", before, word, behind);
		tracker_used(by(f, 0, key), true);
	}
}

/* k:one:* matches the key of k:*:two:*, which matches that of k:*:three, which matches the
 * first. */
TEST(patterns_that_match_each_other_s_keys_in_a_circle_are_told)
{
	use_words(f, "k:one:5:", "");
	use_lock(f, "k:one:5:three");
	use_words(f, "k:7:", ":three");
	use_lock(f, "k:7:two:three");
	use_words(f, "k:", ":two:9");
	use_lock(f, "k:one:two:9");
	assert_told(f, "; k:one:*:* ");
	assert_told(f, "; k:*:*:three ");
	assert_told(f, "; k:*:two:* ");
}

/* hasp keeps only one of the keys k:WORD that come after many others. */
TEST(a_pattern_that_may_match_one_of_very_many_words_gets_a_question)
{
	static const char *const values[] = { "k:writer7", "k:writer8" };

	use_lock(f, "k:worker7");
	use_lock(f, "k:worker8");
	use_lock(f, "k:worker7:pay");
	use_lock(f, "k:worker8:pay");
	use_lock(f, "k:leader");
	for (size_t i = 0; i < 2; i++) {
		for (size_t j = 0; j < 2; j++)
			tracker_read(by(f, j, values[i]), READ_GET);
		for (size_t j = 0; j < 2; j++)
			tracker_wrote(by(f, j, values[i]), value(f, "a"), 0, false);
	}
	assert_told(f, "\n[lock k-worker]\n");
	assert_told(f, "\n[guard k-writer]\n");
	use_words(f, "k:", "");
	tracker_used(by(f, 0, "k:workers"), true);
	assert_told(
		f, "Question: are all keys that the pattern matches such locks? There were too "
		   "many names of the form k:* to");
	assert_told(f, "\n;[lock k-worker]\n;pattern = k:worker*\n");
	assert_told(f, "Question: are all keys that the pattern matches such values?");
	assert_told(f, "\n;[guard k-writer]\n;pattern = k:writer*\n");
	assert_told(f, "\n[lock k-worker-pay]\npattern = k:worker*:pay\n");
	assert_told(f, "\n[lock k-leader]\npattern = k:leader\n");
}

TEST(the_star_of_a_shape_stands_for_a_word_within_one_part)
{
	static const struct {
		const char *pattern, *key_pattern;
		bool may_match;
	} rows[] = {
		{ "a:*", "a:*", true },       { "a:b*", "a:*", true },
		{ "a:*b", "a:*", true },      { "a:b*c", "a:*d", false },
		{ "a:b*", "a:*:c", true },    { "a:b*:d", "a:*:c", false },
		{ "a:b*:c", "a:*", false },   { "a:b*:c", "a:*:*", true },
		{ "a:*:c", "a:*:b:c", true }, { "a|*|c", "a|*", false },
		{ "a/*/c", "a/*", false },    { "a:b", "a:*", true },
		{ "a:b", "a:b*", true },      { "a:b", "a:bc*", false },
		{ "a:bc", "a:b", false },     { "a:?*", "a:b*", true },
		{ "a:?", "a:", false },       { "a:b", "a:?", true },
		{ "a:\\*", "a:b*", false },   { "a:\\*", "a:*", true },
		{ "b:*", "a:*", false },      { "*", "a:*", true },
		{ "*:x", "a:*:*", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (parts_may_match(slice_str(rows[i].pattern),
		                    slice_str(rows[i].key_pattern)) != rows[i].may_match)
			fail_msg("%s %s", rows[i].pattern, rows[i].key_pattern);
}

/* Else users' names would fill the memory, and later keys would find none. */
TEST(words_of_which_there_are_very_many_have_one_key_pattern)
{
	char key[40];

	for (unsigned i = 0; i < 3 * TRACKER_SHAPES_MAX; i++) {
		snprintf(key, sizeof(key), "cart:%c%c%c%c:v1", 'a' + i % 26, 'a' + i / 26 % 26,
		         'a' + i / 676 % 26, 'a' + i / 17576 % 26);
		tracker_used(by(f, 0, key), true);
	}
	use_lock(f, "late:lock");
	assert_told(f, "[lock late]");
	assert_told(f, ";   65 patterns of other keys");
}

TEST(so_have_very_many_words_in_front_of_another_but_not_words_alone)
{
	char key[40];

	for (unsigned i = 0; i < TRACKER_SHAPES_MAX / 2; i++) {
		snprintf(key, sizeof(key), "%c%c%c:cart", 'a' + i % 26, 'a' + i / 26 % 26,
		         'a' + i / 676 % 26);
		tracker_used(by(f, 0, key), true);
	}
	assert_told(f, ";   65 patterns of other keys");
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%c%c", 'a' + i % 26, 'a' + i / 26 % 26);
		tracker_used(by(f, 0, key), true);
	}
	assert_told(f, ";   165 patterns of other keys");
}

TEST(a_pattern_with_keys_of_other_use_is_not_proposed)
{
	use_lock(f, "item:1");
	tracker_used(by(f, 0, "item:2"), true);
	assert_not_told(f, "[lock");
	assert_told(f, "1 key of this pattern had other uses");
}

TEST(names_without_anything_fixed_are_not_proposed)
{
	use_lock(f, "4711");
	use_lock(f, "{42}:7");
	assert_not_told(f, "[lock");
	assert_told(f, "; *    1 key");
	assert_told(f, "; {*}:*    1 key");
	assert_told(f, "these names have no fixed part");
}

/* --- a result so far ---------------------------------------------------------------------- */

TEST(a_report_so_far_ends_nothing)
{
	struct buf out = BUF_INIT;
	uint64_t mine = value(f, "1");

	take(f, 0, "lock:a");
	/* A client that knows the value releases or extends the lock. */
	tracker_script(by(f, 0, "lock:a"), &(struct tracker_script){ 1, &mine, 1, 1, true, 0 });
	f->now += 75;
	put_report(f, true, &out);
	assert_true(slice_starts(
		buf_slice(&out),
		SLICE_LIT("; hasp watched redis:6379 for 75.0 s: 1,204 commands on "
	                  "keys, from 0 connections.\n")));
	buf_release(&out);
	release(f, 0, "lock:a");
	assert_told(f, "released by DEL\n");
}

TEST(what_comes_meanwhile_does_not_change_a_snapshot)
{
	struct discovery_snapshot *s;
	struct buf out = BUF_INIT;

	take(f, 0, "lock:a");
	release(f, 0, "lock:a");
	s = discovery_snapshot_new(f->tracker, true, f->now);
	take(f, 0, "lock:b");
	release(f, 0, "lock:b");
	tracker_clear(f->tracker, f->now);
	discovery_report(s, &f->result, &out);
	discovery_snapshot_free(s);
	buf_append(&out, slice_of("", 1));
	assert_non_null(strstr(buf_head(&out), "; lock:a    1 key, taken 1 time"));
	assert_null(strstr(buf_head(&out), "lock:b"));
	buf_release(&out);
	assert_not_told(f, "lock:a");
}

/* --- beside sections in force ------------------------------------------------------------- */

static bool covers_orders(void *arg, struct slice key)
{
	(void)arg;
	return key.n >= 10 && memcmp(key.p, "lock:order", 10) == 0;
}

static bool has_stock(void *arg, bool is_guard, const char *name)
{
	(void)arg;
	return !is_guard && strcmp(name, "stock") == 0;
}

TEST(what_a_section_has_by_now_is_not_proposed_and_keeps_no_pattern_narrow)
{
	f->result.covers = covers_orders;
	use_lock(f, "lock:order:7");
	use_lock(f, "lock:stock:7");
	assert_told(f, "pattern = lock:stock:*\n");
	assert_not_told(f, "lock:order");
	assert_told(f, ";   1 pattern of keys that a section in force covers\n");
}

TEST(a_section_gets_a_name_that_no_other_has)
{
	f->result.has_section = has_stock;
	use_lock(f, "lock:stock");
	use_lock(f, "stock:lock");
	assert_told(f, "[lock stock-2]\npattern = lock:stock\n");
	assert_told(f, "[lock stock-3]\npattern = stock:lock\n");
}

TEST(beside_others_there_are_new_sections_only)
{
	f->result.listen = NULL;
	use_lock(f, "lock:stock");
	assert_not_told(f, "[hasp]");
	assert_told(f, "\n\n; lock:stock ");
	assert_not_told(f, "such as");
	f->result.examples = true;
	assert_told(f, ";   such as lock:stock\n");
}

/* Else keys that the lock protects would seem to be written without a lock. */
TEST(who_has_a_lock_of_a_section_in_force_is_under_a_lock)
{
	struct tracker_act a;

	a = *by(f, 0, "lock:in-force");
	a.group = tracker_covered(f->tracker);
	tracker_took(&a, WAY_SET_NX, 1000, value(f, "1"));
	read_value(f, 0);
	write_value(f, 1, "5");
	write_value(f, 0, "4");
	assert_told(f, "written by holders of a lock");
	assert_not_told(f, "[guard");
	assert_not_told(f, "in-force");

	a = *by(f, 2, "stock:7");
	a.under_lock = true;
	tracker_read(&a, READ_GET);
	write_value(f, 1, "3");
	write_value(f, 2, "2");
	assert_not_told(f, "[guard");
}

TEST(what_was_cleared_is_forgotten_but_for_the_clients)
{
	use_lock(f, "lock:stock");
	take(f, 0, "lock:held");
	tracker_read(by(f, 0, "stock:7"), READ_GET);
	tracker_client_count(f->tracker, f->clients[0]);
	assert_told(f, " from 1 connection.");
	tracker_clear(f->tracker, f->now);
	assert_not_told(f, "lock:stock");
	assert_told(f, " from 0 connections.");
	tracker_client_count(f->tracker, f->clients[0]);
	tracker_client_count(f->tracker, f->clients[0]);
	assert_told(f, " from 1 connection.");
	tracker_deleted(by(f, 0, "lock:held"), TRACKER_GONE);
	use_lock(f, "lock:again");
	assert_told(f, "[lock again]");
}

/* If the hash were known, a client could choose keys that collide. */
TEST(each_map_of_keys_is_hashed_by_the_secret_also_after_a_clear)
{
	struct map plain = { 0 };
	struct slice key = SLICE_LIT("stock:*");

	for (int i = 0; i < 2; i++) {
		assert_int_not_equal(map_hash(&f->tracker->keys, key), map_hash(&plain, key));
		assert_int_not_equal(map_hash(&f->tracker->key_patterns, key),
		                     map_hash(&plain, key));
		assert_int_not_equal(map_hash(&f->tracker->places, key), map_hash(&plain, key));
		tracker_clear(f->tracker, f->now);
	}
}

/* --- memory ------------------------------------------------------------------------------- */

TEST(memory_is_bounded_and_single_keys_are_not_lost_by_it)
{
	char key[40];

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(key, sizeof(key), "page:%u", i);
		tracker_used(by(f, 0, key), true);
	}
	use_lock(f, "lock:stock");
	take(f, 1, "lock:stock");
	release(f, 2, "lock:stock");
	tracker_deleted(by(f, 1, "lock:stock"), TRACKER_WAS_GONE);
	assert_told(f, "[lock stock]");
	assert_told(f, "Not followed, for lack of memory");
}

TEST(all_that_is_known_of_keys_is_within_the_bound)
{
	static const uint8_t secret[SIPHASH_SECRET_SIZE] = { 7 };
	size_t before, now, most = 0;
	char key[40];

	tracker_free(f->tracker);
	before = heap_nbytes();
	f->tracker = tracker_new(secret, SMALL_MEMORY, f->now);
	for (unsigned i = 0; i < 50000; i++) {
		snprintf(key, sizeof(key), "page:%u", i);
		tracker_used(by(f, 0, key), true);
		snprintf(key, sizeof(key), "job:%u", i);
		take(f, i % CLIENTS, key);
		snprintf(key, sizeof(key), "stock:%u", i);
		tracker_read(by(f, i % CLIENTS, key), READ_GET);
		now = heap_nbytes() - before;
		most = now > most ? now : most;
	}
	if (before)
		assert_in_range(most, SMALL_MEMORY / 2, SMALL_MEMORY);
}

TEST(keys_that_are_too_long_are_told_of)
{
	char key[TRACKER_KEY_MAX + 2];

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	tracker_used(by(f, 0, key), true);
	assert_told(f, "keys of 1 command.");
}
