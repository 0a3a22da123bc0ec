/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/simnet.h"

#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"
#include "tests/sim/loop.h"
#include "tests/sim/world.h"

#define PORTS_MAX 16
#define FIRST_FD 100 /* descriptors below are the process' own */
#define FDS_MAX 400
/* Delay of a piece, in microseconds. */
#define DELAY_LEAST 20
#define DELAY_MOST (20 * MS)
/* A sender must wait for the reader when this many bytes are under way. */
#define WINDOW (64 * 1024)

enum piece_kind { PIECE_BYTES, PIECE_END, PIECE_RESET, PIECE_CONNECTED };

/* A piece on its way to an end of a connection. */
struct piece {
	struct event arrival;
	struct list node; /* in to->coming */
	struct sock *to;
	enum piece_kind kind;
	int error; /* PIECE_RESET: the errno that the reader gets */
	struct buf bytes;
};

struct sock {
	struct list node; /* in simnet.socks */
	int number;
	struct machine *machine;
	struct sock *peer; /* NULL: not connected, or the peer is freed */
	struct list coming; /* pieces */
	int64_t last_arrival; /* arrival of the last piece that was ever sent to this end */
	struct buf in; /* bytes that have arrived, and were not read */
	bool at_end; /* the peer sends nothing more */
	int error; /* errno of the failure that broke the connection; 0: none */
	bool connecting, connected, reset, shut, closed;
	bool lost; /* the connection was cut: sent bytes arrive nowhere */
	/* An end with callbacks: */
	const struct sock_ops *ops;
	void *arg;
	struct event input; /* runs the callbacks */
	bool end_told;
	char name[32];
	/* A descriptor: */
	int fd; /* -1: it has none */
	struct ev_loop *loop;
	uint64_t ready_since;
	/* One that listens: */
	struct service *service;
	struct list accepting; /* sockets not accepted, by `waiting` */
	struct list waiting;
};

static struct {
	struct list socks, dead;
	struct sock *fds[FDS_MAX];
	struct {
		int port;
		struct service *service;
		struct sock *listener; /* hasp's listening socket; NULL: the service has
		                        * callbacks */
	} ports[PORTS_MAX];
	int numbers;
	uint64_t readiness;
} simnet;

/* --- ends --------------------------------------------------------------------------------- */

static void on_input(struct event *e);

static struct sock *sock_new(struct machine *m)
{
	struct sock *s = xcalloc(1, sizeof(*s));

	s->number = ++simnet.numbers;
	s->machine = m;
	s->fd = -1;
	s->input = (struct event){ .run = on_input, .machine = m };
	list_init(&s->coming);
	list_init(&s->accepting);
	list_init(&s->waiting);
	snprintf(s->name, sizeof(s->name), "%s#%d", m->name, s->number);
	list_append(&simnet.socks, &s->node);
	return s;
}

/* Keeps the memory until the next event: the owner may be in one of its callbacks. */
static void sock_bury(struct sock *s)
{
	struct list *node;

	while ((node = list_shift(&s->coming))) {
		struct piece *p = container_of(node, struct piece, node);
		world_cancel(&p->arrival);
		buf_release(&p->bytes);
		free(p);
	}
	world_cancel(&s->input);
	buf_release(&s->in);
	if (s->peer)
		s->peer->peer = NULL;
	list_remove(&s->waiting);
	list_remove(&s->node);
	list_append(&simnet.dead, &s->node);
}

static void free_dead(void)
{
	struct list *node;

	while ((node = list_shift(&simnet.dead)))
		free(container_of(node, struct sock, node));
}

const char *sock_name(const struct sock *s)
{
	return s->name;
}

struct machine *sock_machine(const struct sock *s)
{
	return s->machine;
}

struct sock *sock_peer(const struct sock *s)
{
	return s->peer;
}

int sock_port(const struct sock *s)
{
	return 10000 + s->number;
}

/* Call this when the end may have become ready. */
void sock_wake(struct sock *s)
{
	if (s->closed)
		return;
	if (s->fd >= 0) {
		if (!s->ready_since)
			s->ready_since = ++simnet.readiness;
		if (s->loop)
			loop_wake(s->loop);
	} else if (s->ops && !s->input.place) {
		world_schedule_in(&s->input, chance_delay(1, MS));
	}
}

static void on_input(struct event *e)
{
	struct sock *s = container_of(e, struct sock, input);

	free_dead();
	if (s->ops->on_space && sock_space(s))
		s->ops->on_space(s->arg);
	if (!s->closed && buf_len(&s->in))
		s->ops->on_input(s->arg, &s->in);
	if (s->closed)
		return;
	if (s->peer && s->peer->fd >= 0)
		sock_wake(s->peer); /* there is space again */
	if ((s->at_end || s->reset) && !s->end_told) {
		s->end_told = true;
		s->ops->on_end(s->arg, s->reset);
	}
}

