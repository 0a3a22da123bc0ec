/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a TLS stream, with unusual clients: one byte at a time, everything at once, nothing
 * for long, and no TLS at all.
 */

#define TEST_FIXTURE struct tls_fixture *f

#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/dial.h"
#include "tests/unit/testing.h"
#include "tests/unit/tls_fixture.h"

FIXTURE(tls_fixture_setup, tls_fixture_teardown);

/* --- what comes in ------------------------------------------------------------------------ */

TEST(records_in_single_bytes_are_read_whole)
{
	char *bytes = pattern(40 * KB);

	f->bytewise = true;
	shake_hands(f);
	client_write(f, bytes, 100);
	client_write(f, bytes + 100, 1);
	client_write(f, bytes + 101, 40 * KB - 101);
	until_got(f, 40 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 40 * KB);
	free(bytes);
}

/* The bytes are more than the owner reads at once, and their end follows; the socket becomes
 * readable only once. */
TEST(records_that_come_with_the_end_are_read_before_it)
{
	static const size_t chunks[] = { 1000, 1, 16 * KB, 16 * KB + 1, 64 * KB };
	char *bytes = pattern(50 * KB);

	for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		if (i) {
			tls_fixture_teardown(state);
			tls_fixture_setup(state);
			f = *state;
		}
		shake_hands(f);
		f->chunk = chunks[i];
		client_write(f, bytes, 50 * KB);
		SSL_shutdown(f->client);
		assert_true(client_flush(f));
		shutdown(f->fd, SHUT_WR);
		until_end(f);
		assert_int_equal(f->end, 0);
		assert_int_equal(buf_len(&f->got), 50 * KB);
		assert_memory_equal(buf_head(&f->got), bytes, 50 * KB);
	}
	free(bytes);
}

/* The client sends 50 KB, and the owner pauses the stream after 100 bytes. Returns the 50 KB;
 * the caller frees them. */
static char *paused_behind_the_first(struct tls_fixture *f)
{
	char *bytes = pattern(50 * KB);

	shake_hands(f);
	f->chunk = f->pause_at = 100;
	client_write(f, bytes, 50 * KB);
	assert_true(client_flush(f));
	return bytes;
}

TEST(nothing_is_read_while_it_is_paused)
{
	char *bytes = paused_behind_the_first(f);

	tls_fixture_run(f, 20);
	assert_int_equal(buf_len(&f->got), 100);
	f->pause_at = 0;
	stream_resume(&f->stream);
	until_got(f, 50 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 50 * KB);
	free(bytes);
}

TEST(bytes_that_were_decrypted_wait_for_memory)
{
	char *bytes = paused_behind_the_first(f);

	tls_fixture_run(f, 3);
	f->account.limit = 0;
	account_set(&f->account, &f->share, MB);
	f->pause_at = 0;
	stream_resume(&f->stream);
	tls_fixture_run(f, 20);
	assert_int_equal(buf_len(&f->got), 100);
	account_set(&f->account, &f->share, 0);
	until_got(f, 50 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 50 * KB);
	free(bytes);
}

/* All that the client sent is in OpenSSL, so the socket does not become readable again. */
TEST(bytes_that_were_decrypted_are_read_when_the_owner_has_memory_again)
{
	char *bytes = pattern(KB);

	shake_hands(f);
	f->chunk = f->pause_at = 100;
	client_write(f, bytes, KB);
	until_got(f, 100);
	f->has_no_memory = true;
	f->pause_at = 0;
	stream_resume(&f->stream);
	tls_fixture_run(f, 5);
	assert_int_equal(buf_len(&f->got), 100);
	f->has_no_memory = false;
	until_got(f, KB);
	assert_memory_equal(buf_head(&f->got), bytes, KB);
	free(bytes);
}

/* --- what goes out ------------------------------------------------------------------------ */

