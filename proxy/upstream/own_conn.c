/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/own_conn.h"

#include "base/buf.h"
#include "resp/write.h"
#include "upstream/decode.h"

static void own_conn_on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void own_conn_on_drained(void *owner)
{
	(void)owner;
}

static void own_conn_on_reply(void *owner, void *tag, const struct resp_reply *r,
                              struct slice captured)
{
	struct own_conn *c = owner;
	redisReply *reply = reply_decode(captured);

	(void)r;
	c->ops->on_reply(c->owner, tag, &reply);
	if (reply)
		freeReplyObject(reply);
}

static void own_conn_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct own_conn *c = owner;

	(void)inflight;
	c->ops->on_down(c->owner, end, reason);
}

static const struct link_ops own_conn_link_ops = {
	.on_bytes = own_conn_on_bytes,
	.on_reply = own_conn_on_reply,
	.on_drained = own_conn_on_drained,
	.on_down = own_conn_on_down,
};

void own_conn_init(struct own_conn *c, const struct own_conn_ops *ops, void *owner)
{
	*c = (struct own_conn){ .ops = ops, .owner = owner };
	link_user_init(&c->user, &own_conn_link_ops, c);
}

void own_conn_open(struct own_conn *c, struct link_env *env, const struct link_login *login)
{
	link_join(link_new_own(env, false, login), &c->user);
}

void own_conn_close(struct own_conn *c)
{
	link_close(c->user.link);
}

void own_conn_send(struct own_conn *c, struct slice requests, size_t n, void *tag)
{
	link_send(c->user.link, requests);
	while (n--)
		link_expect(&c->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, tag);
}

void own_conn_send_words(struct own_conn *c, const char *const *words, size_t n, void *tag)
{
	struct buf out = BUF_INIT;

	resp_write_array(&out, n);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk_str(&out, words[i]);
	own_conn_send(c, buf_slice(&out), 1, tag);
	buf_release(&out);
}

void own_conn_send_auth(struct own_conn *c, const char *user, const char *password, void *tag)
{
	if (user)
		own_conn_send_words(c, (const char *[]){ "AUTH", user, password }, 3, tag);
	else
		own_conn_send_words(c, (const char *[]){ "AUTH", password }, 2, tag);
}
