/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/link_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/testing.h"

#define DEADLINE_SECONDS 20.0

/* --- the owner -------------------------------------------------------------- */

static void on_bytes(void *owner, struct slice bytes)
{
	struct link_fixture *f = owner;

	assert_int_equal(f->ndown, 0);
	buf_append(&f->bytes, bytes);
	f->npieces++;
	if (f->closes_on_bytes)
		link_close(f->link);
}

static void on_reply(void *owner, void *tag, const struct resp_reply *r, struct slice captured)
{
	struct link_fixture *f = owner;

	buf_printf(&f->told, "reply %s %c%s%.*s\n", tag ? (char *)tag : "-", r->type,
	           captured.n ? " " : "", (int)captured.n, captured.n ? captured.p : "");
	if (f->closes_on_reply)
		link_close(f->link);
	if (f->turns_opaque_on_reply)
		link_make_opaque(f->link);
}

static void on_answered(void *owner, void *tag, const struct resp_reply *r)
{
	struct link_fixture *f = owner;

	buf_printf(&f->told, "answered %s %c%s\n", (char *)tag, r->type,
	           slice_starts(slice_of(buf_head(&f->bytes), buf_len(&f->bytes)),
	                        SLICE_LIT("+1\r\n:2"))
	                   ? " late"
	                   : "");
}

static bool on_is_late(void *owner, void *tag)
{
	const struct link_fixture *f = owner;

	(void)tag;
	return f->is_late;
}

static bool on_line(void *owner, void *tag, struct slice line)
{
	struct link_fixture *f = owner;

	buf_printf(&f->told, "asked %s %.*s\n", (char *)tag, (int)line.n, line.p);
	return !f->drops_errors;
}

static bool on_frame(void *owner, const struct reply_scan *frame)
{
	struct link_fixture *f = owner;

	if (!f->takes_frames || (frame->reply.type != '>' &&
	                         !slice_eq(reply_scan_first(frame), SLICE_LIT("message"))))
		return false;
	buf_printf(&f->told, "frame %c\n", frame->reply.type);
	return true;
}

static void on_stream(void *owner, void *tag)
{
	struct link_fixture *f = owner;

	buf_printf(&f->told, "stream %s\n", (char *)tag);
}

static void on_drained(void *owner)
{
	struct link_fixture *f = owner;

	f->ndrained++;
}

static void on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct link_fixture *f = owner;

	f->ndown++;
	f->end = end;
	f->inflight = inflight;
	snprintf(f->reason, sizeof(f->reason), "%s", reason);
}

static const struct link_ops ops = {
	.on_bytes = on_bytes,
	.on_reply = on_reply,
	.on_answered = on_answered,
	.is_late = on_is_late,
	.on_line = on_line,
	.on_frame = on_frame,
	.on_stream = on_stream,
	.on_drained = on_drained,
	.on_down = on_down,
};

/* --- the guests ------------------------------------------------------------- */

static void guest_on_bytes(void *owner, struct slice bytes)
{
	struct guest *g = owner;

	buf_append(&g->bytes, bytes);
}

static void guest_on_reply(void *owner, void *tag, const struct resp_reply *r,
                           struct slice captured)
{
	struct guest *g = owner;

	(void)captured;
	buf_printf(&g->told, "%s %c\n", (char *)tag, r->type);
	if (g->leaves_on && strcmp(tag, g->leaves_on) == 0)
		link_leave(&g->user);
}

static bool guest_on_line(void *owner, void *tag, struct slice line)
{
	struct guest *g = owner;

	buf_printf(&g->told, "error %s %.*s", (char *)tag, (int)line.n, line.p);
	return true;
}

static void guest_on_drained(void *owner)
{
	struct guest *g = owner;

	assert_non_null(g->user.link);
	g->ndrained++;
	if (g->closes_on_drained)
		link_close(g->user.link);
}

static void guest_on_idle(void *owner)
{
	struct guest *g = owner;

	g->nidle++;
	buf_printf(&g->told, "idle after %zu bytes\n", buf_len(&g->bytes));
}

static void guest_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct guest *g = owner;

	assert_null(g->user.link);
	g->ndown++;
	g->end = end;
	g->inflight = inflight;
	snprintf(g->reason, sizeof(g->reason), "%s", reason);
}

static const struct link_ops guest_ops = {
	.on_bytes = guest_on_bytes,
	.on_reply = guest_on_reply,
	.on_line = guest_on_line,
	.on_drained = guest_on_drained,
	.on_idle = guest_on_idle,
	.on_down = guest_on_down,
};

/* --- the link --------------------------------------------------------------- */

void begin(struct link_fixture *f, const struct link_login *login)
{
	link_user_init(&f->user, &ops, f);
	f->link = link_new(&f->at.env, LINK_KIND_PRIVATE, login);
	link_join(f->link, &f->user);
}

void connect_link(struct link_fixture *f)
{
	begin(f, NULL);
	accept_link(f);
	while (f->ndrained == 0 && f->ndown == 0)
		await_event(f);
	assert_int_equal(f->ndown, 0);
}

void free_link(struct link_fixture *f)
{
	link_close(f->link);
	links_reap(&f->at.env);
	f->link = NULL;
}

void connect_anew(struct link_fixture *f)
{
	free_link(f);
	hang_up(f);
	buf_clear(&f->bytes);
	buf_clear(&f->told);
	f->ndown = f->ndrained = f->npieces = 0;
	connect_link(f);
}

