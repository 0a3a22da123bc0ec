/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In a hasp that is built without TLS there are no contexts, and without one no connection.
 */
#include <errno.h>

#include "base/fatal.h"
#include "net/tls.h"

struct tls_context *tls_context_new(const struct tls_settings *s, struct buf *why)
{
	buf_puts(why, s->is_server ? "listen_tls" : "tls");
	buf_puts(why, " cannot be had: this hasp was built without TLS");
	return NULL;
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
	HASP_ASSERT(!c);
	return NULL;
}

void tls_context_unref(struct tls_context *c)
{
	HASP_ASSERT(!c);
}

void tls_context_keep_sessions(struct tls_context *c, struct tls_context *old)
{
	HASP_ASSERT(!c && !old);
}

void tls_resume_clear(struct tls_resume *r)
{
	HASP_ASSERT(!r->session);
}

struct tls *tls_accept(struct tls_context *c, int fd)
{
	(void)fd;
	HASP_ASSERT(c);
	return NULL;
}

struct tls *tls_connect(struct tls_context *c, int fd, const char *name,
                        struct tls_resume *resume)
{
	(void)fd;
	(void)name;
	(void)resume;
	HASP_ASSERT(c);
	return NULL;
}

void tls_free(struct tls *t)
{
	HASP_ASSERT(!t);
}

enum tls_progress tls_handshake(struct tls *t)
{
	HASP_ASSERT(t);
	return TLS_FAILED;
}

bool tls_is_ready(const struct tls *t)
{
	HASP_ASSERT(t);
	return false;
}

ssize_t tls_read(struct tls *t, char *p, size_t n)
{
	(void)p;
	(void)n;
	HASP_ASSERT(t);
	errno = EPROTO;
	return -1;
}

ssize_t tls_write(struct tls *t, struct slice bytes)
{
	(void)bytes;
	HASP_ASSERT(t);
	errno = EPROTO;
	return -1;
}

size_t tls_unsent(const struct tls *t)
{
	HASP_ASSERT(t);
	return 0;
}

bool tls_has_more(const struct tls *t)
{
	HASP_ASSERT(t);
	return false;
}

bool tls_has_input(const struct tls *t)
{
	HASP_ASSERT(t);
	return false;
}

bool tls_read_wants_write(const struct tls *t)
{
	HASP_ASSERT(t);
	return false;
}

void tls_shutdown(struct tls *t)
{
	HASP_ASSERT(t);
}

const char *tls_reason(const struct tls *t)
{
	HASP_ASSERT(t);
	return "";
}

const char *tls_library(void)
{
	return NULL;
}
