/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the report on a lock: the whole text for each kind of sums, and the proposed
 * section.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/testing.h"
#include "watch/tracker_internal.h"

#define EACH(i, rows)                                                                          \
	size_t i = 0;                                                                          \
	i < sizeof(rows) / sizeof(*(rows));                                                    \
	i++

#define TAKEN(count) .taken = { [WAY_SET_NX] = (count) }

/* --- the section --------------------------------------------------------------------- */

static struct finding finding_of(const char *pattern, const struct lock_sums *l)
{
	static struct key_group example = { .sample = "jobs:1", .nsample = 6 };
	struct finding f = { .nkeys = 1, .lock = *l, .example = &example };

	buf_append(&f.pattern, slice_str(pattern));
	return f;
}

static void assert_section(const struct lock_sums *l, const char *words)
{
	struct finding f = finding_of("jobs:*", l);
	struct buf out = BUF_INIT;

	discovery_put_lock(&out, &f, "jobs");
	buf_append(&out, slice_of("", 1));
	if (!strstr(buf_head(&out), words))
		fail_msg("no '%s' in\n%s", words, buf_head(&out));
	buf_release(&out);
	buf_release(&f.pattern);
}

/* Asserts the whole report of a lock that is proposed or left alone. */
static void assert_report(const struct finding *like, const char *text)
{
	struct finding f = finding_of("jobs:*", &like->lock);
	struct buf out = BUF_INIT;

	f.nothers = like->nothers;
	f.opposed = like->opposed;
	f.caught = like->caught;
	if (discovery_lock_is_proposed(&f))
		discovery_put_lock(&out, &f, "jobs");
	else
		discovery_put_lock_left(&out, &f);
	buf_append(&out, slice_of("", 1));
	assert_string_equal(buf_head(&out), text);
	buf_release(&out);
	buf_release(&f.pattern);
}

