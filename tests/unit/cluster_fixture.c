/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/cluster_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/testing.h"

#define DEADLINE_SECONDS 20

static double now;

static double the_clock(void *arg)
{
	(void)arg;
	return now;
}

static double the_links_clock(void)
{
	return now;
}

/* --- the client --------------------------------------------------------------------------- */

static void fixture_on_bytes(void *owner, struct slice bytes)
{
	struct cluster_fixture *f = owner;
	const char *text = f->goes_on;

	buf_append(&f->bytes, bytes);
	f->goes_on = NULL;
	if (text)
		client_sends(f, text, 1);
}

static void fixture_on_drained(void *owner)
{
	struct cluster_fixture *f = owner;

	f->ndrained++;
}

static void fixture_on_captured(void *owner)
{
	struct cluster_fixture *f = owner;

	f->ncaptured++;
}

static void fixture_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct cluster_fixture *f = owner;

	f->ndown++;
	f->end = end;
	f->inflight = inflight;
	f->link = NULL;
	snprintf(f->reason, sizeof(f->reason), "%s", reason);
}

static const struct link_ops client_ops = {
	.on_bytes = fixture_on_bytes,
	.on_drained = fixture_on_drained,
	.on_captured = fixture_on_captured,
	.on_down = fixture_on_down,
};

void client_sends_bytes(struct cluster_fixture *f, struct slice bytes, unsigned replies)
{
	if (replies)
		link_expect_plain(&f->user, replies);
	link_queue(f->link, bytes);
}

void client_sends(struct cluster_fixture *f, const char *text, unsigned replies)
{
	client_sends_bytes(f, slice_str(text), replies);
}

/* --- waiting ------------------------------------------------------------------------------ */

void turn_loop(struct cluster_fixture *f)
{
	for (int i = 0; i < 5; i++)
		ev_run(f->at.loop, EVRUN_NOWAIT);
	links_reap(&f->virtual);
	cluster_reap(f->cluster);
}

void nap(struct cluster_fixture *f, time_t began)
{
	struct timespec t = { 0, 1000000 };

	if (time(NULL) - began > DEADLINE_SECONDS)
		fail_msg("waited in vain");
	turn_loop(f);
	nanosleep(&t, NULL);
}

void time_passes(struct cluster_fixture *f, double seconds)
{
	now += seconds;
	timers_run(&f->timers, now);
	turn_loop(f);
}

void assert_client_got(struct cluster_fixture *f, const char *text)
{
	time_t began = time(NULL);

	while (buf_len(&f->bytes) < strlen(text) && !f->ndown)
		nap(f, began);
	turn_loop(f);
	assert_int_equal(buf_len(&f->bytes), strlen(text));
	assert_memory_equal(buf_head(&f->bytes), text, strlen(text));
	buf_clear(&f->bytes);
}

/* --- the nodes ---------------------------------------------------------------------------- */

static void accept_node(struct cluster_fixture *f, struct played_node *n)
{
	time_t began = time(NULL);

	while (n->fd < 0) {
		n->fd = accept(n->listener, NULL, NULL);
		if (n->fd < 0)
			nap(f, began);
	}
	assert_int_equal(fcntl(n->fd, F_SETFL, O_NONBLOCK), 0);
}

void assert_node_got(struct cluster_fixture *f, size_t node, const char *text)
{
	struct played_node *n = &f->nodes[node];
	size_t size = strlen(text), got = 0;
	char *p = malloc(size + 1);
	time_t began = time(NULL);

	accept_node(f, n);
	while (got < size) {
		ssize_t r = recv(n->fd, p + got, size - got, 0);
		if (r == 0 || (r < 0 && errno != EAGAIN))
			fail_msg("the connection has ended");
		if (r > 0)
			got += (size_t)r;
		else
			nap(f, began);
	}
	p[got] = '\0';
	assert_string_equal(p, text);
	free(p);
}

void assert_node_got_nothing(struct cluster_fixture *f, size_t node)
{
	char byte;

	turn_loop(f);
	if (f->nodes[node].fd >= 0)
		assert_true(recv(f->nodes[node].fd, &byte, 1, MSG_DONTWAIT) < 0);
	else
		assert_true(accept(f->nodes[node].listener, NULL, NULL) < 0);
}

void node_sends(struct cluster_fixture *f, size_t node, const char *text)
{
	size_t n = strlen(text), sent = 0;
	time_t began = time(NULL);

	while (sent < n) {
		ssize_t r = send(f->nodes[node].fd, text + sent, n - sent, MSG_NOSIGNAL);
		if (r > 0)
			sent += (size_t)r;
		nap(f, began);
	}
}

void node_sends_unseen(struct cluster_fixture *f, size_t node, const char *text)
{
	assert_int_equal(send(f->nodes[node].fd, text, strlen(text), MSG_NOSIGNAL),
	                 strlen(text));
}

void assert_passes(struct cluster_fixture *f, size_t node, const char *request,
                   unsigned replies, const char *answer)
{
	client_sends(f, request, replies);
	assert_node_got(f, node, request);
	node_sends(f, node, answer);
	assert_client_got(f, answer);
}

void node_hangs_up(struct cluster_fixture *f, size_t node)
{
	close(f->nodes[node].fd);
	f->nodes[node].fd = -1;
	turn_loop(f);
}

