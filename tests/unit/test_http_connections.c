/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of admin/http_connections.c: which peers are too slow, and which descriptors hasp
 * closes. The test runs the loop of the thread that accepts, and takes the place of
 * libmicrohttpd.
 */
#include <ev.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/http.h"
#include "admin/http_connections.h"
#include "lock/events/stats.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

/* --- in the place of the C library: a thread that does nothing ---------------------------- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg)
{
	(void)attr;
	(void)start;
	(void)arg;
	*thread = pthread_self();
	return 0;
}

int pthread_join(pthread_t thread, void **result)
{
	(void)thread;
	(void)result;
	return 0;
}

/* --- in the place of libmicrohttpd -------------------------------------------------------- */

#define PEERS 3

struct MHD_Connection {
	union MHD_ConnectionInfo fd, context;
};

struct MHD_Daemon {
	struct MHD_Connection connections[PEERS];
	size_t n;
};

static struct MHD_Daemon server;

struct MHD_Daemon *MHD_start_daemon(unsigned flags, uint16_t port,
                                    MHD_AcceptPolicyCallback on_accept, void *accept_arg,
                                    MHD_AccessHandlerCallback on_request, void *arg, ...)
{
	(void)flags;
	(void)port;
	(void)on_accept;
	(void)accept_arg;
	(void)on_request;
	(void)arg;
	return &server;
}

void MHD_stop_daemon(struct MHD_Daemon *d)
{
	assert_ptr_equal(d, &server);
}

enum MHD_Result MHD_add_connection(struct MHD_Daemon *d, MHD_socket fd,
                                   const struct sockaddr *peer, socklen_t len)
{
	(void)peer;
	(void)len;
	d->connections[d->n++].fd.connect_fd = fd;
	return MHD_YES;
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *c,
                                                        enum MHD_ConnectionInfoType type, ...)
{
	return type == MHD_CONNECTION_INFO_CONNECTION_FD ? &c->fd : &c->context;
}

/* -------------------------------------------------------------------------------------- */

struct fixture {
	struct sockaddr_un address;
	socklen_t len; /* length of `address` */
	int listener;
	_Atomic uint64_t full;
	struct http_connections *connections;
	int fds[PEERS]; /* the peers' ends of the connections */
	size_t n; /* number of peers that have connected */
};

static void open_listener(struct fixture *f)
{
	f->address.sun_family = AF_UNIX;
	f->len = sizeof(f->address);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The kernel chooses an abstract address. */
	assert_int_equal(bind(f->listener, (struct sockaddr *)&f->address, sizeof(sa_family_t)),
	                 0);
	assert_int_equal(getsockname(f->listener, (struct sockaddr *)&f->address, &f->len), 0);
	assert_int_equal(listen(f->listener, PEERS), 0);
}

static void set_up(struct fixture *f)
{
	server.n = 0;
	open_listener(f);
	f->connections = http_connections_new(&f->full);
	assert_int_equal(http_connections_start(f->connections, &server, &f->listener, 1), 0);
}

static void tear_down(struct fixture *f)
{
	http_connections_stop(f->connections);
	http_connections_free(f->connections);
	for (size_t i = 0; i < f->n; i++) {
		close(f->fds[i]);
		close(server.connections[i].fd.connect_fd);
	}
}

static void turn_loop(struct fixture *f)
{
	ev_run(http_connections_loop(f->connections), EVRUN_NOWAIT);
}

/* A peer connects, and hasp hands its connection to libmicrohttpd. */
static struct MHD_Connection *connect_peer(struct fixture *f)
{
	struct MHD_Connection *c = &server.connections[f->n];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&f->address, f->len), 0);
	f->fds[f->n++] = fd;
	turn_loop(f);
	assert_int_equal(server.n, f->n);
	http_connections_notify(f->connections, c, &c->context.socket_context,
	                        MHD_CONNECTION_NOTIFY_STARTED);
	return c;
}

/* Expects of each peer whether hasp has shut its connection down. */
static void assert_shut(struct fixture *f, const bool *is_shut)
{
	char byte;

	turn_loop(f);
	for (size_t i = 0; i < f->n; i++)
		assert_int_equal(recv(f->fds[i], &byte, 1, MSG_DONTWAIT), is_shut[i] ? 0 : -1);
}

STRUCT_FIXTURE(set_up, tear_down);

TEST(peer_that_sends_no_request_for_ten_seconds_is_closed)
{
	connect_peer(f);
	fake_clock_advance_ms(250);
	connect_peer(f);
	fake_clock_advance_ms(8750);
	assert_shut(f, (bool[]){ false, false });
	fake_clock_advance_ms(1000);
	assert_shut(f, (bool[]){ true, false });
	fake_clock_advance_ms(1000);
	assert_shut(f, (bool[]){ true, true });
}

TEST(peer_that_does_not_read_its_reply_for_thirty_seconds_is_closed)
{
	struct MHD_Connection *awaits_reply = connect_peer(f), *slow = connect_peer(f), *last;

	http_connection_set_rank(f->connections, awaits_reply, PLACE_BUSY);
	http_connection_set_rank(f->connections, slow, PLACE_PROVEN);
	fake_clock_advance_ms(250);
	last = connect_peer(f);
	http_connection_set_rank(f->connections, last, PLACE_PROVEN);
	fake_clock_advance_ms(28750);
	assert_shut(f, (bool[]){ false, false, false });
	fake_clock_advance_ms(1000);
	assert_shut(f, (bool[]){ false, true, false });
	/* This peer has read its reply, so it has ten seconds for its next request. */
	http_connections_completed(f->connections, last, NULL,
	                           MHD_REQUEST_TERMINATED_COMPLETED_OK);
	fake_clock_advance_ms(9000);
	assert_shut(f, (bool[]){ false, true, false });
	fake_clock_advance_ms(1000);
	assert_shut(f, (bool[]){ false, true, true });
}

/* http_leave() stops the acceptors, which close the listening sockets, and then waits. Until
 * http_close(), another thread may open a file that gets the number of such a socket. */
TEST(http_close_keeps_a_descriptor_opened_after_hasp_stopped_listening)
{
	struct config *config = load("");
	struct worker_shared shared = { .stats = stats_new(1) };
	struct http h = { 0 };
	struct listen_socket socket = { .fd = eventfd(0, EFD_CLOEXEC) };
	int other;

	assert_int_equal(http_open(&h, &socket, 1), 0);
	assert_int_equal(http_serve(&h, &shared, config), 0);
	http_connections_stop(h.connections);
	other = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(other, socket.fd);
	http_close(&h);
	assert_int_equal(close(other), 0);
	config_unref(config);
	stats_free(shared.stats);
}
