/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls: encryption by OpenSSL. Protocols and ciphers have Redis' names; certificates are checked
 * as in openssl-verification-options(1).
 */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/file.h"
#include "base/random.h"
#include "net/tls_hello.h"
#include "net/tls_sessions.h"
#include "net/watch.h"

#ifndef SSL_R_RECORD_LAYER_FAILURE
#define SSL_R_RECORD_LAYER_FAILURE 313 /* the value in OpenSSL 3.2 and later */
#endif

/* The longest file of certificates, in bytes. */
#define FILE_MAX ((size_t)16 * 1024 * 1024)

/* If this many encrypted bytes wait for the socket, hasp encrypts no more. The limit is enough
 * for a record, and for the answers to a client that asks for new keys but does not read. */
#define UNSENT_MAX ((size_t)64 * 1024)

/* When one tls_read() or tls_handshake() has received this many encrypted bytes, it receives no
 * more. OpenSSL alone would receive until it has a byte for the caller, and a peer that only
 * changes its keys, in 27 bytes each time, sends none. */
#define RECEIVED_MAX ((size_t)32 * 1024)

/* Limit of a client's certificates, in bytes: OpenSSL allocates memory before it checks
 * them. */
#define CERTIFICATES_MAX ((long)32 * 1024)

struct tls_context {
	SSL_CTX *ssl;
	BIO_METHOD *socket; /* method of the connections' BIOs: see socket_write() */
	enum tls_peer peer;
	unsigned char sessions[TLS_SESSIONS_NAME]; /* for servers: the name of the sessions that
	                                            * clients may resume */
	_Atomic int refs;
};

/* --- the socket --------------------------------------------------------------------------- */

/* Sends the bytes in `unsent`. Returns 0 if the socket took all of them; -1 with errno. */
static int send_unsent(struct tls *t)
{
	while (buf_len(&t->unsent)) {
		ssize_t n = socket_transmit(t->fd, buf_slice(&t->unsent));
		if (n < 0)
			return -1;
		buf_consume(&t->unsent, (size_t)n);
	}
	buf_release(&t->unsent);
	if (t->read_wants_write) {
		t->read_wants_write = false;
		t->has_more = true;
	}
	return 0;
}

/* Accepts all bytes from OpenSSL, even if the socket does not take them. If a record were half
 * written, OpenSSL could not answer a change of keys, and would end the connection. */
static int socket_write(BIO *b, const char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	ssize_t sent = 0;

	BIO_clear_retry_flags(b);
	t->answered = true;
	if (buf_len(&t->unsent) >= UNSENT_MAX) {
		BIO_set_retry_write(b);
		errno = EAGAIN;
		return -1;
	}
	if (buf_len(&t->unsent) == 0) {
		sent = socket_transmit(t->fd, slice_of(p, (size_t)n));
		if (sent < 0 && errno != EAGAIN)
			return -1;
		sent = sent > 0 ? sent : 0;
	}
	errno = 0;
	if (sent == n || buf_try_append(&t->unsent, slice_of(p + sent, (size_t)(n - sent))))
		return n;
	errno = ENOMEM;
	return -1;
}

/* True if hasp may pass these bytes to OpenSSL: they begin no hello that is too long. */
static bool may_pass(struct tls *t, struct slice bytes)
{
	/* The hello is one unencrypted message; or two, if the server asks for a second hello,
	 * which TLSv1.3 allows. */
	if (SSL_is_init_finished(t->ssl) ||
	    (t->answered && SSL_version(t->ssl) != TLS1_3_VERSION)) {
		free(t->hello);
		t->hello = NULL;
		return true;
	}
	if (tls_hello_look(t->hello, bytes))
		return true;
	snprintf(t->reason, sizeof(t->reason), "client hello of more than %zu bytes",
	         TLS_HELLO_MAX);
	return false;
}

static int socket_read(BIO *b, char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	ssize_t got = -1;

	BIO_clear_retry_flags(b);
	if (t->received < RECEIVED_MAX)
		got = socket_receive(t->fd, p, (size_t)n);
	else
		errno = EAGAIN; /* the socket stays readable, so the next turn goes on */
	if (got < 0 && errno == EAGAIN)
		BIO_set_retry_read(b);
	if (got > 0)
		t->received += (size_t)got;
	t->at_end = got == 0;
	if (t->hello && got > 0 && !may_pass(t, slice_of(p, (size_t)got))) {
		errno = EPROTO;
		return -1;
	}
	return (int)got;
}