void assert_node_was_left(struct cluster_fixture *f, size_t node)
{
	time_t began = time(NULL);
	char byte;

	while (recv(f->nodes[node].fd, &byte, 1, MSG_DONTWAIT) != 0)
		nap(f, began);
	node_hangs_up(f, node);
}

void node_vanishes(struct cluster_fixture *f, size_t node)
{
	struct played_node *n = &f->nodes[node];

	close(n->listener);
	unlink(n->path);
	n->listener = -1;
	if (n->fd >= 0)
		node_hangs_up(f, node);
}

void node_is_asked(struct cluster_fixture *f, size_t node, bool was_down)
{
	assert_ptr_equal(f->unverified, &f->nodes[node].node);
	f->unverified = NULL;
	cluster_map_changed(f->cluster);
	cluster_node_answered(f->cluster, &f->nodes[node].node, f->nverified, was_down);
	turn_loop(f);
}

void node_takes_over(struct cluster_fixture *f, size_t to, size_t from)
{
	for (unsigned slot = 0; slot < SLOTS; slot++)
		if (slot_map_node(&f->map, slot) == &f->nodes[from].node)
			slot_map_move(&f->map, slot, &f->nodes[to].node);
	cluster_map_changed(f->cluster);
}

static void node_set_up(struct cluster_fixture *f, size_t i)
{
	struct played_node *n = &f->nodes[i];
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	snprintf(n->address, sizeof(n->address), "127.0.0.1:%zu", 7000 + i);
	snprintf(n->path, sizeof(n->path), "%s/%zu", f->at.dir, i);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", n->path);
	n->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(n->listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(n->listener, 64), 0);
	n->fd = -1;
	n->node.links = f->at.env;
	links_init(&n->node.links);
	snprintf(n->node.links.address.host, sizeof(n->node.links.address.host), "%s",
	         sun.sun_path);
	n->node.pool = pool_new(f->at.loop, &n->node.links);
}

/* --- the cluster -------------------------------------------------------------------------- */

static struct node *on_node(void *arg, const char *address)
{
	struct cluster_fixture *f = arg;

	for (size_t i = 0; i < NODES; i++)
		if (strcmp(f->nodes[i].address, address) == 0)
			return &f->nodes[i].node;
	fail_msg("there is no node %s", address);
	return NULL;
}

static void on_gone(void *arg, struct node *n)
{
	struct cluster_fixture *f = arg;

	cluster_forget_node(f->cluster, n);
}

static const struct slot_map_ops map_ops = { on_node, on_gone };

static enum node_health health_of(const struct node *n)
{
	return container_of(n, const struct played_node, node)->health;
}

static void on_refresh(void *arg)
{
	struct cluster_fixture *f = arg;

	f->nrefreshed++;
}

static uint64_t on_verify(void *arg, const struct node *n)
{
	struct cluster_fixture *f = arg;

	f->unverified = n;
	return ++f->nverified;
}

static struct cluster_fixture *fixture_new(void)
{
	struct cluster_fixture *f = calloc(1, sizeof(*f));
	struct node *n;

	now = 1000;
	surroundings_init(&f->at, 65536);
	f->at.env.clock = the_links_clock;
	f->timers.clock = the_clock;
	f->commands = commands_new();
	slot_map_init(&f->map, &map_ops, f);
	for (size_t i = 0; i < NODES; i++) {
		node_set_up(f, i);
		n = slot_map_get(&f->map, slice_str(f->nodes[i].address));
		for (unsigned slot = 0; i != SPARE && slot < SLOTS / 2; slot++)
			slot_map_move(&f->map, (unsigned)i * (SLOTS / 2) + slot, n);
	}
	f->cluster = cluster_new(&(struct cluster_opts){
		.flusher = &f->at.flusher,
		.map = &f->map,
		.commands = f->commands,
		.timers = &f->timers,
		.health = health_of,
		.refresh = on_refresh,
		.verify = on_verify,
		.arg = f,
	});
	f->virtual = f->at.env;
	links_init(&f->virtual);
	link_note_login(&f->virtual, false, now);
	cluster_serve(f->cluster, &f->virtual);
	return f;
}

int cluster_set_up(void **state)
{
	struct cluster_fixture *f = *state = fixture_new();

	f->link = link_new(&f->virtual, LINK_KIND_PRIVATE, NULL);
	link_user_init(&f->user, &client_ops, f);
	link_join(f->link, &f->user);
	return 0;
}

int cluster_set_up_shared(void **state)
{
	struct cluster_fixture *f = *state = fixture_new();

	f->link = link_new_accepted(&f->virtual, &(struct link_login){ .proto = 2 });
	link_user_init(&f->user, &client_ops, f);
	link_join(f->link, &f->user);
	return 0;
}

int cluster_tear_down(void **state)
{
	struct cluster_fixture *f = *state;

	link_close(f->link);
	links_reap(&f->virtual);
	cluster_reap(f->cluster);
	slot_map_fini(&f->map);
	for (size_t i = 0; i < NODES; i++) {
		struct played_node *n = &f->nodes[i];
		pool_free(n->node.pool);
		links_reap(&n->node.links);
		if (n->fd >= 0)
			close(n->fd);
		if (n->listener >= 0) {
			close(n->listener);
			unlink(n->path);
		}
	}
	cluster_free(f->cluster);
	commands_free(f->commands);
	timers_fini(&f->timers);
	buf_release(&f->bytes);
	surroundings_fini(&f->at);
	free(f);
	return 0;
}