TEST(client_that_reads_late_gets_everything)
{
	const size_t n = 3 * MB;
	char *bytes = pattern(n);
	size_t sent = MB;

	shake_hands(f);
	stream_send(&f->stream, slice_of(bytes, MB));
	assert_true(stream_pending(&f->stream) > 0);
	/* `out` grows while a write waits to be repeated. */
	while (sent < n) {
		size_t piece = 1 + sent % 70001;
		piece = piece < n - sent ? piece : n - sent;
		stream_queue(&f->stream, slice_of(bytes + sent, piece));
		sent += piece;
		tls_fixture_run(f, 1);
	}
	assert_in_range(stream_pending(&f->stream), n - MB, n);
	until_read(f, n);
	assert_memory_equal(buf_head(&f->read), bytes, n);
	tls_fixture_run(f, 2);
	assert_int_equal(stream_pending(&f->stream), 0);
	assert_int_equal(buf_cap(&f->stream.out), 0);
	free(bytes);
}

TEST(what_was_sent_before_the_handshake_is_sent_behind_it_and_then_the_end)
{
	char *bytes = pattern(500 * KB);

	stream_send(&f->stream, slice_of(bytes, 100));
	stream_queue(&f->stream, slice_of(bytes + 100, 500 * KB - 100));
	stream_shutdown(&f->stream);
	tls_fixture_run(f, 2);
	assert_int_equal(stream_pending(&f->stream), 500 * KB);
	shake_hands(f);
	until_read(f, 500 * KB);
	assert_memory_equal(buf_head(&f->read), bytes, 500 * KB);
	for (int i = 0; i < 1000 && !f->closed; i++) {
		tls_fixture_run(f, 1);
		client_fetch(f);
	}
	assert_true(f->closed);
	assert_int_equal(recv(f->fd, bytes, 1, MSG_DONTWAIT), 0);
	/* The stream still reads what the client sends. */
	client_write(f, bytes, 10);
	until_got(f, 10);
	free(bytes);
}

TEST(end_of_a_client_is_answered_with_the_end)
{
	shake_hands(f);
	SSL_shutdown(f->client);
	assert_true(client_flush(f));
	until_end(f);
	stream_close(&f->stream);
	client_fetch(f);
	assert_true(f->closed);
}

/* --- what breaks -------------------------------------------------------------------------- */

TEST(garbage_ends_it_behind_what_came_before)
{
	const char *reason;

	shake_hands(f);
	client_write(f, "hello", 5);
	assert_true(client_flush(f));
	assert_int_equal(send(f->fd, "*1\r\n$4\r\nPING\r\n", 14, 0), 14);
	until_end(f);
	assert_int_equal(f->end, -1);
	assert_memory_equal(buf_head(&f->got), "hello", 5);
	assert_true(stream_tls_failed(&f->stream));
	reason = stream_strerror(&f->stream, EPROTO);
	/* The reasons of OpenSSL 3.0 and 3.5. */
	if (strcmp(reason, "wrong version number") != 0)
		assert_string_equal(reason, "bad record type");
}

TEST(record_that_was_changed_on_its_way_is_not_read)
{
	char *p;

	shake_hands(f);
	client_write(f, "hello", 5);
	BIO_get_mem_data(f->out, &p);
	p[8] ^= 1;
	assert_true(client_flush(f));
	until_end(f);
	assert_int_equal(f->end, -1);
	assert_int_equal(buf_len(&f->got), 0);
}

TEST(client_that_goes_in_the_middle_of_a_record_has_ended)
{
	char *bytes = pattern(20 * KB), *p;
	long n;

	shake_hands(f);
	client_write(f, bytes, 20 * KB);
	n = BIO_get_mem_data(f->out, &p);
	assert_int_equal(send(f->fd, p, (size_t)n - 10, 0), n - 10);
	tls_fixture_run(f, 3);
	/* The client leaves with unread bytes. */
	stream_send(&f->stream, slice_of(bytes, 100));
	close(f->fd);
	f->fd = -1;
	until_end(f);
	assert_false(stream_tls_failed(&f->stream));
	assert_int_equal(buf_len(&f->got), 16 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 16 * KB);
	free(bytes);
}

