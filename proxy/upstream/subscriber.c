/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/subscriber.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "resp/reply.h"
#include "resp/write.h"
#include "upstream/decode.h"
#include "upstream/link_internal.h"
#include "upstream/own_conn.h"

#define SUBSCRIBER_RETRY_SECONDS 0.05
/* The longest message, in bytes; hasp's own messages are much shorter. */
#define MESSAGE_MAX ((size_t)1024 * 1024)

struct subscriber {
	struct subscriber_opts opts;
	struct own_conn conn; /* closed between two tries to connect; its link is opaque */
	struct reply_scan scan; /* scans the message that is being received */
	struct buf message; /* bytes of the message so far */
	struct loop_timer check; /* sends PING; stopped if the delay is 0 */
	double timeout; /* seconds for which the connection may be silent; 0: for ever */
	unsigned nunheard; /* checks in a row during which nothing was received */
	char *address; /* address of the last try to connect; the settings may have changed */
	char *refusal; /* Redis' error if it refused the last try; else NULL */
	bool open; /* subscriber_open() was called */
	bool up; /* the subscriber's own channel is subscribed */
	struct log_state logged;
};

static void subscriber_on_down(void *owner, enum link_end end, const char *reason)
{
	struct subscriber *s = owner;
	uint32_t suppressed;

	if (log_state_pass(&s->logged, s->opts.env->clock(),
	                   link_log_state(end, reason, s->logged.logged), false, &suppressed) &&
	    !s->opts.env->no_server_reason)
		log_warning("subscriber_down address=%s reason=%s suppressed=%" PRIu32,
		            s->address, QUOTE_STR(reason), suppressed);
	s->up = false;
	s->nunheard = 0;
	s->scan = (struct reply_scan){ 0 };
	buf_release(&s->message);
	if (end == LINK_REFUSED) {
		free(s->refusal);
		s->refusal = xstrdup(reason);
	}
	if (s->opts.on_failed && (end == LINK_REFUSED || end == LINK_UNREACHABLE))
		s->opts.on_failed(s->opts.arg);
}

static const char not_resp2[] = "it sent bytes that are not a RESP2 reply";

static struct slice string_of(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING ? slice_of(r->str, (size_t)r->len) : SLICE_NONE;
}

static void subscriber_on_subscribe(struct subscriber *s, struct slice channel)
{
	uint32_t suppressed;

	if (!slice_eq(channel, slice_str(s->opts.channel))) {
		if (s->opts.on_subscribed)
			s->opts.on_subscribed(s->opts.arg, channel);
		return;
	}
	if (log_state_pass(&s->logged, s->opts.env->clock(), LOG_STATE_UP, true, &suppressed))
		log_info("subscriber_up address=%s", s->address);
	s->up = true;
	own_conn_worked(&s->conn);
	free(s->refusal);
	s->refusal = NULL;
	s->opts.on_up(s->opts.arg);
}

static void subscriber_on_reply(struct subscriber *s, const redisReply *r)
{
	struct slice kind, channel;

	if (r->type == REDIS_REPLY_ERROR) {
		/* Ignore an error for a channel of subscriber_call(): an ACL forbids the
		 * channel, Redis 6.2 has no shard channels, or the slot has moved. */
		if (!s->up)
			own_conn_fail(&s->conn,
			              reply_error_is_temporary(r->str) ? LINK_UNREACHABLE
			                                               : LINK_REFUSED,
			              r->str);
		return;
	}
	if (r->type != REDIS_REPLY_ARRAY || r->elements < 3)
		return;
	kind = string_of(r->element[0]);
	channel = string_of(r->element[1]);
	if (slice_eq(kind, SLICE_LIT("subscribe")) || slice_eq(kind, SLICE_LIT("ssubscribe")))
		subscriber_on_subscribe(s, channel);
	else if (slice_eq(kind, SLICE_LIT("message")) || slice_eq(kind, SLICE_LIT("smessage")))
		s->opts.on_message(s->opts.arg, channel, string_of(r->element[2]));
}

/* Handles one whole message. */
static void take_message(struct subscriber *s, struct slice frame)
{
	redisReply *reply = reply_decode(frame);

	if (!reply) {
		own_conn_fail(&s->conn, LINK_BROKEN, not_resp2);
		return;
	}
	subscriber_on_reply(s, reply);
	freeReplyObject(reply);
}

