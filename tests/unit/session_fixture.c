/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/session_fixture.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "tests/unit/testing.h"

int session_set_up(void **state)
{
	struct session *s = calloc(1, sizeof(*s));

	session_init(s);
	*state = s;
	return 0;
}

int session_tear_down(void **state)
{
	session_fini(*state);
	free(*state);
	return 0;
}

struct reply_scan scanned(struct slice frame)
{
	struct reply_scan scan = { 0 };
	size_t used;

	assert_int_equal(reply_scan(&scan, frame.p, frame.n, &used), RESP_OK);
	assert_int_equal(used, frame.n);
	return scan;
}

void answer(struct session *s, struct pending_request *r, struct slice frame)
{
	struct reply_scan scan = scanned(frame);

	session_reply(s, r, &scan.reply, frame, NULL, NULL);
}

struct pending_request *sent(struct session *s, struct pending_request *r)
{
	session_track(s, r);
	/* dispatch() counts what is sent in a transaction. */
	if (session_in_multi(s))
		transaction_add(&s->txn, 1);
	return r;
}

struct pending_request *sent_select(struct session *s, int db)
{
	struct pending_request *r = pending_new(PENDING_SELECT);

	r->db = db;
	return sent(s, r);
}

struct pending_request *sent_auth(struct session *s, const char *user)
{
	struct pending_request *r = pending_new(PENDING_AUTH);

	r->login->texts[TEXT_USER] = xstrdup(user);
	return sent(s, r);
}

struct pending_request *sent_hello(struct session *s, uint8_t proto, const char *user,
                                   const char *name)
{
	struct pending_request *r = pending_new(PENDING_HELLO);

	r->login->proto = proto;
	r->login->texts[TEXT_USER] = user ? xstrdup(user) : NULL;
	r->login->texts[TEXT_NAME] = name ? xstrdup(name) : NULL;
	return sent(s, r);
}

struct pending_request *sent_name(struct session *s, const char *name)
{
	struct pending_request *r = pending_new(PENDING_NAME);

	r->login->texts[TEXT_NAME] = xstrdup(name);
	return sent(s, r);
}

struct pending_request *sent_reset(struct session *s)
{
	struct pending_request *r = pending_new(PENDING_RESET);

	session_await(s, r);
	return r;
}

struct pending_request *sent_exec(struct session *s)
{
	struct pending_request *exec = session_exec(s);

	if (exec)
		session_await(s, exec);
	return exec;
}

void sent_other(struct session *s)
{
	transaction_add(&s->txn, 1);
}