TEST(client_that_goes_in_the_handshake_has_ended)
{
	stream_send(&f->stream, slice_of("hello", 5));
	SSL_do_handshake(f->client);
	assert_true(client_flush(f));
	tls_fixture_run(f, 3);
	close(f->fd);
	f->fd = -1;
	until_end(f);
	assert_int_equal(f->end, -1);
	assert_true(stream_tls_failed(&f->stream));
}

/* --- beginning ---------------------------------------------------------------------------- */

static void never_dialled(void *arg, int fd, struct tls *tls, const char *reason)
{
	(void)arg;
	(void)fd;
	(void)tls;
	fail_msg("dialled: %s", reason ? reason : "it is connected");
}

/* Returns a listening socket, and its address in `at`. */
static int listen_for(struct address *at)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(sa);
	char where[32];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, n), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
	snprintf(where, sizeof(where), "127.0.0.1:%d", ntohs(sa.sin_port));
	assert_int_equal(address_parse(at, where), 0);
	return fd;
}

/* After a reload during the connection, only the connection still uses the old context. */
TEST(what_a_connection_needs_lives_until_it_is_there)
{
	struct tls_settings any = { .peer = TLS_PEER_ANY };
	struct dialer dialer = { .loop = f->loop, .timeout_ms = 600000 };
	struct buf why = BUF_INIT;
	struct address to;
	char first, *name = strdup("localhost");
	int listener = listen_for(&to), fd;
	struct dial *d;

	dialer.tls.context = tls_context_new(&any, &why);
	dialer.tls.name = name;
	d = dial_start(&dialer, &to, never_dialled, NULL);
	tls_context_unref(dialer.tls.context);
	free(name);
	fd = accept(listener, NULL, NULL);
	/* Reads the handshake's first byte. */
	while (recv(fd, &first, 1, MSG_DONTWAIT) != 1)
		ev_run(f->loop, EVRUN_NOWAIT);
	assert_int_equal(first, 0x16);
	dial_cancel(d);
	close(fd);
	close(listener);
}

/* --- sessions ------------------------------------------------------------------------------
 */

/* Connects a client with the context `c` to a server with the fixture's. The client reads a
 * byte, and with it the session that the server issues. Returns how the client's handshake
 * ended. */
static enum tls_progress connect_by(struct tls_fixture *f, struct tls_context *c,
                                    struct tls_resume *resume)
{
	enum tls_progress progress = TLS_WANTS_READ;
	struct tls *server, *client;
	char byte;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	server = tls_accept(f->context, fds[0]);
	client = tls_connect(c, fds[1], "localhost", resume);
	while (progress != TLS_FAILED && !(tls_is_ready(client) && tls_is_ready(server))) {
		progress = tls_handshake(client);
		(void)tls_handshake(server);
	}
	if (progress == TLS_DONE) {
		assert_int_equal(tls_write(server, SLICE_LIT("x")), 1);
		assert_int_equal(tls_read(client, &byte, 1), 1);
	}
	tls_free(client);
	tls_free(server);
	close(fds[0]);
	close(fds[1]);
	return progress;
}

static struct tls_context *client_context(enum tls_peer peer)
{
	struct buf why = BUF_INIT;
	struct tls_context *c = tls_context_new(&(struct tls_settings){ .peer = peer }, &why);

	assert_non_null(c);
	return c;
}

/* A resumed session shows no certificate that could be checked. */
TEST(session_is_not_resumed_by_a_context_that_checks_certificates)
{
	struct tls_context *any = client_context(TLS_PEER_ANY);
	struct tls_context *checks = client_context(TLS_PEER_CHECKED);
	struct tls_resume resume = { 0 };

	assert_int_equal(connect_by(f, any, &resume), TLS_DONE);
	assert_non_null(resume.session);
	assert_int_equal(connect_by(f, checks, &resume), TLS_FAILED);
	assert_int_equal(connect_by(f, any, &resume), TLS_DONE);
	tls_resume_clear(&resume);
	tls_context_unref(checks);
	tls_context_unref(any);
}
