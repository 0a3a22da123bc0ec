/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a TLS stream whose client changes keys at bad times: while bytes wait for the
 * socket.
 */

#define TEST_FIXTURE struct tls_fixture *f

#include <stdlib.h>
#include <sys/socket.h>

#include "tests/unit/testing.h"
#include "tests/unit/tls_fixture.h"

FIXTURE(tls_fixture_setup, tls_fixture_teardown);

/* The stream answers each change with new keys of its own. */
TEST(keys_may_change_at_any_time)
{
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

/* The client asks for new keys before its next byte. */
static void client_changes_keys(struct tls_fixture *f, const char *byte)
{
	assert_int_equal(SSL_key_update(f->client, SSL_KEY_UPDATE_REQUESTED), 1);
	client_write(f, byte, 1);
	client_flush(f);
}

/* OpenSSL alone would end the connection, because the answer must follow a record that is half
 * written. */
TEST(keys_may_change_while_bytes_wait_to_be_sent)
{
	const size_t n = 2 * MB;
	char *bytes = pattern(n);

	shake_hands(f);
	for (size_t i = 0; i < 40; i++) {
		client_changes_keys(f, bytes + i);
		stream_send(&f->stream, slice_of(bytes + i * (n / 40), n / 40));
		tls_fixture_run(f, 3);
	}
	stream_send(&f->stream, slice_of(bytes + n / 40 * 40, n % 40));
	stream_shutdown(&f->stream);
	until_got(f, 40);
	until_read(f, n);
	assert_memory_equal(buf_head(&f->got), bytes, 40);
	assert_memory_equal(buf_head(&f->read), bytes, n);
	/* The stream no longer answers the change, but still reads. */
	client_changes_keys(f, bytes + 40);
	until_got(f, 41);
	assert_true(f->closed);
	assert_int_equal(f->ends, 0);
	free(bytes);
}

/* Other streams of the loop must not wait for the end of the changes. */
TEST(one_turn_reads_only_some_of_many_changes_of_keys)
{
	shake_hands(f);
	for (size_t i = 0; i < 3000; i++) {
		assert_int_equal(SSL_key_update(f->client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		assert_int_equal(SSL_do_handshake(f->client), 1);
	}
	client_write(f, "x", 1);
	assert_true(client_flush(f));
	tls_fixture_run(f, 1);
	assert_int_equal(buf_len(&f->got), 0);
	until_got(f, 1);
	assert_int_equal(f->ends, 0);
}

static void fill_socket(struct tls_fixture *f)
{
	while (stream_pending(&f->stream) == 0)
		stream_send(&f->stream, slice_of("x", 1));
}

/* The client changes keys until the stream stops reading it. Returns how many bytes the client
 * has sent; the last ones follow changes that the stream did not answer. */
static size_t change_keys_until_blocked(struct tls_fixture *f, const char *bytes)
{
	size_t sent = 0;

	shake_hands(f);
	fill_socket(f);
	while (stream_pending(&f->stream) < 64 * KB) {
		client_changes_keys(f, bytes + sent++);
		tls_fixture_run(f, 2);
	}
	client_changes_keys(f, bytes + sent++);
	tls_fixture_run(f, 2);
	return sent;
}

/* Each change of keys makes the stream queue an answer. */
TEST(client_that_changes_keys_and_does_not_read_is_not_read_any_more)
{
	char *bytes = pattern(20000);
	size_t sent = change_keys_until_blocked(f, bytes);
	size_t n = sent + 1000;

	assert_true(n < 20000);
	f->reads = 0;
	while (sent < n) {
		client_changes_keys(f, bytes + sent++);
		tls_fixture_run(f, 1);
	}
	assert_int_equal(f->reads, 0);
	assert_in_range(stream_pending(&f->stream), 64 * KB, 65 * KB);
	for (int i = 0; i < 100000 && buf_len(&f->got) < sent; i++) {
		client_flush(f);
		tls_fixture_run(f, 1);
		client_fetch(f);
	}
	assert_int_equal(buf_len(&f->got), sent);
	assert_memory_equal(buf_head(&f->got), bytes, sent);
	free(bytes);
}

/* The socket does not become readable again, and the owner had paused the stream. */
TEST(what_came_with_keys_that_could_not_be_answered_is_read_later)
{
	char *bytes = pattern(20000);
	size_t sent = change_keys_until_blocked(f, bytes);

	assert_int_equal(buf_len(&f->got), sent - 1);
	stream_pause(&f->stream);
	for (int i = 0; i < 10000 && stream_pending(&f->stream); i++) {
		tls_fixture_run(f, 1);
		client_fetch(f);
	}
	assert_int_equal(stream_pending(&f->stream), 0);
	stream_resume(&f->stream);
	until_got(f, sent);
	free(bytes);
}

TEST(end_waits_for_the_socket_like_all_else)
{
	char record[1 + 22];

	shake_hands(f);
	client_fetch(f);
	fill_socket(f);
	/* There is room for the queued bytes, but not for the end. */
	assert_int_equal(recv(f->fd, record, sizeof(record), MSG_DONTWAIT), sizeof(record));
	BIO_write(f->in, record, sizeof(record));
	stream_shutdown(&f->stream);
	assert_true(stream_pending(&f->stream) > 0);
	for (int i = 0; i < 1000 && !f->closed; i++) {
		tls_fixture_run(f, 1);
		client_fetch(f);
	}
	assert_true(f->closed);
	assert_int_equal(stream_pending(&f->stream), 0);
	assert_int_equal(recv(f->fd, record, 1, MSG_DONTWAIT), 0);
}