void expect(struct link_fixture *f, unsigned flags, const char *tag)
{
	link_expect(&f->user, flags, (void *)tag);
}

static void see_guests_off(struct link_fixture *f)
{
	free_link(f);
	for (size_t i = 0; i < NGUESTS; i++) {
		assert_null(f->guest[i].user.link);
		buf_release(&f->guest[i].bytes);
		buf_release(&f->guest[i].told);
		f->guest[i] = (struct guest){ 0 };
	}
}

void invite(struct link_fixture *f, const struct link_login *login)
{
	see_guests_off(f);
	hang_up(f);
	f->link = link_new(&f->at.env, LINK_KIND_SHARED, login);
	for (size_t i = 0; i < NGUESTS; i++) {
		link_user_init(&f->guest[i].user, &guest_ops, &f->guest[i]);
		link_join(f->link, &f->guest[i].user);
	}
	accept_link(f);
	settle(f);
}

void ask(struct link_fixture *f, size_t guest, unsigned flags, const char *tag)
{
	link_expect(&f->guest[guest].user, flags, (void *)tag);
}

void settle(struct link_fixture *f)
{
	for (int i = 0; i < 4; i++)
		ev_run(f->at.loop, EVRUN_NOWAIT);
}

static void on_deadline(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
	fail_msg("nothing happened for %d seconds", (int)DEADLINE_SECONDS);
}

void await_event(struct link_fixture *f)
{
	struct ev_timer deadline;

	ev_timer_init(&deadline, on_deadline, DEADLINE_SECONDS, 0);
	ev_timer_start(f->at.loop, &deadline);
	ev_run(f->at.loop, EVRUN_ONCE);
	ev_timer_stop(f->at.loop, &deadline);
}

/* --- the server ------------------------------------------------------------- */

void accept_link(struct link_fixture *f)
{
	f->server = accept(f->at.listener, NULL, NULL);
	assert_true(f->server >= 0);
}

void hang_up(struct link_fixture *f)
{
	if (f->server >= 0)
		close(f->server);
	f->server = -1;
}

void server_sends(struct link_fixture *f, struct slice bytes)
{
	assert_int_equal(send(f->server, bytes.p, bytes.n, MSG_NOSIGNAL), bytes.n);
	settle(f);
}

void server_sends_split(struct link_fixture *f, struct slice stream, size_t cut)
{
	for (size_t i = 0; cut == stream.n && i < stream.n; i++)
		server_sends(f, slice_of(stream.p + i, 1));
	if (cut < stream.n && cut)
		server_sends(f, slice_of(stream.p, cut));
	if (cut < stream.n)
		server_sends(f, slice_of(stream.p + cut, stream.n - cut));
}

void server_sends_and_hangs_up(struct link_fixture *f, struct slice bytes)
{
	assert_int_equal(send(f->server, bytes.p, bytes.n, MSG_NOSIGNAL), bytes.n);
	hang_up(f);
	settle(f);
}

size_t server_reads(struct link_fixture *f, char *p, size_t n)
{
	size_t got = 0;

	for (;;) {
		ssize_t r = recv(f->server, p + got, n - got, MSG_DONTWAIT);
		if (r <= 0)
			return got;
		got += (size_t)r;
	}
}

void assert_server_reads(struct link_fixture *f, const char *expected)
{
	char got[512];
	size_t n;

	settle(f);
	n = server_reads(f, got, sizeof(got));
	if (!slice_eq(slice_of(got, n), slice_str(expected)))
		fail_msg("\"%.*s\" was sent instead of \"%s\"", (int)n, got, expected);
}

/* --- what was told ---------------------------------------------------------- */

void assert_buf(const struct buf *b, const char *expected)
{
	if (!slice_eq(buf_slice(b), slice_str(expected)))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(b), buf_head(b), expected);
}

void assert_seen(struct link_fixture *f, const char *bytes, const char *told)
{
	assert_buf(&f->bytes, bytes);
	assert_buf(&f->told, told);
}

void assert_guest(const struct guest *g, const char *bytes, const char *told)
{
	assert_buf(&g->bytes, bytes);
	assert_buf(&g->told, told);
}

void assert_sees(struct link_fixture *f, void (*prepare)(struct link_fixture *f),
                 struct slice stream, const char *bytes, const char *told)
{
	for (size_t cut = 0; cut <= stream.n; cut++) {
		connect_anew(f);
		prepare(f);
		server_sends_split(f, stream, cut);
		assert_seen(f, bytes, told);
		assert_int_equal(f->user.inflight, 0);
		assert_int_equal(f->ndown, 0);
	}
}

void assert_down(const struct link_fixture *f, enum link_end end)
{
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->end, end);
}

/* --- set up and tear down --------------------------------------------------- */

int set_up(void **state)
{
	struct link_fixture *f = calloc(1, sizeof(*f));

	surroundings_init(&f->at, 64 * 1024);
	f->server = -1;
	*state = f;
	return 0;
}

int set_up_connected(void **state)
{
	set_up(state);
	connect_link(*state);
	return 0;
}

int set_up_shared(void **state)
{
	set_up(state);
	invite(*state, NULL);
	return 0;
}

int tear_down(void **state)
{
	struct link_fixture *f = *state;

	see_guests_off(f);
	hang_up(f);
	surroundings_fini(&f->at);
	buf_release(&f->bytes);
	buf_release(&f->told);
	free(f);
	return 0;
}
