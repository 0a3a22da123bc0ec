/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console: one connection to the console. hasp serves its requests one after the other, and
 * stops reading while the client does not read the answers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/address.h"
#include "net/dial.h"

void console_free(struct console *c)
{
	HASP_ASSERT(c->state == CONSOLE_DEAD);
	buf_release(&c->in);
	buf_release(&c->held);
	free(c);
}

static void print_peer(struct console *c, int fd)
{
	struct ucred process;
	socklen_t size = sizeof(process);

	address_print_peer(fd, c->peer, sizeof(c->peer));
	if (strncmp(c->peer, "unix:", 5) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &size) == 0)
		snprintf(c->peer, sizeof(c->peer), "uid %lu pid %ld",
		         (unsigned long)process.uid, (long)process.pid);
}

/* True if the request is longer, or has more arguments, than the console takes. */
static bool exceeds_limits(const struct console *c)
{
	return buf_len(&c->in) > CONSOLE_REQUEST_MAX || c->scan.bulk > CONSOLE_REQUEST_MAX ||
	       c->scan.argc > REQUEST_LOGIN_ARGC;
}

static void console_refuse(struct console *c, const char *why)
{
	struct buf out = BUF_INIT;

	buf_printf(&out, "-ERR Protocol error: %s\r\n", why);
	stream_send(&c->stream, buf_slice(&out));
	buf_release(&out);
	console_end(c);
}

/* A client that has not logged in can lose its place even while it awaits an answer: otherwise
 * it could keep the place by trying passwords. */
static void update_place(struct console *c)
{
	if (c->logged_in)
		place_set(&c->place, c->state == CONSOLE_AWAITING ? PLACE_BUSY : PLACE_PROVEN,
		          clock_now());
}

/* Serves the first request in `in`, which is `n` bytes long. */
static void serve(struct console *c, size_t n)
{
	struct request_args *args = &c->admin->args;
	struct buf out = BUF_INIT;
	struct resp_view req;
	bool whole;

	req = request_view(args, buf_head(&c->in), n, &whole);
	HASP_ASSERT(whole);
	if (req.argc > 0)
		console_command_run(c, &req, &out);
	request_args_trim(args);
	buf_consume(&c->in, n);
	c->scanned = 0;
	update_place(c);
	if (c->state == CONSOLE_AWAITING) {
		c->held = out;
		return;
	}
	stream_send(&c->stream, buf_slice(&out));
	buf_release(&out);
}

/* Stops reading while the console awaits an answer, or the client does not read its answers. */
static void steer(struct console *c)
{
	if (c->state == CONSOLE_ENDING && stream_pending(&c->stream) == 0)
		console_close(c);
	else if (c->state != CONSOLE_SERVING || stream_pending(&c->stream) >= STREAM_HIGH_WATER)
		stream_pause(&c->stream);
	else
		stream_resume(&c->stream);
}

/* Serves the complete requests in `in`, as long as the client reads the answers. */
static void serve_all(struct console *c)
{
	while (c->state == CONSOLE_SERVING && stream_pending(&c->stream) < STREAM_HIGH_WATER &&
	       buf_len(&c->in) > c->scanned) {
		size_t used;
		enum resp_result rc = request_scan(&c->scan, buf_head(&c->in) + c->scanned,
		                                   buf_len(&c->in) - c->scanned, &used, NULL);

		c->scanned += used;
		if (rc == RESP_BAD)
			console_refuse(c, "no request");
		else if (exceeds_limits(c))
			console_refuse(c, "too long for the console");
		else if (rc == RESP_OK)
			serve(c, c->scanned);
		else
			break;
	}
	if (buf_len(&c->in) == 0)
		buf_release(&c->in);
	steer(c);
}

void console_answer(struct console *c, struct slice bytes)
{
	console_go_on(c);
	stream_send(&c->stream, buf_slice(&c->held));
	stream_send(&c->stream, bytes);
	buf_release(&c->held);
	update_place(c);
	serve_all(c);
}

static void console_on_readable(struct stream *s)
{
	struct console *c = container_of(s, struct console, stream);
	ssize_t n = stream_read(s, c->admin->scratch, ADMIN_SCRATCH);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		console_close(c);
		return;
	}
	buf_append(&c->in, slice_of(c->admin->scratch, (size_t)n));
	serve_all(c);
}

static void console_on_drained(struct stream *s)
{
	struct console *c = container_of(s, struct console, stream);

	serve_all(c);
}

void console_new(struct admin *a, int fd, const struct sockaddr *peer)
{
	static const struct stream_ops ops = { console_on_readable, console_on_drained,
		                               STREAM_OTHER };
	struct console *c = xcalloc(1, sizeof(*c));

	c->admin = a;
	c->id = ++a->last_id;
	c->protocol = 2;
	c->logged_in = !a->config->admin_password;
	c->since = clock_now();
	print_peer(c, fd);
	dial_tune(fd, a->config->tcp_keepalive_ms);
	place_init(&c->place, peer, c->since);
	list_append(&a->consoles, &c->place.node);
	a->nconsoles++;
	stream_init(&c->stream, &a->flusher, &ops);
	stream_attach(&c->stream, fd, NULL);
}