static long socket_control(BIO *b, int what, long number, void *pointer)
{
	struct tls *t = BIO_get_data(b);

	(void)number;
	(void)pointer;
	switch (what) {
	case BIO_CTRL_FLUSH: /* send_unsent() sends the waiting bytes */
		return 1;
	case BIO_CTRL_EOF:
		return t->at_end;
	default:
		return 0;
	}
}

/* Makes the method of the connections' BIOs. Returns NULL if there is no memory. */
static BIO_METHOD *socket_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "hasp");

	if (m && BIO_meth_set_write(m, socket_write) == 1 &&
	    BIO_meth_set_read(m, socket_read) == 1 && BIO_meth_set_ctrl(m, socket_control) == 1)
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* --- contexts ----------------------------------------------------------------------------- */

/* Prints OpenSSL's text for its last error, and clears all errors. Skips "record layer
 * failure": it only says that an earlier error ended the connection. */
static void print_error(char *out, size_t n)
{
	unsigned long code = 0, next;
	const char *text;

	while ((next = ERR_get_error()))
		if (!code || ERR_GET_LIB(next) != ERR_LIB_SSL ||
		    ERR_GET_REASON(next) != SSL_R_RECORD_LAYER_FAILURE)
			code = next;
	text = ERR_reason_error_string(code);
	if (ERR_SYSTEM_ERROR(code))
		snprintf(out, n, "%s", strerror(ERR_GET_REASON(code)));
	else if (ERR_GET_REASON(code) == ERR_R_PEM_LIB)
		snprintf(out, n, "it is not in PEM form");
	else
		snprintf(out, n, "%s", text ? text : "OpenSSL reports no reason");
}

/* Appends the fault to `why`. Returns false. */
static bool refuse_setting(struct buf *why, const char *what, const char *value)
{
	char error[128];

	print_error(error, sizeof(error));
	buf_printf(why, "%s %s: %s", what, value, error);
	return false;
}

/* Checks the file. OpenSSL gives no reason for a failure, and reads a FIFO for ever. */
static bool can_be_read(const char *option, const char *path, struct buf *why)
{
	struct buf fault = BUF_INIT;
	bool can = file_check(path, FILE_MAX, &fault) == 0;

	if (!can)
		buf_printf(why, "%s %s %.*s", option, path, (int)buf_len(&fault),
		           (const char *)buf_head(&fault));
	buf_release(&fault);
	return can;
}

/* Gives OpenSSL no passphrase. Without this callback, OpenSSL would ask for one at the
 * terminal, and hasp would handle no signal before somebody enters it. */
static int on_passphrase_needed(char *passphrase, int size, int writes, void *is_needed)
{
	(void)passphrase;
	(void)size;
	(void)writes;
	*(bool *)is_needed = true;
	return -1;
}

static bool use_key(SSL_CTX *ssl, const struct tls_settings *s, struct buf *why)
{
	bool is_encrypted = false;
	int rc;

	SSL_CTX_set_default_passwd_cb(ssl, on_passphrase_needed);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, &is_encrypted);
	rc = SSL_CTX_use_PrivateKey_file(ssl, s->key_file, SSL_FILETYPE_PEM);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
	if (is_encrypted) {
		ERR_clear_error();
		buf_printf(why,
		           "tls_key_file %s: the key is encrypted; expected one without a "
		           "passphrase",
		           s->key_file);
		return false;
	}
	return (rc == 1 && SSL_CTX_check_private_key(ssl) == 1) ||
	       refuse_setting(why, "tls_key_file", s->key_file);
}

static bool use_certificate(SSL_CTX *ssl, const struct tls_settings *s, struct buf *why)
{
	if (!s->cert_file)
		return true;
	if (!can_be_read("tls_cert_file", s->cert_file, why) ||
	    !can_be_read("tls_key_file", s->key_file, why))
		return false;
	if (SSL_CTX_use_certificate_chain_file(ssl, s->cert_file) != 1)
		return refuse_setting(why, "tls_cert_file", s->cert_file);
	return use_key(ssl, s, why);
}

static bool use_authorities(SSL_CTX *ssl, const struct tls_settings *s, struct buf *why)
{
	if (s->peer == TLS_PEER_ANY)
		return true;
	if (!s->ca_cert_file)
		return SSL_CTX_set_default_verify_paths(ssl) == 1 ||
		       refuse_setting(why, "tls_ca_cert_file", "of the system");
	if (!can_be_read("tls_ca_cert_file", s->ca_cert_file, why))
		return false;
	if (SSL_CTX_load_verify_file(ssl, s->ca_cert_file) != 1)
		return refuse_setting(why, "tls_ca_cert_file", s->ca_cert_file);
	/* Tells clients which authorities the server accepts. */
	if (s->is_server)
		SSL_CTX_set_client_CA_list(ssl, SSL_load_client_CA_file(s->ca_cert_file));
	return true;
}

