/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/subscriber.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/log.h"
#include "resp/write.h"
#include "upstream/retry.h"

#define RETRY_SECONDS 0.05
/* Nobody who knows our channels has that much to say in one message. */
#define UNREAD_MAX ((size_t)1024 * 1024)

struct subscriber {
	struct subscriber_how how;
	struct link_user self; /* on no link between two tries */
	redisReader *reader; /* NULL with the link */
	struct retry retry;
	char *refusal; /* NULL: none */
	bool open; /* it is needed */
	bool up;
	bool complained; /* of not getting through, since it last worked */
};

static void subscriber_on_down(void *owner, enum link_end end, const char *reason,
                               size_t inflight)
{
	struct subscriber *s = owner;

	(void)inflight;
	if (!s->complained)
		log_warning("subscriber_down address=%s reason=\"%s\"", s->how.env->name,
		            reason);
	s->complained = true;
	s->up = false;
	if (s->reader)
		redisReaderFree(s->reader);
	s->reader = NULL;
	retry_later(&s->retry, end);
	if (end == LINK_REFUSED) {
		free(s->refusal);
		s->refusal = xstrdup(reason);
	}
	if (end == LINK_REFUSED || end == LINK_UNREACHABLE)
		s->how.on_failed(s->how.arg);
}

static void hang_up(struct subscriber *s, enum link_end end, const char *reason)
{
	link_close(s->self.link);
	subscriber_on_down(s, end, reason, 0);
}

static bool subscriber_is_text(const redisReply *r, const char *text)
{
	return r->type == REDIS_REPLY_STRING && strcmp(r->str, text) == 0;
}

static struct slice text_of(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING ? slice_of(r->str, (size_t)r->len) : SLICE_NONE;
}

static void subscriber_on_subscribed(struct subscriber *s, struct slice channel)
{
	if (!slice_eq(channel, slice_str(s->how.channel))) {
		s->how.on_subscribed(s->how.arg, channel);
		return;
	}
	s->up = true;
	s->complained = false;
	retry_worked(&s->retry);
	free(s->refusal);
	s->refusal = NULL;
	s->how.on_up(s->how.arg);
}

static void subscriber_take(struct subscriber *s, const redisReply *r)
{
	if (r->type == REDIS_REPLY_ERROR) {
		/* A channel that is not ours may well be forbidden: then nobody wakes us. */
		if (!s->up)
			hang_up(s, LINK_REFUSED, r->str);
		return;
	}
	if (r->type != REDIS_REPLY_ARRAY || r->elements < 3)
		return;
	if (subscriber_is_text(r->element[0], "subscribe"))
		subscriber_on_subscribed(s, text_of(r->element[1]));
	else if (subscriber_is_text(r->element[0], "message"))
		s->how.on_message(s->how.arg, text_of(r->element[1]), text_of(r->element[2]));
}

static void subscriber_on_bytes(void *owner, struct slice bytes)
{
	struct subscriber *s = owner;
	void *reply = NULL;

	if (s->reader->len - s->reader->pos + bytes.n > UNREAD_MAX ||
	    redisReaderFeed(s->reader, bytes.p, bytes.n) != REDIS_OK) {
		hang_up(s, LINK_BROKEN, "a message is too long");
		return;
	}
	/* Whoever is told may bring the connection down. */
	while (s->reader) {
		if (redisReaderGetReply(s->reader, &reply) != REDIS_OK) {
			hang_up(s, LINK_BROKEN, "it sent what is no RESP2 reply");
			return;
		}
		if (!reply)
			return;
		subscriber_take(s, reply);
		freeReplyObject(reply);
	}
}

static void subscriber_on_drained(void *owner)
{
	(void)owner;
}

static const struct link_ops link_ops = {
	.on_bytes = subscriber_on_bytes,
	.on_drained = subscriber_on_drained,
	.on_down = subscriber_on_down,
};

static void subscriber_send_words(struct subscriber *s, const char *command,
                                  struct slice channel)
{
	struct buf out = BUF_INIT;
	struct slice argv[] = { slice_str(command), channel };

	resp_write_request(&out, argv, 2);
	link_send(s->self.link, buf_slice(&out));
	buf_release(&out);
}

static void subscriber_on_retry(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct subscriber *s = t->data;
	struct link_env *env = s->how.env;
	struct link_login login = { .proto = 2, .user = env->user, .password = env->password };

	(void)loop;
	(void)revents;
	s->reader = redisReaderCreate();
	HASP_ASSERT(s->reader);
	link_join(link_new(env, false, env->password ? &login : NULL), &s->self);
	link_make_opaque(s->self.link);
	subscriber_send_words(s, "SUBSCRIBE", slice_str(s->how.channel));
}

struct subscriber *subscriber_new(const struct subscriber_how *how)
{
	struct subscriber *s = xcalloc(1, sizeof(*s));

	s->how = *how;
	link_user_init(&s->self, &link_ops, s);
	retry_init(&s->retry, how->env->dialer.loop, RETRY_SECONDS, subscriber_on_retry, s);
	return s;
}

void subscriber_free(struct subscriber *s)
{
	retry_stop(&s->retry);
	link_close(s->self.link);
	if (s->reader)
		redisReaderFree(s->reader);
	free(s->refusal);
	free(s);
}

void subscriber_reconnect(struct subscriber *s)
{
	if (!s->open)
		return;
	if (s->self.link)
		hang_up(s, LINK_BROKEN, "the configuration has changed");
	retry_restart(&s->retry);
}

void subscriber_retry_now(struct subscriber *s)
{
	retry_now(&s->retry);
}

void subscriber_open(struct subscriber *s)
{
	if (s->open)
		return;
	s->open = true;
	retry_restart(&s->retry);
}

bool subscriber_is_up(const struct subscriber *s)
{
	return s->up;
}

const char *subscriber_refusal(const struct subscriber *s)
{
	return s->refusal;
}

void subscriber_add(struct subscriber *s, struct slice channel)
{
	if (s->up)
		subscriber_send_words(s, "SUBSCRIBE", channel);
}

void subscriber_remove(struct subscriber *s, struct slice channel)
{
	if (s->up)
		subscriber_send_words(s, "UNSUBSCRIBE", channel);
}
