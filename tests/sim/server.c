/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

void request_words(struct buf *out, struct slice words)
{
	size_t n = 1;
	struct slice word;

	for (size_t i = 0; i < words.n; i++)
		n += words.p[i] == ' ';
	buf_printf(out, "*%zu\r\n", n);
	while (slice_cut(&words, ' ', &word))
		buf_printf(out, "$%zu\r\n%.*s\r\n", word.n, (int)word.n, word.p);
}

struct connection {
	struct list node; /* in server.connections */
	struct server *server;
	struct sock *sock;
	struct sim_redis_conn *conn; /* NULL: Redis has closed it */
};

static int64_t date_of(void *arg)
{
	return world_date(&((struct server *)arg)->machine);
}

static void on_reply(void *arg, const char *p, size_t n)
{
	sock_send(((struct connection *)arg)->sock, slice_of(p, n));
}

static void connection_free(struct connection *c)
{
	if (c->conn)
		sim_redis_disconnect(c->conn);
	sock_close(c->sock);
	list_remove(&c->node);
	free(c);
}

/* Do not free the connection here: Redis is still using it. */
static void on_closed(void *arg)
{
	struct connection *c = arg;

	c->conn = NULL;
	sock_shutdown(c->sock);
}

static void on_input(void *arg, struct buf *in)
{
	struct connection *c = arg;

	trace("runs what %s has received", sock_name(c->sock));
	if (c->conn)
		sim_redis_receive(c->conn, buf_head(in), buf_len(in));
	buf_clear(in);
	if (!c->conn)
		connection_free(c);
}

static void on_end(void *arg, bool reset)
{
	(void)reset;
	connection_free(arg);
}

static const struct sock_ops connection_ops = { .on_input = on_input, .on_end = on_end };

static void on_connection(struct service *service, struct sock *end)
{
	struct connection *c = xcalloc(1, sizeof(*c));

	c->server = service->arg;
	c->sock = end;
	c->conn = sim_redis_connect(c->server->redis, on_reply, on_closed, c);
	list_append(&c->server->connections, &c->node);
	sock_use(end, &connection_ops, c, c->server->machine.name);
}

static void on_back(struct event *e)
{
	struct server *s = container_of(e, struct server, back);

	s->service.refuses = false;
	trace("is up");
}

void server_start(struct server *s, const char *name, int port, uint64_t seed)
{
	machine_init(&s->machine, name);
	s->redis = sim_redis_new(date_of, s, seed);
	s->port = port;
	s->data_lost_at = -1;
	s->service = (struct service){ .machine = &s->machine,
		                       .on_connection = on_connection,
		                       .arg = s };
	s->back = (struct event){ .run = on_back, .machine = &s->machine };
	list_init(&s->connections);
	simnet_listen(port, &s->service);
}

static void close_connections(struct server *s)
{
	while (!list_empty(&s->connections))
		connection_free(container_of(s->connections.next, struct connection, node));
}

void server_end(struct server *s)
{
	close_connections(s);
	simnet_unlisten(s->port);
	sim_redis_free(s->redis);
}

void server_restart(struct server *s, bool keep_data, int64_t down_us)
{
	close_connections(s);
	sim_redis_restart(s->redis, keep_data);
	if (!keep_data)
		s->data_lost_at = world_now();
	s->service.refuses = true;
	world_schedule_in(&s->back, down_us);
}

bool server_is_up(const struct server *s)
{
	return !s->service.refuses && s->machine.paused_until <= world_now();
}

static void on_answer(void *arg, const char *p, size_t n)
{
	redisReaderFeed(arg, p, n);
}

static void ignore_end(void *arg)
{
	(void)arg;
}

redisReply *server_ask(struct server *s, const char *command, const char *arg)
{
	redisReader *reader = redisReaderCreate();
	struct sim_redis_conn *c = sim_redis_connect(s->redis, on_answer, ignore_end, reader);
	struct buf request = BUF_INIT;
	void *reply = NULL;
	char words[256];

	snprintf(words, sizeof(words), "%s", command);
	if (strstr(command, "%s"))
		snprintf(words, sizeof(words), "%.*s%s%s",
		         (int)(strstr(command, "%s") - command), command, arg,
		         strstr(command, "%s") + 2);
	request_words(&request, slice_str(words));
	sim_redis_receive(c, buf_head(&request), buf_len(&request));
	HASP_ASSERT(redisReaderGetReply(reader, &reply) == REDIS_OK && reply);
	sim_redis_disconnect(c);
	buf_release(&request);
	redisReaderFree(reader);
	return reply;
}