static bool use_protocols(SSL_CTX *ssl, const struct tls_settings *s, struct buf *why)
{
	struct slice rest = slice_str(s->protocols ? s->protocols : ""), word;
	int lowest = 0, highest = 0;

	while (slice_cut(&rest, ' ', &word)) {
		int version = slice_is(word, "TLSv1.2")   ? TLS1_2_VERSION
		              : slice_is(word, "TLSv1.3") ? TLS1_3_VERSION
		                                          : 0;
		if (word.n == 0)
			continue;
		if (!version) {
			buf_printf(why, "tls_protocols %s: expected TLSv1.2, TLSv1.3 or both",
			           s->protocols);
			return false;
		}
		if (!lowest || version < lowest)
			lowest = version;
		if (version > highest)
			highest = version;
	}
	return (SSL_CTX_set_min_proto_version(ssl, lowest ? lowest : TLS1_2_VERSION) == 1 &&
	        SSL_CTX_set_max_proto_version(ssl, highest) == 1) ||
	       refuse_setting(why, "tls_protocols", s->protocols);
}

static bool use_ciphers(SSL_CTX *ssl, const struct tls_settings *s, struct buf *why)
{
	if (s->ciphers && SSL_CTX_set_cipher_list(ssl, s->ciphers) != 1)
		return refuse_setting(why, "tls_ciphers", s->ciphers);
	if (s->ciphersuites && SSL_CTX_set_ciphersuites(ssl, s->ciphersuites) != 1)
		return refuse_setting(why, "tls_ciphersuites", s->ciphersuites);
	return true;
}

/* Stores the session in t->resume. Returns 1 if hasp now owns the session. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
	struct tls *t = SSL_get_app_data(ssl);

	if (!t->resume)
		return 0;
	tls_resume_clear(t->resume);
	t->resume->session = session;
	t->resume->context = tls_context_ref(t->context);
	return 1;
}

static void set_modes(SSL_CTX *ssl, const struct tls_settings *s)
{
	/* One read takes all bytes that the socket has, not just a record. OpenSSL has buffers
	 * only while they hold bytes, so that an idle connection uses little memory. */
	SSL_CTX_set_read_ahead(ssl, 1);
	SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
	                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                              SSL_MODE_RELEASE_BUFFERS);
	/* RESP frames show where they end, so a truncated connection can hide nothing. */
	SSL_CTX_set_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION |
	                                 SSL_OP_NO_COMPRESSION |
	                                 SSL_OP_CIPHER_SERVER_PREFERENCE |
	                                 SSL_OP_PRIORITIZE_CHACHA);
	if (s->is_server) {
		/* Tickets hold the whole session, so hasp stores no sessions. */
		SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_num_tickets(ssl, 1);
		SSL_CTX_set_max_cert_list(ssl, CERTIFICATES_MAX);
	} else {
		SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT |
		                                            SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(ssl, on_new_session);
	}
	SSL_CTX_set_verify(ssl,
	                   s->peer == TLS_PEER_ANY ? SSL_VERIFY_NONE
	                   : s->peer == TLS_PEER_OPTIONAL
	                           ? SSL_VERIFY_PEER
	                           : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
	                   NULL);
}

/* Sets `name` to a digest of all settings and files. Returns false if it has none, as with the
 * system's CAs. */
static bool name_sessions(const struct tls_settings *s, unsigned char *name)
{
	static const char *const peers[] = {
		[TLS_PEER_ANY] = "any",
		[TLS_PEER_OPTIONAL] = "optional",
		[TLS_PEER_CHECKED] = "checked",
	};
	const bool trusts = s->peer != TLS_PEER_ANY;
	const char *const texts[] = { peers[s->peer], s->protocols, s->ciphers,
		                      s->ciphersuites };
	const char *const files[] = { s->cert_file, trusts ? s->ca_cert_file : NULL };

	return s->is_server && (!trusts || s->ca_cert_file) &&
	       tls_sessions_name(texts, sizeof(texts) / sizeof(*texts), files,
	                         sizeof(files) / sizeof(*files), name);
}

