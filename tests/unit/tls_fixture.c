/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/tls_fixture.h"

#include "tests/unit/testing.h"

/* --- the owner ---------------------------------------------------------------------------- */

static void on_readable(struct stream *s)
{
	struct tls_fixture *f = container_of(s, struct tls_fixture, stream);
	char bytes[64 * KB];
	ssize_t n;

	f->reads++;
	if (f->has_no_memory)
		return;
	n = stream_read(s, bytes, f->chunk);
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

static const struct stream_ops ops = { on_readable, NULL, STREAM_OTHER };

void tls_fixture_run(struct tls_fixture *f, int turns)
{
	while (turns-- > 0)
		ev_run(f->loop, EVRUN_NOWAIT);
}

/* --- the client --------------------------------------------------------------------------- */

bool client_flush(struct tls_fixture *f)
{
	static char sink[64 * KB];
	const size_t most = f->bytewise ? 1 : sizeof(sink);
	char *p;
	long n = BIO_get_mem_data(f->out, &p);

	while (n > 0) {
		ssize_t sent = send(f->fd, p, (size_t)n < most ? (size_t)n : most,
		                    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent <= 0)
			return false;
		assert_int_equal(BIO_read(f->out, sink, (int)sent), sent);
		if (f->bytewise)
			tls_fixture_run(f, 2);
		n = BIO_get_mem_data(f->out, &p);
	}
	return true;
}

void client_fetch(struct tls_fixture *f)
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

void shake_hands(struct tls_fixture *f)
{
	for (int i = 0; i < 10000; i++) {
		int rc = SSL_do_handshake(f->client);
		client_flush(f);
		tls_fixture_run(f, 3);
		client_fetch(f);
		if (rc == 1 && !f->stream.shaking)
			return;
	}
	fail_msg("no handshake");
}

char *pattern(size_t n)
{
	char *p = malloc(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 31 + (i >> 8) * 7 + (i >> 16));
	return p;
}

void client_write(struct tls_fixture *f, const char *p, size_t n)
{
	size_t taken;

	assert_int_equal(SSL_write_ex(f->client, p, n, &taken), 1);
	assert_int_equal(taken, n);
}

void until_got(struct tls_fixture *f, size_t n)
{
	for (int i = 0; i < 100000 && buf_len(&f->got) < n; i++) {
		client_flush(f);
		tls_fixture_run(f, 1);
	}
	assert_int_equal(buf_len(&f->got), n);
}

void until_read(struct tls_fixture *f, size_t n)
{
	for (int i = 0; i < 100000 && buf_len(&f->read) < n; i++) {
		client_flush(f);
		tls_fixture_run(f, 1);
		client_fetch(f);
	}
	assert_int_equal(buf_len(&f->read), n);
}

void until_end(struct tls_fixture *f)
{
	for (int i = 0; i < 100000 && !f->ends; i++)
		tls_fixture_run(f, 1);
	tls_fixture_run(f, 5);
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

/* Its certificate is signed by its own key; no test verifies it. */
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

int tls_fixture_setup(void **state)
{
	struct tls_fixture *f = calloc(1, sizeof(*f));
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
	stream_init(&f->stream, &f->flusher, &ops);
	stream_attach(&f->stream, fds[0], tls_accept(f->context, fds[0]));
	f->client_context = SSL_CTX_new(TLS_client_method());
	f->client = SSL_new(f->client_context);
	f->in = BIO_new(BIO_s_mem());
	f->out = BIO_new(BIO_s_mem());
	SSL_set_bio(f->client, f->in, f->out);
	SSL_set_connect_state(f->client);
	*state = f;
	return 0;
}

int tls_fixture_teardown(void **state)
{
	struct tls_fixture *f = *state;

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
