/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_fixture: a link on a real loop, a server on a unix socket that the test plays by hand,
 * and records of the callbacks to the link's owners. Besides the link's own user there are
 * guests, for a link that several users share.
 */
#ifndef HASP_TESTS_UNIT_LINK_FIXTURE_H
#define HASP_TESTS_UNIT_LINK_FIXTURE_H

#include "base/buf.h"
#include "tests/unit/surroundings.h"
#include "upstream/link.h"

#define TEST_FIXTURE struct link_fixture *f /* for testing.h */

#define NGUESTS 3

/* One of several users of a link. */
struct guest {
	struct link_user user;
	struct buf bytes;
	struct buf told;
	const char *leaves_on; /* the tag whose reply makes it leave; NULL: stays */
	bool closes_on_drained; /* closes the link */
	unsigned ndrained;
	unsigned nidle;
	unsigned ndown;
	size_t inflight; /* when the link went down */
	enum link_end end;
	char reason[128];
};

struct link_fixture {
	struct surroundings at;
	int server; /* the server's end; -1: not accepted, or closed */
	struct link *link; /* NULL: not created yet, or freed */
	struct link_user user;

	/* Calls of the owner's callbacks. */
	struct buf bytes;
	struct buf told; /* "reply TAG TYPE[ KEPT]", "asked TAG LINE", "frame TYPE" ... lines */
	unsigned npieces; /* in how many pieces `bytes` came */
	unsigned ndrained;
	unsigned ndown;
	enum link_end end;
	size_t inflight;
	char reason[128];

	/* How the owner reacts. */
	bool is_late;
	bool drops_errors;
	bool takes_frames; /* it consumes frames that begin with "message", and pushes */
	bool closes_on_bytes;
	bool closes_on_reply;
	bool turns_opaque_on_reply;

	struct guest guest[NGUESTS];
};

/* For cmocka: nothing but a server that listens; a link that is connected to it; a shared link
 * with all guests on it. */
int set_up(void **state);
int set_up_connected(void **state);
int set_up_shared(void **state);
int tear_down(void **state);

#define TEST_CONNECTED(name) TEST_WITH(name, set_up_connected, tear_down)
#define TEST_SHARED(name) TEST_WITH(name, set_up_shared, tear_down)

/* --- the link --------------------------------------------------------------- */

/* A link that connects, with the fixture as its user. `login` may be NULL. */
void begin(struct link_fixture *f, const struct link_login *login);
/* A link that is connected and accepted by the server. */
void connect_link(struct link_fixture *f);
/* Closes the link and begins again, as after set-up. */
void connect_anew(struct link_fixture *f);
void free_link(struct link_fixture *f);
void expect(struct link_fixture *f, unsigned flags, const char *tag);

/* Opens a shared link that the server has accepted, with all guests on it, which leave their
 * earlier links. `login` may be NULL. */
void invite(struct link_fixture *f, const struct link_login *login);
/* The guest with the number `guest` expects a reply. */
void ask(struct link_fixture *f, size_t guest, unsigned flags, const char *tag);

/* Runs the loop until it has no more work. */
void settle(struct link_fixture *f);
/* Runs the loop until an event comes, and fails if none does. */
void await_event(struct link_fixture *f);

/* --- the server ------------------------------------------------------------- */

void accept_link(struct link_fixture *f);
void hang_up(struct link_fixture *f);
void server_sends(struct link_fixture *f, struct slice bytes);
/* Sends the bytes in two parts, cut at `cut`; if `cut` is their length, byte by byte. */
void server_sends_split(struct link_fixture *f, struct slice stream, size_t cut);
/* Sends the bytes, and closes the connection before the link has read them. */
void server_sends_and_hangs_up(struct link_fixture *f, struct slice bytes);
/* Reads at most `n` bytes that have arrived from the link. */
size_t server_reads(struct link_fixture *f, char *p, size_t n);
void assert_server_reads(struct link_fixture *f, const char *expected);

#define SERVER_SENDS(f, literal) server_sends(f, SLICE_LIT(literal))

/* Repeats a statement for each place where the server's answer may be cut, and once for byte by
 * byte. */
#define AT_EVERY_SPLIT(stream, cut) for (size_t cut = 0; cut <= sizeof(stream) - 1; cut++)

/* --- what was told ---------------------------------------------------------- */

void assert_buf(const struct buf *b, const char *expected);
void assert_seen(struct link_fixture *f, const char *bytes, const char *told);
void assert_guest(const struct guest *g, const char *bytes, const char *told);
/* After `prepare`, the server sends `stream`; checks that the owner sees the same whether the
 * stream comes whole, byte by byte or cut at any place. */
void assert_sees(struct link_fixture *f, void (*prepare)(struct link_fixture *f),
                 struct slice stream, const char *bytes, const char *told);
/* Checks that the user got one callback that the link is down. */
void assert_down(const struct link_fixture *f, enum link_end end);

#define SEES(f, prepare, literal, bytes, told)                                                 \
	assert_sees(f, prepare, SLICE_LIT(literal), bytes, told)

#endif