/* Lets clients resume sessions. `before`: the sessions' name before OpenSSL read the files, if
 * `is_known`. If it differs now, the files have changed, and the sessions get a random name. */
static bool use_sessions(struct tls_context *c, const struct tls_settings *s, bool is_known,
                         const unsigned char *before, struct buf *why)
{
	if (!s->is_server)
		return true;
	is_known = is_known && name_sessions(s, c->sessions) &&
	           memcmp(c->sessions, before, sizeof(c->sessions)) == 0;
	if (!is_known)
		random_bytes(c->sessions, sizeof(c->sessions));
	return SSL_CTX_set_session_id_context(c->ssl, c->sessions, sizeof(c->sessions)) == 1 ||
	       refuse_setting(why, "TLS", "OpenSSL cannot tag the sessions");
}

struct tls_context *tls_context_new(const struct tls_settings *s, struct buf *why)
{
	struct tls_context *c = xcalloc(1, sizeof(*c));
	unsigned char name[TLS_SESSIONS_NAME];
	bool is_known = name_sessions(s, name);

	c->ssl = SSL_CTX_new(s->is_server ? TLS_server_method() : TLS_client_method());
	c->socket = socket_method();
	c->peer = s->peer;
	atomic_init(&c->refs, 1);
	if (!c->ssl || !c->socket) {
		refuse_setting(why, "TLS", "cannot be used");
		goto out;
	}
	set_modes(c->ssl, s);
	if (use_certificate(c->ssl, s, why) && use_authorities(c->ssl, s, why) &&
	    use_protocols(c->ssl, s, why) && use_ciphers(c->ssl, s, why) &&
	    use_sessions(c, s, is_known, name, why))
		return c;
out:
	tls_context_unref(c);
	return NULL;
}

void tls_context_keep_sessions(struct tls_context *c, struct tls_context *old)
{
	if (memcmp(c->sessions, old->sessions, sizeof(c->sessions)) == 0)
		tls_sessions_share(c->ssl, old->ssl);
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void tls_context_unref(struct tls_context *c)
{
	/* acq_rel: the thread that frees the context must see what other threads did to it. */
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1)
		return;
	SSL_CTX_free(c->ssl);
	BIO_meth_free(c->socket);
	free(c);
}

void tls_resume_clear(struct tls_resume *r)
{
	SSL_SESSION_free(r->session);
	tls_context_unref(r->context);
	*r = (struct tls_resume){ 0 };
}

/* --- connections -------------------------------------------------------------------------- */

static struct tls *tls_new(struct tls_context *c, int fd)
{
	SSL *ssl = SSL_new(c->ssl);
	BIO *bio = BIO_new(c->socket);
	struct tls *t;

	if (!ssl || !bio) {
		SSL_free(ssl);
		BIO_free(bio);
		ERR_clear_error();
		return NULL;
	}
	t = xcalloc(1, sizeof(*t));
	t->ssl = ssl;
	t->context = tls_context_ref(c);
	t->fd = fd;
	list_init(&t->node);
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	SSL_set_app_data(ssl, t);
	return t;
}

struct tls *tls_accept(struct tls_context *c, int fd)
{
	struct tls *t = tls_new(c, fd);

	if (!t)
		return NULL;
	t->hello = xcalloc(1, sizeof(*t->hello));
	SSL_set_accept_state(t->ssl);
	return t;
}

static bool is_address(const char *name)
{
	unsigned char at[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, name, at) == 1 || inet_pton(AF_INET6, name, at) == 1;
}

