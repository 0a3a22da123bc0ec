/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A stream that encrypts, against a client that does what clients seldom do: one byte at a
 * time, everything at once, nothing for long, other keys in the middle, and no TLS at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"

#define KB ((size_t)1024)
#define MB (1024 * KB)

struct fixture {
	struct ev_loop *loop;
	struct stream_flusher flusher;
	struct account account;
	struct account_share share;
	struct tls_context *context;
	struct stream stream;
	size_t chunk; /* that the owner reads at once */
	size_t pause_at; /* it pauses when it has so much; 0: never */
	struct buf got; /* that it has read */
	int ends; /* how often it was told of the end */
	ssize_t end; /* what the last read returned then */
	/* The client. */
	int fd;
	SSL_CTX *client_context;
	SSL *client;
	BIO *in, *out;
	bool bytewise;
	struct buf read; /* that it has decrypted */
	bool closed; /* it has read the end */
};

/* --- the owner ---------------------------------------------------------------------------- */

static void on_readable(struct stream *s)
{
	struct fixture *f = stream_owner(s);
	char bytes[64 * KB];
	ssize_t n = stream_read(s, bytes, f->chunk);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		f->ends++;
		f->end = n;
		stream_pause(s);
		return;
	}
	buf_append(&f->got, slice_of(bytes, (size_t)n));
	if (f->pause_at && buf_len(&f->got) >= f->pause_at)
		stream_pause(s);
}

static const struct stream_ops ops = { on_readable, NULL };

static void run(struct fixture *f, int turns)
{
	while (turns-- > 0)
		ev_run(f->loop, EVRUN_NOWAIT);
}

/* --- the client --------------------------------------------------------------------------- */

/* What it has encrypted goes to the socket, as much as that takes. Returns if that was all. */
static bool client_flush(struct fixture *f)
{
	char *p;
	long n = BIO_get_mem_data(f->out, &p);
	char byte;

	while (n > 0) {
		ssize_t sent = send(f->fd, p, f->bytewise ? 1 : (size_t)n,
		                    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent <= 0)
			return false;
		for (ssize_t i = 0; i < sent; i++)
			assert_int_equal(BIO_read(f->out, &byte, 1), 1);
		if (f->bytewise)
			run(f, 2);
		n = BIO_get_mem_data(f->out, &p);
	}
	return true;
}

