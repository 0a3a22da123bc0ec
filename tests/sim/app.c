/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/app.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/fatal.h"
#include "tests/sim/server.h"

#define AGAIN_LEAST (1 * MS)
#define AGAIN_MOST (400 * MS)
/* Bytes of a command in the trace. */
#define SHOWN_MAX 200

static void connect_later(struct app *c)
{
	world_cancel(&c->next);
	if (!c->has_left)
		world_schedule_in(&c->next, chance_delay(AGAIN_LEAST, AGAIN_MOST));
}

static void forget_connection(struct app *c)
{
	sock_close(c->sock);
	c->sock = NULL;
	redisReaderFree(c->reader);
	c->reader = NULL;
	buf_release(&c->out);
	c->writes_first = false;
	c->unanswered = 0;
	connect_later(c);
}

static bool has_part(const redisReader *r)
{
	return r->pos < r->len || r->ridx >= 0;
}

static void on_input(void *arg, struct buf *in)
{
	struct app *c = arg;
	void *reply = NULL;

	if (c->writes_first)
		return;
	if (!has_part(c->reader))
		c->reply_began = world_now();
	redisReaderFeed(c->reader, buf_head(in), buf_len(in));
	buf_clear(in);
	while (c->sock && redisReaderGetReply(c->reader, &reply) == REDIS_OK && reply) {
		HASP_ASSERT(c->unanswered > 0);
		c->unanswered--;
		c->ops->on_reply(c, reply);
		freeReplyObject(reply);
		c->reply_began = world_now();
	}
	HASP_ASSERT(!c->reader || !c->reader->err);
}

static void on_end(void *arg, bool reset)
{
	struct app *c = arg;

	(void)reset;
	forget_connection(c);
	c->ops->on_lost(c);
}

static void flush(struct app *c)
{
	size_t n = sock_space(c->sock);

	if (n > buf_len(&c->out))
		n = buf_len(&c->out);
	if (n)
		sock_send(c->sock, slice_of(buf_head(&c->out), n));
	buf_consume(&c->out, n);
	if (buf_len(&c->out) || !c->writes_first)
		return;
	trace("has written all, and reads");
	c->writes_first = false;
	sock_wake(c->sock);
}

static void on_space(void *arg)
{
	struct app *c = arg;

	if (buf_len(&c->out))
		flush(c);
}

static const struct sock_ops ops = { on_input, on_space, on_end };

static void on_next(struct event *e)
{
	struct app *c = container_of(e, struct app, next);

	if (c->sock) {
		c->ops->on_thought(c);
		return;
	}
	c->sock = simnet_connect(&c->machine, c->port);
	if (!c->sock) {
		connect_later(c);
		return;
	}
	c->reader = redisReaderCreate();
	sock_use(c->sock, &ops, c, c->machine.name);
	c->ops->on_connected(c);
}

void app_start(struct app *c, size_t number, int port, const struct app_ops *its_ops)
{
	char name[16];

	snprintf(name, sizeof(name), "client%u", (unsigned)number);
	machine_init(&c->machine, name);
	c->ops = its_ops;
	c->port = port;
	c->next = (struct event){ .run = on_next, .machine = &c->machine };
	connect_later(c);
}

void app_fini(struct app *c)
{
	c->has_left = true;
	if (c->sock)
		forget_connection(c);
	world_cancel(&c->next);
}

void app_call(struct app *c, const char *fmt, ...)
{
	struct buf words = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&words, fmt, ap);
	va_end(ap);
	request_words(&c->out, buf_slice(&words));
	trace("%s sends %.*s", sock_name(c->sock),
	      (int)(buf_len(&words) < SHOWN_MAX ? buf_len(&words) : SHOWN_MAX),
	      buf_head(&words));
	c->unanswered++;
	if (!c->writes_first)
		flush(c);
	buf_release(&words);
}

void app_gather(struct app *c)
{
	c->writes_first = true;
}

void app_write(struct app *c)
{
	flush(c);
}

void app_think(struct app *c, int64_t us)
{
	world_schedule_in(&c->next, us);
}

void app_hang_up(struct app *c)
{
	trace("hangs up");
	forget_connection(c);
}

void app_half_close(struct app *c)
{
	trace("half-closes");
	sock_shutdown(c->sock);
}