/* Sets the name that the certificate must have. */
static bool set_name(SSL *ssl, const char *name)
{
	if (is_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* Returns true if the certificate that the peer showed in the session's first handshake has
 * expired. OpenSSL does not check this again when it resumes the session. */
static bool session_is_over(const struct tls_context *c, SSL_SESSION *session)
{
	const X509 *cert = c->peer == TLS_PEER_ANY ? NULL : SSL_SESSION_get0_peer(session);

	return cert && X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0;
}

struct tls *tls_connect(struct tls_context *c, int fd, const char *name,
                        struct tls_resume *resume)
{
	struct tls *t = tls_new(c, fd);

	if (!t)
		return NULL;
	t->resume = resume;
	SSL_set_connect_state(t->ssl);
	if (!set_name(t->ssl, name)) {
		tls_free(t);
		return NULL;
	}
	if (resume && resume->session && resume->context == c &&
	    !session_is_over(c, resume->session))
		SSL_set_session(t->ssl, resume->session);
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	if (SSL_is_init_finished(t->ssl) && !*t->reason)
		tls_shutdown(t);
	if (!*t->reason)
		(void)send_unsent(t);
	list_remove(&t->node);
	SSL_free(t->ssl);
	ERR_clear_error();
	tls_context_unref(t->context);
	buf_release(&t->unsent);
	free(t->hello);
	free(t);
}

static void note_failure(struct tls *t, int error)
{
	long verified = SSL_get_verify_result(t->ssl);

	if (*t->reason)
		return;
	if (error == SSL_ERROR_SSL && verified != X509_V_OK && !SSL_is_init_finished(t->ssl))
		snprintf(t->reason, sizeof(t->reason), "%s",
		         X509_verify_cert_error_string(verified));
	else if (ERR_peek_last_error())
		print_error(t->reason, sizeof(t->reason));
	else
		snprintf(t->reason, sizeof(t->reason), "%s",
		         error == SSL_ERROR_SYSCALL && errno ? strerror(errno)
		                                             : "closed by the other side");
	ERR_clear_error();
}

enum tls_progress tls_handshake(struct tls *t)
{
	int rc, error;

	if (send_unsent(t) < 0 && errno == EAGAIN)
		return TLS_WANTS_WRITE;
	ERR_clear_error();
	errno = 0;
	t->received = 0;
	rc = SSL_do_handshake(t->ssl);
	if (rc == 1 && SSL_session_reused(t->ssl) &&
	    session_is_over(t->context, SSL_get_session(t->ssl))) {
		snprintf(t->reason, sizeof(t->reason), "%s",
		         X509_verify_cert_error_string(X509_V_ERR_CERT_HAS_EXPIRED));
		return TLS_FAILED;
	}
	if (rc == 1) {
		t->has_more = SSL_has_pending(t->ssl);
		return TLS_DONE;
	}
	error = SSL_get_error(t->ssl, rc);
	if (error == SSL_ERROR_WANT_READ)
		return buf_len(&t->unsent) ? TLS_WANTS_WRITE : TLS_WANTS_READ;
	if (error == SSL_ERROR_WANT_WRITE)
		return TLS_WANTS_WRITE;
	note_failure(t, error);
	return TLS_FAILED;
}

bool tls_is_ready(const struct tls *t)
{
	return SSL_is_init_finished(t->ssl);
}

/* Translates errors of SSL_read_ex() and SSL_write_ex(). Returns 0 at the end of the stream; -1
 * with errno. */
static ssize_t fail(struct tls *t, int rc, bool reading)
{
	int error = SSL_get_error(t->ssl, rc);

	switch (error) {
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_WANT_WRITE:
		t->read_wants_write = reading;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_WANT_READ:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_SYSCALL:
		/* A failure of the network is not an error of the encryption. */
		if (errno)
			return -1;
		/* fall through */
	default:
		note_failure(t, error);
		errno = EPROTO;
		return -1;
	}
}

ssize_t tls_read(struct tls *t, char *p, size_t n)
{
	size_t got, total = 0;
	ssize_t end;

	t->read_wants_write = t->has_more = false;
	t->received = 0;
	do {
		ERR_clear_error();
		errno = 0;
		if (SSL_read_ex(t->ssl, p + total, n - total, &got) != 1) {
			end = fail(t, 0, true);
			/* The next read reports the error, unless it is EAGAIN. */
			t->has_more = total && (end == 0 || errno != EAGAIN);
			return total ? (ssize_t)total : end;
		}
		total += got;
		t->has_more = SSL_has_pending(t->ssl);
	} while (total < n && t->has_more);
	return (ssize_t)total;
}

ssize_t tls_write(struct tls *t, struct slice bytes)
{
	size_t taken, total = 0;

	if (send_unsent(t) < 0)
		return -1;
	while (total < bytes.n && buf_len(&t->unsent) == 0) {
		ERR_clear_error();
		errno = 0;
		if (SSL_write_ex(t->ssl, bytes.p + total, bytes.n - total, &taken) != 1) {
			ssize_t end = fail(t, 0, false);
			if (total)
				break;
			if (end == 0)
				errno = EPIPE;
			return -1;
		}
		total += taken;
	}
	return (ssize_t)total;
}

bool tls_has_input(const struct tls *t)
{
	return SSL_has_pending(t->ssl);
}

void tls_shutdown(struct tls *t)
{
	if (SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN)
		return;
	ERR_clear_error();
	(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
}