void sock_use(struct sock *s, const struct sock_ops *ops, void *arg, const char *name)
{
	s->ops = ops;
	s->arg = arg;
	if (name)
		snprintf(s->name, sizeof(s->name), "%s#%d", name, s->number);
	sock_wake(s);
}

/* --- on the way --------------------------------------------------------------------------- */

static void arrive(struct sock *s, struct piece *p)
{
	world_enter(s->machine); /* for the trace */
	switch (p->kind) {
	case PIECE_BYTES:
		buf_append(&s->in, buf_slice(&p->bytes));
		trace_bytes(s->name, buf_slice(&p->bytes));
		break;
	case PIECE_END:
		s->at_end = true;
		trace("%s: the peer has ended", s->name);
		break;
	case PIECE_RESET:
		s->reset = true;
		s->connecting = false;
		s->error = p->error;
		trace("%s: reset (%s)", s->name, strerror(p->error));
		break;
	case PIECE_CONNECTED:
		s->connecting = false;
		s->connected = true;
		break;
	}
}

static void send_piece(struct sock *to, enum piece_kind kind, struct slice bytes, int error);

static void on_arrival(struct event *e)
{
	struct piece *p = container_of(e, struct piece, arrival);
	struct sock *s = p->to;
	bool refused = s->closed && p->kind == PIECE_BYTES;

	list_remove(&p->node);
	if (!s->closed && !s->reset)
		arrive(s, p);
	buf_release(&p->bytes);
	free(p);
	if (refused && s->peer && !s->peer->lost)
		send_piece(s->peer, PIECE_RESET, SLICE_NONE, ECONNRESET);
	sock_wake(s);
}

static void send_piece(struct sock *to, enum piece_kind kind, struct slice bytes, int error)
{
	struct piece *p = xcalloc(1, sizeof(*p));
	int64_t at = world_now() + chance_delay(DELAY_LEAST, DELAY_MOST);

	if (to->peer && to->peer->machine->late_most)
		at += chance_between(0, to->peer->machine->late_most);
	p->arrival.run = on_arrival;
	p->to = to;
	p->kind = kind;
	p->error = error;
	buf_append(&p->bytes, bytes);
	list_append(&to->coming, &p->node);
	if (at < to->last_arrival)
		at = to->last_arrival;
	to->last_arrival = at;
	world_schedule(&p->arrival, at);
}

static size_t unread(const struct sock *s)
{
	size_t n = buf_len(&s->in);

	for (const struct list *at = s->coming.next; at != &s->coming; at = at->next)
		n += buf_len(&container_of(at, struct piece, node)->bytes);
	return n;
}

size_t sock_space(const struct sock *s)
{
	size_t there = s->peer && !s->lost ? unread(s->peer) : 0;

	return there < WINDOW ? WINDOW - there : 0;
}

void sock_send(struct sock *s, struct slice bytes)
{
	size_t first = bytes.n > 1 && chance_one_in(8) ? chance(bytes.n) : 0;

	if (!bytes.n || !s->peer || s->shut || s->reset || s->lost)
		return;
	if (first)
		send_piece(s->peer, PIECE_BYTES, slice_of(bytes.p, first), 0);
	send_piece(s->peer, PIECE_BYTES, slice_of(bytes.p + first, bytes.n - first), 0);
}

void sock_shutdown(struct sock *s)
{
	if (s->shut)
		return;
	s->shut = true;
	if (s->peer && !s->reset && !s->lost)
		send_piece(s->peer, PIECE_END, SLICE_NONE, 0);
}

void sock_close(struct sock *s)
{
	bool unread_input = buf_len(&s->in) > 0;

	HASP_ASSERT(!s->closed);
	if (s->peer && !s->reset && !s->lost && unread_input)
		send_piece(s->peer, PIECE_RESET, SLICE_NONE, ECONNRESET);
	else
		sock_shutdown(s);
	s->closed = true;
	s->shut = true;
	if (s->fd >= 0)
		simnet.fds[s->fd - FIRST_FD] = NULL;
	s->fd = -1;
	world_cancel(&s->input);
	/* The end that is closed last frees both; pieces on their way are lost. */
	if (!s->peer) {
		sock_bury(s);
	} else if (s->peer->closed) {
		struct sock *peer = s->peer;
		sock_bury(s);
		sock_bury(peer);
	}
}

/* --- connecting --------------------------------------------------------------------------- */

static int find_port(int port)
{
	for (int i = 0; i < PORTS_MAX; i++)
		if (simnet.ports[i].service && simnet.ports[i].port == port)
			return i;
	return -1;
}

