/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/server_find.h"

#include "base/quote.h"
#include "worker/encryption.h"

/* How long a server may take to answer, in ms. */
#define SERVER_MS_MAX 5000
/* How long one sentinel may take, in ms. Short, because hasp can ask the others. */
#define SENTINEL_MS_MAX 1000

struct ask server_ask(const struct config *c, struct address address)
{
	return (struct ask){
		.address = address,
		.user = c->upstream_user,
		.password = c->upstream_password,
		.tls = encryption_of_servers(c),
		.timeout_ms = c->connect_timeout_ms < SERVER_MS_MAX ? c->connect_timeout_ms
		                                                    : SERVER_MS_MAX,
	};
}

struct server_search {
	struct sentinel_answer *answer;
	struct buf why; /* why the sentinel named no primary; empty: it named one */
};

static void server_on_named(void *arg, size_t i, const redisReply *reply)
{
	struct server_search *search = arg;
	const char *why;

	(void)i;
	if (sentinel_read_named(search->answer, reply, &why) < 0)
		quote_append(&search->why, slice_str(why));
}

/* Asks one sentinel. Returns 0; -1 with the reason appended to `why`. */
static int ask_sentinel(struct sentinel_answer *a, const struct config *c, const char *sentinel,
                        struct slice request, struct buf *why)
{
	struct server_search search = { .answer = a, .why = BUF_INIT };
	struct ask opts = server_ask(c, address_of(sentinel));
	int rc;

	opts.user = c->sentinel_user;
	opts.password = c->sentinel_password;
	if (opts.timeout_ms > SENTINEL_MS_MAX)
		opts.timeout_ms = SENTINEL_MS_MAX;
	opts.requests = &request;
	opts.nrequests = 1;
	opts.on_reply = server_on_named;
	opts.arg = &search;
	rc = sync_query(&opts, why);
	if (buf_len(&search.why)) {
		buf_append(why, buf_slice(&search.why));
		rc = -1;
	}
	buf_release(&search.why);
	return rc;
}

static int ask_sentinels(struct sentinel_answer *a, const struct config *c, struct buf *why)
{
	struct buf request = BUF_INIT;
	int rc = -1;

	sentinel_write_question(&request, c->master);
	for (size_t i = 0; rc < 0 && i < c->sentinels.n; i++) {
		buf_clear(why);
		buf_printf(why, "%s: ", c->sentinels.v[i]);
		rc = ask_sentinel(a, c, c->sentinels.v[i], buf_slice(&request), why);
	}
	buf_release(&request);
	return rc;
}

int server_find(struct server_place *s, const struct config *c, struct buf *why)
{
	s->name = c->master ? c->master : c->address;
	if (c->master) {
		if (ask_sentinels(&s->answer, c, why) < 0)
			return -1;
		s->name = s->answer.name;
	}
	s->address = address_of(s->name);
	return 0;
}

void server_find_each(const struct config *c,
                      void (*fn)(void *arg, const char *sentinel, const char *primary,
                                 struct slice why),
                      void *arg)
{
	struct buf request = BUF_INIT;

	sentinel_write_question(&request, c->master);
	for (size_t i = 0; i < c->sentinels.n; i++) {
		struct sentinel_answer answer;
		struct buf why = BUF_INIT;
		int rc = ask_sentinel(&answer, c, c->sentinels.v[i], buf_slice(&request), &why);

		fn(arg, c->sentinels.v[i], rc == 0 ? answer.name : NULL, buf_slice(&why));
		buf_release(&why);
	}
	buf_release(&request);
}