TEST(a_report_has_the_evidence_the_questions_and_the_section)
{
	static const struct key_group other = { .node.key = SLICE_LIT("other:*") };
	/* clang-format off */
	static const struct {
		struct finding f;
		const char *text;
	} rows[] = {
		/* a holder that releases late */
		{ { .lock = { TAKEN(19), .lease_ms_min = 2000, .lease_ms_max = 2000,
		              .held = { .total = 1, .n = { [30] = 1 }, .longest = 3 },
		              .n = { [SEEN_OUTLIVED] = 1, [SEEN_RELEASED] = 2, [SEEN_DELETES] = 2,
		                     [SEEN_OVERWRITTEN] = 1, [SEEN_UNRELEASED] = 2,
		                     [SEEN_REPEATED] = 1 } },
		    .opposed = 2 },
		  "; jobs:*    1 key, taken 19 times by SET NX, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   1 holder outlived the expiry of their lock:\n"
		  ";     held for 262 ms (p99), 3.0 s at most; expiry 2.0 s\n"
		  ";   1 write under this lock overwrote another client's: the lock did "
		  "not protect the value\n"
		  ";   2 locks expired without a release, although the connection stayed "
		  "open\n"
		  ";   2 times a client that had one lock asked for another one, and "
		  "another client did so the other way round: if they\n"
		  ";     try until they get it, they may wait for each other. Take such locks "
		  "in one order, or by MLOCK of [verbs]\n"
		  ";   2 released by the connection that took the lock, 0 by another one: "
		  "owner = connection\n"
		  ";   no lock was seen held for longer than 3.0 s: max_hold = 30s leaves "
		  "room for 10 times that\n"
		  ";   little evidence: watch for longer\n"
		  ";   Question: is a lock left to expire on purpose, as a mark that "
		  "something was done? If so, remove renew:\n"
		  ";     it would keep such marks for as long as max_hold says. If not, a "
		  "holder that forgets its lock keeps others out until then.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = connection\n"
		  ";renew = yes\n"
		  ";max_hold = 30s\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		/* thefts; retries; enough evidence */
		{ { .lock = { .taken = { [WAY_SETNX] = 10, [WAY_SET_NX] = 10 },
		              .tries = { [WAY_SETNX] = 2 },
		              .waited = { .total = 1, .n = { [30] = 1 }, .longest = 0.2 },
		              .n = { [SEEN_STOLEN] = 1, [SEEN_CHECKED] = 1, [SEEN_RELEASED] = 1,
		                     [SEEN_COMPARED] = 1, [SEEN_DELETES] = 1,
		                     [SEEN_RETRIED] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SETNX, SET NX, released by DEL "
		  "after a look at the value and by scripts or transactions that compare "
		  "the value\n"
		  ";   such as jobs:1\n"
		  ";   1 release removed another holder's lock\n"
		  ";   each holder stores a value of its own: owner = value\n"
		  ";   clients repeated attempts that were refused, for 200 ms (p90) until "
		  "they got the lock.\n"
		  ";     While an attempt waits, later commands of its connection wait, too. "
		  "Remove wait if a refused client leaves its work out.\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = value\n"
		  "wait = 1s\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		/* no expiry, no release, no harm */
		{ { .lock = { TAKEN(20), .n = { [SEEN_BARE] = 1, [SEEN_BARE_LEFT] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, never released\n"
		  ";   such as jobs:1\n"
		  ";   1 lock had no expiry, at least for a while\n"
		  ";   1 lock stayed without an expiry when the holder's connection closed\n"
		  ";   no harm was seen: no holder outlived its lock or removed another's, "
		  "and no update was lost under the lock;\n"
		  ";     but a holder that dies before it sets the expiry leaves its lock "
		  "for ever\n"
		  ";   no release was seen: owner = connection\n"
		  ";   no expiry was ever set: the lock is renewed while its holder's "
		  "connection lives, and ends soon after it\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = connection\n"
		  "lease = 5s\n"
		  "renew = yes\n"
		  "max_hold = 600s\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		/* no harm: a DEL after a GET, and a DEL alone */
		{ { .lock = { TAKEN(20), .lease_ms_max = 1,
		              .n = { [SEEN_RELEASED] = 1, [SEEN_COMPARED] = 1,
		                     [SEEN_NARROW] = 1, [SEEN_REPEATED] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, released by DEL after a "
		  "look at the value\n"
		  ";   such as jobs:1\n"
		  ";   no harm was seen: no holder outlived its lock or removed another's, "
		  "and no update was lost under the lock;\n"
		  ";     but the lock may change hands between the look at its value and "
		  "the DEL\n"
		  ";   1 released by the connection that took the lock, 0 by another one: "
		  "owner = connection\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = connection\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { TAKEN(20), .lease_ms_max = 1,
		              .n = { [SEEN_RELEASED] = 1, [SEEN_NARROW] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   no harm was seen: no holder outlived its lock or removed another's, "
		  "and no update was lost under the lock;\n"
		  ";     but DEL removes the lock even if another client holds it by then\n"
		  ";   1 released by the connection that took the lock, 0 by another one: "
		  "owner = connection\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = connection\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		/* a pool, takeovers by SET, a script's answer, other uses of keys */
		{ { .lock = { .taken = { [WAY_SET] = 11, [WAY_SETNX] = 9 },
		              .n = { [SEEN_SEIZED] = 1, [SEEN_YIELDED] = 1, [SEEN_FOREIGN] = 4,
		                     [SEEN_STRANGE] = 4, [SEEN_DELETES] = 4, [SEEN_RETURNED] = 1,
		                     [SEEN_FOREIGN_ADDRESS] = 4, [SEEN_REPEATED] = 1 } },
		    .nothers = 3 },
		  "; jobs:*    1 key, taken 20 times by SETNX, GETSET or SET, released by "
		  "DEL\n"
		  ";   such as jobs:1\n"
		  ";   1 time a client took the lock over: it read another holder's value "
		  "and set its own\n"
		  ";   1 holder never released a lock that was taken over\n"
		  ";   0 released by the connection that took the lock, 4 by another one\n"
		  ";   Question: does each client take and release a lock over one "
		  "connection? If so: owner = connection.\n"
		  ";     If connections are a pool, an owner that they share lets each of "
		  "them release the lock, also for clients that end the lock of a holder "
		  "that takes too long.\n"
		  ";     hasp cannot tell those apart: the application has to send a value "
		  "of its own with each lock, and compare it in a script.\n"
		  ";   Question: is the integer that the script returns the time at which "
		  "the lock ends? If so, other clients compare that time,\n"
		  ";     and no rule keeps them out when it has passed: have the "
		  "application ask for a longer time. If not, use this section.\n"
		  ";   Question: does the application take an error for a refusal? While "
		  "one client has the lock, another one's\n"
		  ";     GETSET or SET gets -LOCKED. Late holders left their lock to "
		  "others: hasp would keep it for as long as max_hold says.\n"
		  ";   Question: are all keys of this pattern locks? 3 keys of it had "
		  "other uses.\n"
		  ";     If there are others, give a pattern that leaves them out.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = address\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { .taken = { [WAY_SET] = 11, [WAY_SETNX] = 9 },
		              .n = { [SEEN_STOLEN] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SETNX, GETSET or SET, never "
		  "released\n"
		  ";   such as jobs:1\n"
		  ";   1 release removed another holder's lock\n"
		  ";   no release was seen: owner = connection\n"
		  ";   Question: does the application take an error for a refusal? While "
		  "one client has the lock, another one's\n"
		  ";     GETSET or SET gets -LOCKED.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = connection\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { TAKEN(20), .n = { [SEEN_OUTLASTED] = 1, [SEEN_STRANGE] = 1,
		                                [SEEN_DELETES] = 1, [SEEN_VOIDS] = 1,
		                                [SEEN_REPEATED] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   1 release came after the connection that took the lock had closed: hasp "
		  "cannot see whether the holder released it\n"
		  ";   0 released by the connection that took the lock, 1 by another one\n"
		  ";   Question: which connections share a lock? Those that released it "
		  "have neither name nor address in common\n"
		  ";     with those that took it. If they are one application, have each "
		  "send CLIENT SETNAME with one name: owner = name.\n"
		  ";     If each must release what it took: owner = connection.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = connection\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { .taken = { [WAY_INCR] = 20 }, .lease_ms_max = 5000,
		              .n = { [SEEN_RELEASED] = 18, [SEEN_OUTLASTED] = 2,
		                     [SEEN_HANDED_ON] = 2, [SEEN_STRANGE] = 2,
		                     [SEEN_DELETES] = 20, [SEEN_VOIDS] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by INCR, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   if this is a lock, and not a counter:\n"
		  ";   2 releases came after the connection that took the lock had closed: hasp "
		  "cannot see whether the holder released it\n"
		  ";   18 released by the connection that took the lock, 2 by another one\n"
		  ";   Question: which connections share a lock? Some closed while they had "
		  "one, and another one released it.\n"
		  ";     If they are one application, have each send CLIENT SETNAME with one "
		  "name: owner = name.\n"
		  ";     If each must release what it took: owner = connection.\n"
		  ";   Question: is this a lock, or a counter? A connection that had counted "
		  "to 1 closed, and another one deleted the key.\n"
		  ";     If it is a counter, leave this section out: it has no holders.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = connection\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { TAKEN(40), .n = { [SEEN_RELEASED] = 39, [SEEN_OUTLASTED] = 1,
		                                [SEEN_STRANGE] = 1, [SEEN_DELETES] = 40,
		                                [SEEN_NARROW] = 1, [SEEN_REPEATED] = 1 } } },
		  "; jobs:*    1 key, taken 40 times by SET NX, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   1 release came after the connection that took the lock had closed: hasp "
		  "cannot see whether the holder released it\n"
		  ";   39 released by the connection that took the lock, 1 by another one: "
		  "owner = connection\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = connection\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { TAKEN(20), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 5,
		                                [SEEN_DELETES] = 21, [SEEN_FOREIGN_ADDRESS] = 4,
		                                [SEEN_REPEATED] = 1, [SEEN_OUTLIVED] = 1,
		                                [SEEN_UNRELEASED] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   2 releases removed another holder's lock\n"
		  ";   2 holders outlived the expiry of their lock:\n"
		  ";     held for 0.0 ms at most\n"
		  ";   0 released by the connection that took the lock, 5 by another one\n"
		  ";   Question: does each client take and release a lock over one "
		  "connection? If so: owner = connection.\n"
		  ";     If connections are a pool, an owner that they share lets each of "
		  "them release the lock, also for clients that delete a lock that they "
		  "did not get.\n"
		  ";     hasp cannot tell those apart: the application has to send a value "
		  "of its own with each lock, and compare it in a script.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = address\n"
		  ";renew = yes\n"
		  ";max_hold = 600s\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		/* a pool */
		{ { .lock = { .taken = { [WAY_SET] = 10, [WAY_SETNX] = 10 },
		              .n = { [SEEN_RELEASED] = 1, [SEEN_FOREIGN] = 1, [SEEN_STRANGE] = 1,
		                     [SEEN_DELETES] = 2, [SEEN_FOREIGN_ADDRESS] = 1,
		                     [SEEN_NARROW] = 1, [SEEN_REPEATED] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by SETNX, GETSET or SET, released by DEL\n"
		  ";   such as jobs:1\n"
		  ";   no harm was seen: no holder outlived its lock or removed another's, "
		  "and no update was lost under the lock;\n"
		  ";     but DEL removes the lock even if another client holds it by then\n"
		  ";   1 released by the connection that took the lock, 1 by another one of the "
		  "same address: owner = address\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = address\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		/* locks by scripts; a counter that was never deleted */
		{ { .lock = { .taken = { [WAY_SCRIPT] = 20 },
		              .n = { [SEEN_STOLEN] = 1, [SEEN_REPEATED] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by a script, never released\n"
		  ";   such as jobs:1\n"
		  ";   1 release removed another holder's lock\n"
		  ";   scripts set this lock, and hasp follows them for owner = value only\n"
		  "[lock jobs]\n"
		  "pattern = jobs:*\n"
		  "owner = value\n"
		  "mode = observe          ; then enforce\n"
		  "\n" },
		{ { .lock = { .taken = { [WAY_INCR] = 20 }, .tries = { [WAY_INCR] = 7 },
		              .n = { [SEEN_BARE_STAYED] = 1, [SEEN_BARE_LEFT] = 1,
		                     [SEEN_RETRIED] = 1, [SEEN_REFUSED_OWN] = 1 } } },
		  "; jobs:*    1 key, taken 20 times by INCR, never released\n"
		  ";   such as jobs:1\n"
		  ";   if this is a lock, and not a counter:\n"
		  ";   1 lock stayed without an expiry when the holder's connection closed\n"
		  ";   7 more counts followed: only the key's name shows that this is a "
		  "lock and not a counter\n"
		  ";   no release was seen: owner = connection\n"
		  ";   Question: is this a lock, or a counter? A connection that had "
		  "counted to 1 counted on before the key was deleted.\n"
		  ";     If it is a counter, leave this section out: it has no holders.\n"
		  ";   This section is a comment until you know the answer: then remove "
		  "each leading \";\".\n"
		  ";[lock jobs]\n"
		  ";pattern = jobs:*\n"
		  ";owner = connection\n"
		  ";mode = observe          ; then enforce\n"
		  "\n" },
		/* left alone: its pattern matches other keys, or it is sound */
		{ { .lock = { TAKEN(20), .n = { [SEEN_STOLEN] = 1 } }, .caught = &other,
		    .opposed = 1 },
		  "; jobs:*    1 key, taken 20 times by SET NX, never released\n"
		  ";     not proposed: the pattern also matches keys that are no such "
		  "locks, those of other:*\n"
		  ";   1 time a client that had one lock asked for another one, and "
		  "another client did so the other way round: if they\n"
		  ";     try until they get it, they may wait for each other. Take such locks "
		  "in one order, or by MLOCK of [verbs]\n" },
		{ { .lock = { TAKEN(20), .n = { [SEEN_BARE] = 1 } }, .nothers = 1 },
		  "; jobs:*    1 key, taken 20 times by SET NX, never released\n"
		  ";     not proposed: 1 key of this pattern had other uses, and no harm "
		  "was seen\n" },
		{ { .lock = { .taken = { [WAY_SCRIPT] = 20 }, .n = { [SEEN_CHECKED] = 20 } } },
		  "; jobs:*    1 key, taken 20 times by a script, released by scripts or "
		  "transactions that compare the value\n"
		  ";     sound as far as was seen: no holder found at its release that the "
		  "lock was gone\n" },
		{ { .lock = { TAKEN(20), .n = { [SEEN_CHECKED] = 20 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, released by scripts or "
		  "transactions that compare the value\n"
		  ";     sound as far as was seen: always with an expiry, which no holder outlived, and "
		  "released by a comparison of the value\n" },
		{ { .lock = { TAKEN(20), .least_left = 9,
		              .n = { [SEEN_RELEASED] = 2, [SEEN_DELETES] = 2 } } },
		  "; jobs:*    1 key, taken 20 times by SET NX, released by DEL\n"
		  ";     sound as far as was seen: always with an expiry, and at least 9.0 "
		  "s before it when the lock was released\n" },
		{ { .lock = { TAKEN(19), .least_left = 9,
		              .n = { [SEEN_RELEASED] = 2, [SEEN_DELETES] = 2 } } },
		  "; jobs:*    1 key, taken 19 times by SET NX, released by DEL\n"
		  ";     sound as far as was seen: always with an expiry, and at least 9.0 "
		  "s before it when the lock was released\n"
		  ";     little evidence: watch for longer\n" },
	};
	/* clang-format on */

	for (EACH(i, rows))
		assert_report(&rows[i].f, rows[i].text);
}

TEST(max_hold_leaves_room_for_ten_times_the_longest_hold)
{
	static const struct {
		double longest;
		int64_t lease_ms;
		const char *words;
	} rows[] = {
		{ 0, 0, "max_hold = 600s\n" },
		{ 0.4, 0, "connection\nrenew = yes\nmax_hold = 30s\n" },
		{ 0.51, 1, "lease = 1ms\nrenew = yes\nmax_hold = 10s\n" },
		{ 3, 0, "connection\nrenew = yes\nmax_hold = 30s\n" },
		{ 3.1, 0, "max_hold = 60s\n" },
		{ 0.4, 1, "max_hold = 5s\n" },
		{ 0.4, 10000, "lease = 10s\nrenew = yes\nmax_hold = 20s\n" },
		{ 3, 10000, "max_hold = 30s\n" },
		{ 1e4, 0, "max_hold = 86400s\n" },
	};

	for (EACH(i, rows))
		assert_section(&(struct lock_sums){ TAKEN(4), .n = { [SEEN_OUTLIVED] = 1 },
		                                    .held.longest = rows[i].longest,
		                                    .lease_ms_max = rows[i].lease_ms },
		               rows[i].words);
}

TEST(the_lease_is_what_the_application_sets)
{
	static const struct {
		int64_t lease_ms;
		const char *words;
	} rows[] = { { 0, "\nlease = 5s\n" },
		     { 7000, "\nlease = 7s\n" },
		     { 7001, "\nlease = 7001ms\n" },
		     { 1, "\nlease = 1ms\n" } };

	for (EACH(i, rows))
		assert_section(&(struct lock_sums){ TAKEN(4), .n = { [SEEN_BARE] = 1 },
		                                    .lease_ms_max = rows[i].lease_ms },
		               rows[i].words);
}

TEST(clients_that_try_again_get_a_wait)
{
	struct lock_sums l = { TAKEN(4), .tries = { [WAY_SETNX] = 2, [WAY_SET_NX] = 2 },
		               .n = { [SEEN_BARE] = 1, [SEEN_RETRIED] = 2 } };

	durations_add(&l.waited, 1.5);
	assert_section(&l, "\nwait = 2s\n");
	durations_add(&l.waited, 2.5);
	assert_section(&l, "\nwait = 5s\n");
	durations_add(&l.waited, 99);
	assert_section(&l, "\nwait = 10s\n");
	l.n[SEEN_RETRIED] = 1;
	assert_section(&l, "max_hold = 600s\nmode");
	l.n[SEEN_RETRIED] = 2;
	l.n[SEEN_REFUSED_OWN] = 1;
	assert_section(&l, "max_hold = 600s\nmode");
	l.n[SEEN_REFUSED_OWN] = 0;
	l.tries[WAY_SETNX] = l.tries[WAY_SET_NX] = 0;
	assert_section(&l, "max_hold = 600s\nmode");
}

TEST(a_section_needs_a_name_and_keys_of_one_kind)
{
	const struct lock_sums harmed = { TAKEN(4), .n = { [SEEN_STOLEN] = 1 } },
			       risky = { TAKEN(4), .n = { [SEEN_BARE] = 1 } },
			       sound = { TAKEN(4) };
	const struct key_group other = { .node.key = SLICE_LIT("other") };
	const struct {
		const char *pattern;
		const struct lock_sums *l;
		bool others, caught, proposed;
	} rows[] = {
		{ "a*", &harmed, false, false, true },  { "a*", &harmed, true, false, true },
		{ "a*", &harmed, false, true, false },  { "a*", &risky, false, false, true },
		{ "a*", &risky, true, false, false },   { "a*", &sound, false, false, false },
		{ "**", &harmed, false, false, false }, { "?*", &risky, false, false, false },
	};

	for (EACH(i, rows)) {
		struct finding one = finding_of(rows[i].pattern, rows[i].l);

		one.nothers = rows[i].others;
		one.caught = rows[i].caught ? &other : NULL;
		if (discovery_lock_is_proposed(&one) != rows[i].proposed)
			fail_msg("row %zu", i);
		buf_release(&one.pattern);
	}
}