static int add_port(int port, struct service *s)
{
	int i = 0;

	HASP_ASSERT(find_port(port) < 0);
	while (simnet.ports[i].service)
		HASP_ASSERT(++i < PORTS_MAX);
	simnet.ports[i].port = port;
	simnet.ports[i].service = s;
	simnet.ports[i].listener = NULL;
	return i;
}

void simnet_listen(int port, struct service *s)
{
	(void)add_port(port, s);
}

void simnet_unlisten(int port)
{
	int i = find_port(port);

	HASP_ASSERT(i >= 0);
	simnet.ports[i].service = NULL;
}

static int take_fd(struct sock *s)
{
	int i = 0;

	while (simnet.fds[i])
		HASP_ASSERT(++i < FDS_MAX);
	simnet.fds[i] = s;
	s->fd = FIRST_FD + i;
	return s->fd;
}

int simnet_listen_fd(int port, struct service *s)
{
	int i = add_port(port, s);
	struct sock *listener = sock_new(s->machine);

	simnet.ports[i].listener = listener;
	listener->service = s;
	return take_fd(listener);
}

static void connect_to(struct sock *from, int place)
{
	struct service *service = simnet.ports[place].service;
	struct sock *to = sock_new(service->machine), *listener = simnet.ports[place].listener;

	from->peer = to;
	to->peer = from;
	to->connected = true;
	/* Both ends may send at once: what they send arrives later than the connection. */
	send_piece(from, PIECE_CONNECTED, SLICE_NONE, 0);
	if (listener) {
		list_append(&listener->accepting, &to->waiting);
		sock_wake(listener);
	} else {
		service->on_connection(service, to);
	}
}

struct sock *simnet_connect(struct machine *m, int port)
{
	int i = find_port(port);
	struct sock *s;

	if (i < 0 || simnet.ports[i].service->refuses)
		return NULL;
	s = sock_new(m);
	s->connected = true;
	connect_to(s, i);
	return s;
}

int simnet_socket(void)
{
	return take_fd(sock_new(world_current()));
}

int simnet_connect_fd(int fd, int port)
{
	struct sock *s = simnet_sock(fd);
	int i = find_port(port);

	s->connecting = true;
	if (i < 0 || simnet.ports[i].service->refuses)
		send_piece(s, PIECE_RESET, SLICE_NONE, ECONNREFUSED);
	else
		connect_to(s, i);
	errno = EINPROGRESS;
	return -1;
}

int simnet_accept(int fd)
{
	struct list *node = list_shift(&simnet_sock(fd)->accepting);

	if (!node) {
		errno = EAGAIN;
		return -1;
	}
	return take_fd(container_of(node, struct sock, waiting));
}

/* --- faults ------------------------------------------------------------------------------- */

/* Not the end of one that is closing, and each connection by one end only. */
static bool counts(const struct sock *s, const struct machine *m)
{
	if (!s->peer || s->closed || s->peer->closed || s->lost || s->reset)
		return false;
	return m ? s->machine == m : s->number < s->peer->number;
}

void simnet_each(const struct machine *m, void (*call)(void *arg, struct sock *s), void *arg)
{
	for (struct list *at = simnet.socks.next; at != &simnet.socks; at = at->next) {
		struct sock *s = container_of(at, struct sock, node);
		if (counts(s, m))
			call(arg, s);
	}
}

static void count_one(void *arg, struct sock *s)
{
	(void)s;
	++*(size_t *)arg;
}

size_t simnet_count(const struct machine *m)
{
	size_t n = 0;

	simnet_each(m, count_one, &n);
	return n;
}

bool simnet_is_ended(const struct machine *m)
{
	for (struct list *at = simnet.socks.next; at != &simnet.socks; at = at->next) {
		const struct sock *s = container_of(at, struct sock, node);
		if (s->machine == m && !s->closed && s->peer && s->peer->shut)
			return true;
	}
	return false;
}

struct sock *simnet_pick(const struct machine *m, size_t n)
{
	for (struct list *at = simnet.socks.next; at != &simnet.socks; at = at->next) {
		struct sock *s = container_of(at, struct sock, node);
		if (counts(s, m) && n-- == 0)
			return s;
	}
	return NULL;
}

/* Of what is on its way to the end, the first pieces arrive, and then it is reset. They arrive
 * at once: neither end knows that the connection is cut while bytes of it are still on their
 * way. */