/* What the socket has is decrypted. */
static void client_fetch(struct fixture *f)
{
	static char bytes[64 * KB];
	ssize_t n = recv(f->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	size_t got;

	if (n > 0)
		BIO_write(f->in, bytes, (int)n);
	while (SSL_is_init_finished(f->client) &&
	       SSL_read_ex(f->client, bytes, sizeof(bytes), &got) == 1)
		buf_append(&f->read, slice_of(bytes, got));
	if (SSL_get_shutdown(f->client) & SSL_RECEIVED_SHUTDOWN)
		f->closed = true;
}

static void shake_hands(struct fixture *f)
{
	for (int i = 0; i < 10000; i++) {
		int rc = SSL_do_handshake(f->client);
		client_flush(f);
		run(f, 3);
		client_fetch(f);
		if (rc == 1 && !stream_is_shaking(&f->stream))
			return;
	}
	fail_msg("no handshake");
}

/* Bytes that tell where they are. */
static char *pattern(size_t n)
{
	char *p = malloc(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 31 + (i >> 8) * 7 + (i >> 16));
	return p;
}

static void client_write(struct fixture *f, const char *p, size_t n)
{
	size_t taken;

	assert_int_equal(SSL_write_ex(f->client, p, n, &taken), 1);
	assert_int_equal(taken, n);
}

/* Both go on until the owner has read so much. */
static void until_got(struct fixture *f, size_t n)
{
	for (int i = 0; i < 100000 && buf_len(&f->got) < n; i++) {
		client_flush(f);
		run(f, 1);
	}
	assert_int_equal(buf_len(&f->got), n);
}

/* The same of the client. */
static void until_read(struct fixture *f, size_t n)
{
	for (int i = 0; i < 100000 && buf_len(&f->read) < n; i++) {
		client_flush(f);
		run(f, 1);
		client_fetch(f);
	}
	assert_int_equal(buf_len(&f->read), n);
}

static void until_end(struct fixture *f)
{
	for (int i = 0; i < 100000 && !f->ends; i++)
		run(f, 1);
	run(f, 5);
	assert_int_equal(f->ends, 1);
}

/* --- the fixture -------------------------------------------------------------------------- */

static void write_pem(char path[static 32], EVP_PKEY *key, X509 *certificate)
{
	FILE *file;

	strcpy(path, "/tmp/stream-tls-XXXXXX");
	file = fdopen(mkstemp(path), "w");
	if (certificate)
		assert_int_equal(PEM_write_X509(file, certificate), 1);
	else
		assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
}

/* One that signs itself; nobody checks it here. */
static struct tls_context *make_context(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	struct buf why = BUF_INIT;
	char cert_file[32], key_file[32];
	struct tls_context *context;

	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
	X509_set_pubkey(certificate, key);
	assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
	write_pem(cert_file, key, certificate);
	write_pem(key_file, key, NULL);
	context = tls_context_new(&(struct tls_settings){ .is_server = true,
	                                                  .cert_file = cert_file,
	                                                  .key_file = key_file },
	                          &why);
	assert_non_null(context);
	unlink(cert_file);
	unlink(key_file);
	X509_free(certificate);
	EVP_PKEY_free(key);
	buf_release(&why);
	return context;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fds[2];

	f->loop = watch_loop_new(EVFLAG_AUTO);
	stream_flusher_init(&f->flusher, f->loop);
	account_init(&f->account, SIZE_MAX);
	account_share_init(&f->share);
	f->flusher.account = &f->account;
	f->context = make_context();
	f->chunk = 64 * KB;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	f->fd = fds[1];
	stream_init(&f->stream, &f->flusher, &ops, f);
	stream_attach_tls(&f->stream, fds[0], tls_accept(f->context, fds[0]));
	f->client_context = SSL_CTX_new(TLS_client_method());
	f->client = SSL_new(f->client_context);
	f->in = BIO_new(BIO_s_mem());
	f->out = BIO_new(BIO_s_mem());
	SSL_set_bio(f->client, f->in, f->out);
	SSL_set_connect_state(f->client);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	stream_close(&f->stream);
	stream_flusher_fini(&f->flusher);
	tls_context_unref(f->context);
	SSL_free(f->client);
	SSL_CTX_free(f->client_context);
	if (f->fd >= 0)
		close(f->fd);
	account_set(&f->account, &f->share, 0);
	watch_loop_free(f->loop);
	buf_release(&f->got);
	buf_release(&f->read);
	free(f);
	return 0;
}

/* --- what comes in ------------------------------------------------------------------------ */

static void records_in_single_bytes_are_read_whole(void **state)
{
	struct fixture *f = *state;
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

/* More than the owner reads at once, and the end behind it: the socket tells of it once. */
static void records_that_come_with_the_end_are_read_before_it(void **state)
{
	static const size_t chunks[] = { 1000, 1, 16 * KB, 16 * KB + 1, 64 * KB };
	struct fixture *f = *state;
	char *bytes = pattern(50 * KB);

	for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		if (i) {
			teardown(state);
			setup(state);
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

/* The client sends 50 KB, and the stream is going to pause behind 100 bytes. To be freed. */
static char *paused_behind_the_first(struct fixture *f)
{
	char *bytes = pattern(50 * KB);

	shake_hands(f);
	f->chunk = f->pause_at = 100;
	client_write(f, bytes, 50 * KB);
	assert_true(client_flush(f));
	return bytes;
}

static void nothing_is_read_while_it_is_paused(void **state)
{
	struct fixture *f = *state;
	char *bytes = paused_behind_the_first(f);

	run(f, 20);
	assert_int_equal(buf_len(&f->got), 100);
	f->pause_at = 0;
	stream_resume(&f->stream);
	until_got(f, 50 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 50 * KB);
	free(bytes);
}

static void bytes_that_were_decrypted_wait_for_memory(void **state)
{
	struct fixture *f = *state;
	char *bytes = paused_behind_the_first(f);

	run(f, 3);
	f->account.limit = 0;
	account_set(&f->account, &f->share, MB);
	f->pause_at = 0;
	stream_resume(&f->stream);
	run(f, 20);
	assert_int_equal(buf_len(&f->got), 100);
	account_set(&f->account, &f->share, 0);
	until_got(f, 50 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 50 * KB);
	free(bytes);
}

/* --- what goes out ------------------------------------------------------------------------ */

static void client_that_reads_late_gets_everything(void **state)
{
	struct fixture *f = *state;
	const size_t n = 3 * MB;
	char *bytes = pattern(n);
	size_t sent = MB;

	shake_hands(f);
	stream_send(&f->stream, slice_of(bytes, MB));
	assert_true(stream_pending(&f->stream) > 0);
	/* `out` grows while a write waits to be tried again. */
	while (sent < n) {
		size_t piece = 1 + sent % 70001;
		piece = piece < n - sent ? piece : n - sent;
		stream_queue(&f->stream, slice_of(bytes + sent, piece));
		sent += piece;
		run(f, 1);
	}
	assert_in_range(stream_pending(&f->stream), n - MB, n);
	until_read(f, n);
	assert_memory_equal(buf_head(&f->read), bytes, n);
	run(f, 2);
	assert_int_equal(stream_pending(&f->stream), 0);
	assert_int_equal(buf_cap(&f->stream.out), 0);
	free(bytes);
}

static void what_was_sent_before_the_handshake_is_sent_behind_it_and_then_the_end(void **state)
{
	struct fixture *f = *state;
	char *bytes = pattern(500 * KB);

	stream_send(&f->stream, slice_of(bytes, 100));
	stream_queue(&f->stream, slice_of(bytes + 100, 500 * KB - 100));
	stream_shutdown(&f->stream);
	run(f, 2);
	assert_int_equal(stream_pending(&f->stream), 500 * KB);
	shake_hands(f);
	until_read(f, 500 * KB);
	assert_memory_equal(buf_head(&f->read), bytes, 500 * KB);
	for (int i = 0; i < 1000 && !f->closed; i++) {
		run(f, 1);
		client_fetch(f);
	}
	assert_true(f->closed);
	assert_int_equal(recv(f->fd, bytes, 1, MSG_DONTWAIT), 0);
	/* What the client still says is heard. */
	client_write(f, bytes, 10);
	until_got(f, 10);
	free(bytes);
}

/* The stream answers each time with other keys of its own. */
static void keys_may_change_at_any_time(void **state)
{
	struct fixture *f = *state;
	char *bytes = pattern(200 * KB);

	shake_hands(f);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(SSL_key_update(f->client, SSL_KEY_UPDATE_REQUESTED), 1);
		client_write(f, bytes + i * 10 * KB, 10 * KB);
		until_got(f, (i + 1) * 10 * KB);
		stream_send(&f->stream, slice_of(bytes + i * 10 * KB, 10 * KB));
		until_read(f, (i + 1) * 10 * KB);
	}
	assert_memory_equal(buf_head(&f->got), bytes, 200 * KB);
	assert_memory_equal(buf_head(&f->read), bytes, 200 * KB);
	assert_int_equal(f->ends, 0);
	free(bytes);
}

/* --- what breaks -------------------------------------------------------------------------- */

static void garbage_ends_it_behind_what_came_before(void **state)
{
	struct fixture *f = *state;

	shake_hands(f);
	client_write(f, "hello", 5);
	assert_true(client_flush(f));
	assert_int_equal(send(f->fd, "*1\r\n$4\r\nPING\r\n", 14, 0), 14);
	until_end(f);
	assert_int_equal(f->end, -1);
	assert_memory_equal(buf_head(&f->got), "hello", 5);
	assert_true(stream_tls_failed(&f->stream));
	assert_string_equal(stream_strerror(&f->stream, EPROTO), "wrong version number");
}

static void record_that_was_changed_on_its_way_is_not_read(void **state)
{
	struct fixture *f = *state;
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

static void client_that_goes_in_the_middle_of_a_record_has_ended(void **state)
{
	struct fixture *f = *state;
	char *bytes = pattern(20 * KB), *p;
	long n;

	shake_hands(f);
	client_write(f, bytes, 20 * KB);
	n = BIO_get_mem_data(f->out, &p);
	assert_int_equal(send(f->fd, p, (size_t)n - 10, 0), n - 10);
	run(f, 3);
	/* It is gone with bytes that it has not read. */
	stream_send(&f->stream, slice_of(bytes, 100));
	close(f->fd);
	f->fd = -1;
	until_end(f);
	assert_int_equal(buf_len(&f->got), 16 * KB);
	assert_memory_equal(buf_head(&f->got), bytes, 16 * KB);
	free(bytes);
}

static void client_that_goes_in_the_handshake_has_ended(void **state)
{
	struct fixture *f = *state;

	stream_send(&f->stream, slice_of("hello", 5));
	SSL_do_handshake(f->client);
	assert_true(client_flush(f));
	run(f, 3);
	close(f->fd);
	f->fd = -1;
	until_end(f);
	assert_int_equal(f->end, -1);
	assert_true(stream_tls_failed(&f->stream));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_in_single_bytes_are_read_whole),
		TEST(records_that_come_with_the_end_are_read_before_it),
		TEST(nothing_is_read_while_it_is_paused),
		TEST(bytes_that_were_decrypted_wait_for_memory),
		TEST(client_that_reads_late_gets_everything),
		TEST(what_was_sent_before_the_handshake_is_sent_behind_it_and_then_the_end),
		TEST(keys_may_change_at_any_time),
		TEST(garbage_ends_it_behind_what_came_before),
		TEST(record_that_was_changed_on_its_way_is_not_read),
		TEST(client_that_goes_in_the_middle_of_a_record_has_ended),
		TEST(client_that_goes_in_the_handshake_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