/* Collects each message, and decodes it when it is whole, so that hiredis reserves no memory
 * for announced lengths whose bytes never come. */
static void subscriber_on_bytes(void *owner, struct slice bytes)
{
	struct subscriber *s = owner;
	const struct link *l = s->conn.user.link;

	s->nunheard = 0;
	/* take_message() and the callbacks may close the connection. */
	while (bytes.n && s->conn.user.link == l) {
		struct buf message;
		size_t used = 0;
		enum resp_result r = reply_scan(&s->scan, bytes.p, bytes.n, &used);

		if (r == RESP_BAD || buf_len(&s->message) + used > MESSAGE_MAX) {
			own_conn_fail(&s->conn, LINK_BROKEN,
			              r == RESP_BAD ? not_resp2 : "a message is too long");
			return;
		}
		buf_append(&s->message, slice_take(&bytes, used));
		if (r == RESP_MORE)
			return;
		message = s->message;
		s->message = BUF_INIT;
		take_message(s, buf_slice(&message));
		buf_release(&message);
	}
}

static void subscriber_send(struct subscriber *s, const char *command, struct slice channel)
{
	struct buf out = BUF_INIT;
	struct slice argv[] = { slice_str(command), channel };

	resp_write_request(&out, argv, 2);
	link_send(s->conn.user.link, buf_slice(&out));
	buf_release(&out);
}

static void subscriber_connect(void *arg)
{
	struct subscriber *s = arg;
	struct link_env *env = s->opts.env;
	struct link_login login = { .proto = 2, .user = env->user, .password = env->password };
	bool must_log_in = env->password || env->own_name;
	char name[64];

	free(s->address);
	s->address = xstrdup(env->name);
	if (env->own_name) {
		snprintf(name, sizeof(name), "%s-subscriber", env->own_name);
		login.name = name;
	}
	own_conn_open(&s->conn, must_log_in ? &login : NULL);
	link_make_opaque(s->conn.user.link);
	subscriber_send(s, "SUBSCRIBE", slice_str(s->opts.channel));
}

static void subscriber_on_check(void *arg)
{
	struct subscriber *s = arg;
	char reason[64];

	/* Until the link is connected, connect_timeout applies. */
	if (!own_conn_is_made(&s->conn))
		return;
	if (s->timeout > 0 && s->nunheard * s->check.watcher.repeat >= s->timeout) {
		snprintf(reason, sizeof(reason), "PING was not answered for %g s", s->timeout);
		own_conn_fail(&s->conn, LINK_BROKEN, reason);
		return;
	}
	s->nunheard++;
	link_send(s->conn.user.link, SLICE_LIT("PING\r\n"));
}

static const struct own_conn_ops subscriber_conn_ops = {
	.on_down = subscriber_on_down,
	.connect = subscriber_connect,
	.on_bytes = subscriber_on_bytes,
};

struct subscriber *subscriber_new(const struct subscriber_opts *opts)
{
	struct subscriber *s = xcalloc(1, sizeof(*s));

	s->opts = *opts;
	own_conn_init(&s->conn, opts->env, SUBSCRIBER_RETRY_SECONDS, &subscriber_conn_ops, s);
	loop_timer_init(&s->check, opts->env->dialer.loop, subscriber_on_check, s);
	return s;
}

void subscriber_free(struct subscriber *s)
{
	loop_timer_stop(&s->check);
	own_conn_close(&s->conn);
	buf_release(&s->message);
	free(s->refusal);
	free(s->address);
	free(s);
}

void subscriber_reconnect(struct subscriber *s, const char *reason)
{
	if (!s->open)
		return;
	own_conn_reconnect(&s->conn, reason);
	/* Log a failure of the new address, too. */
	s->logged = (struct log_state){ 0 };
}

void subscriber_open(struct subscriber *s)
{
	if (s->open)
		return;
	s->open = true;
	own_conn_reconnect(&s->conn, NULL);
}

void subscriber_set_check(struct subscriber *s, int64_t delay_ms, int64_t timeout_ms)
{
	s->timeout = (double)timeout_ms / 1000;
	loop_timer_repeat(&s->check, (double)delay_ms / 1000);
}

bool subscriber_is_up(const struct subscriber *s)
{
	return s->up;
}

const char *subscriber_refusal(const struct subscriber *s)
{
	return s->refusal;
}

void subscriber_call(struct subscriber *s, const char *command, struct slice channel)
{
	if (s->up)
		subscriber_send(s, command, channel);
}