static void cut_end(struct sock *s)
{
	size_t n = 0, kept;

	s->lost = true;
	for (struct list *at = s->coming.next; at != &s->coming; at = at->next)
		n++;
	kept = chance(n + 1);
	for (struct list *at = s->coming.next, *next; at != &s->coming; at = next) {
		struct piece *p = container_of(at, struct piece, node);
		next = at->next;
		if (kept) {
			kept--;
			world_schedule(&p->arrival, world_now());
			continue;
		}
		list_remove(&p->node);
		world_cancel(&p->arrival);
		buf_release(&p->bytes);
		free(p);
	}
	send_piece(s, PIECE_RESET, SLICE_NONE, ECONNRESET);
}

void sock_cut(struct sock *s)
{
	if (s->peer)
		cut_end(s->peer);
	cut_end(s);
}

static void stall_end(struct sock *s, int64_t until)
{
	if (s->last_arrival < until)
		s->last_arrival = until;
	for (struct list *at = s->coming.next; at != &s->coming; at = at->next) {
		struct piece *p = container_of(at, struct piece, node);
		if (p->arrival.at < until)
			world_schedule(&p->arrival, until);
	}
}

void sock_stall(struct sock *s, int64_t until)
{
	stall_end(s, until);
	if (s->peer)
		stall_end(s->peer, until);
}

/* --- descriptors -------------------------------------------------------------------------- */

bool simnet_has(int fd)
{
	return fd >= FIRST_FD && fd < FIRST_FD + FDS_MAX && simnet.fds[fd - FIRST_FD];
}

struct sock *simnet_sock(int fd)
{
	HASP_ASSERT(simnet_has(fd));
	return simnet.fds[fd - FIRST_FD];
}

static bool may_send(const struct sock *s)
{
	if (s->connecting || !s->connected)
		return s->error || s->reset;
	return s->reset || sock_space(s);
}

int simnet_ready(int fd)
{
	const struct sock *s = simnet_sock(fd);
	int events = 0;

	if (s->service)
		return list_empty(&s->accepting) ? 0 : EV_READ;
	if (buf_len(&s->in) || s->at_end || s->reset)
		events |= EV_READ;
	if (may_send(s))
		events |= EV_WRITE;
	return events;
}

uint64_t simnet_ready_since(int fd)
{
	return simnet_sock(fd)->ready_since;
}

void simnet_reported(int fd)
{
	simnet_sock(fd)->ready_since = ++simnet.readiness;
}

void simnet_watch(int fd, struct ev_loop *loop)
{
	simnet_sock(fd)->loop = loop;
}

ssize_t simnet_receive(int fd, char *p, size_t n, bool peek)
{
	struct sock *s = simnet_sock(fd);
	size_t len = buf_len(&s->in);

	if (len) {
		if (n > len)
			n = len;
		memcpy(p, buf_head(&s->in), n);
		if (peek)
			return (ssize_t)n;
		buf_consume(&s->in, n);
		if (s->peer)
			sock_wake(s->peer); /* there is space again */
		return (ssize_t)n;
	}
	s->ready_since = 0;
	if (s->reset) {
		errno = s->error ? s->error : ECONNRESET;
		return -1;
	}
	if (s->at_end)
		return 0;
	errno = EAGAIN;
	return -1;
}

ssize_t simnet_send(int fd, struct slice bytes)
{
	struct sock *s = simnet_sock(fd);
	size_t space = sock_space(s);

	if (s->reset || s->shut || !s->connected) {
		errno = s->reset ? s->error : s->shut ? EPIPE : ENOTCONN;
		return -1;
	}
	if (!space) {
		errno = EAGAIN;
		return -1;
	}
	if (bytes.n > space)
		bytes.n = space;
	sock_send(s, bytes);
	return (ssize_t)bytes.n;
}

int simnet_shutdown(int fd)
{
	sock_shutdown(simnet_sock(fd));
	return 0;
}

int simnet_close(int fd)
{
	struct sock *s = simnet_sock(fd);
	struct list *node;

	for (int i = 0; i < PORTS_MAX; i++) {
		if (simnet.ports[i].listener == s) {
			simnet.ports[i].service = NULL;
			simnet.ports[i].listener = NULL;
		}
	}
	while ((node = list_shift(&s->accepting)))
		sock_close(container_of(node, struct sock, waiting));
	sock_close(s);
	return 0;
}

int simnet_error(int fd)
{
	return simnet_sock(fd)->error;
}

bool simnet_is_hung_up(int fd)
{
	const struct sock *s = simnet_sock(fd);

	return s->at_end || s->reset;
}

void simnet_begin(void)
{
	memset(&simnet, 0, sizeof(simnet));
	list_init(&simnet.socks);
	list_init(&simnet.dead);
}

void simnet_end(void)
{
	while (!list_empty(&simnet.socks))
		sock_bury(container_of(simnet.socks.next, struct sock, node));
	free_dead();
}
