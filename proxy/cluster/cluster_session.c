/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_session: the far end of one client's virtual link: takes the link's requests, and
 * gives it the replies. Requests that the session cannot take yet wait in the link's stream, so
 * that hasp stops reading a client that sends too fast, as with a full socket.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"
#include "commands/args.h"

/* The limit of requests in flight is between these, and lower if the replies are longer. */
#define ENTRIES_MAX ((size_t)4096)
#define ENTRIES_MIN ((size_t)16)
/* The length of a reply, in bytes, that hasp assumes until it knows how long replies are. */
#define FIRST_REPLY_SIZE ((size_t)256 * 1024)
/* The session takes no request while those in flight use this many bytes of memory. */
#define REQUESTED_MAX ((size_t)32 * 1024 * 1024)

/* --- long requests --------------------------------------------------------------------------
 *
 * The session forwards a long request to its node while the request arrives. It also keeps the
 * request, up to a length, in case the node redirects it.
 */

/* Forward a request while it arrives if it is longer than this, in bytes. */
#define STREAM_FROM ((size_t)16 * 1024)
/* hasp does not keep a request that is longer than this, in bytes: if the node redirects such a
 * request, it fails. */
#define STREAM_KEPT_MAX ((size_t)8 * 1024 * 1024)
/* Send a long request to the home node if this many bytes of its beginning name no key. */
#define STREAM_KEY_MAX ((size_t)128 * 1024)

/* Keeps the bytes of a streaming request, if there is memory. `to_come`: at least this many
 * bytes will follow. */
static void keep_stream(struct cluster_session *s, struct slice bytes, uint64_t to_come)
{
	const struct account *a = s->cluster->opts.flusher->account;
	struct cluster_part *p = s->stream_part;
	size_t nbytes;

	if (!p)
		return;
	nbytes = buf_len(&p->request) + bytes.n;
	if (nbytes + to_come > STREAM_KEPT_MAX || (a && !account_fits(a, bytes.n + to_come)))
		part_let_go(p);
	else
		part_keep(p, bytes);
}

/* Forwards more of a long request. Returns how many bytes it has forwarded. */
static size_t session_stream_on(struct cluster_session *s, const char *p, size_t n)
{
	struct node_conn *l = s->stream_node_conn;
	enum resp_result r;
	size_t used;

	if (l && link_is_full(l->user.link)) {
		s->starved = true;
		return 0;
	}
	r = request_scan(&s->scan, p, n, &used, NULL);
	if (l)
		link_send(l->user.link, slice_of(p, used));
	keep_stream(s, slice_of(p, used), s->scan.skip);
	if (r == RESP_MORE)
		return used;
	s->stream_node_conn = NULL;
	s->stream_part = NULL;
	session_set_flow(s, r == RESP_OK ? FLOW_OPEN : FLOW_ENDING);
	return used;
}

/* Refuses a long request, and drops the rest of it. */
static void refuse_long(struct cluster_session *s, struct slice error)
{
	entry_answer_new(s, error);
	s->stream_node_conn = NULL;
	session_set_flow(s, FLOW_STREAMING);
}

/* Makes the long request wait; the wait begins with the first call. */
static void stall(struct cluster_session *s)
{
	if (s->stalled_since == 0)
		s->stalled_since = timers_now(s->cluster->opts.timers);
	session_trouble(s);
}

/* True if the node connection is ready for a stream; if not, the request waits. */
static bool is_node_conn_ready(struct cluster_session *s, struct node_conn *l)
{
	if (l->state == NODE_CONN_READY)
		s->stalled_since = 0;
	if (l->state == NODE_CONN_CLOSED)
		node_conn_open(l);
	if (l->state != NODE_CONN_READY)
		stall(s);
	return l->state == NODE_CONN_READY;
}

/* Call this before sending a request after which Redis closes the connection. Returns false if
 * the request must wait, because the close would lose replies of other nodes. */
static bool is_last_to_answer(struct cluster_session *s)
{
	if (list_empty(&s->entries))
		return true;
	session_set_flow(s, FLOW_BARRIER);
	s->starved = true;
	return false;
}

/* Refuses an argument that is too long for Redis, before the request is whole, as Redis does.
 * Returns `used`. */
static size_t session_refuse_bulk(struct cluster_session *s, size_t used)
{
	struct cluster_entry *e = entry_begin(s, 0);

	e->ends = true;
	entry_answer(e, SLICE_LIT("-ERR Protocol error: invalid bulk length\r\n"));
	session_set_flow(s, FLOW_ENDING);
	return used;
}

/* Handles an error before the request is whole: Redis then closes the connection. */
static void on_refused_stream(struct cluster_entry *e, struct cluster_part *p, bool is_error)
{
	(void)p;
	if (e->session->flow != FLOW_STREAMING || !is_error)
		return;
	e->ends = true;
	e->session->stream_node_conn = NULL;
}

/* Forwards the beginning of a long request, as far as it has arrived: `scan` has seen `used`
 * bytes of it. Returns how many bytes it has forwarded. */
static size_t session_begin_stream(struct cluster_session *s, const char *p, size_t n,
                                   const struct request_scan *scan, size_t used)
{
	struct cluster *c = s->cluster;
	struct cluster_entry *e;
	struct resp_view view;
	struct node *to;
	struct node_conn *l;
	int slot;
	/* Redis refuses a request that is too long as soon as it reads the length. */
	bool is_refused = scan->bulk > REQUEST_BULK_MAX, whole, several, may_forge;

	/* Shared links take only complete requests. */
	if (s->shares || (n < STREAM_FROM && !is_refused))
		return 0;
	if (is_refused && !is_last_to_answer(s))
		return 0;
	view = request_view(&c->args, p, n, &whole);
	if (routing_needs_whole(s, &view)) {
		if (is_refused)
			return session_refuse_bulk(s, used);
		session_set_flow(s, FLOW_GATHERING);
		s->scan = *scan;
		buf_append(&s->gathered, slice_of(p, used));
		return used;
	}
	if (!routing_early(s, &view, &slot, &several, &may_forge) && n < STREAM_KEY_MAX &&
	    !is_refused)
		return 0;
	s->starved = true;
	if (slot >= 0 && session_holds(s, (unsigned)slot, false)) {
		session_set_flow(s, FLOW_BARRIER);
		return 0;
	}
	if (s->stalled_since > 0 &&
	    timers_now(c->opts.timers) - s->stalled_since >= c->failover_wait) {
		s->stalled_since = 0;
		refuse_long(s, SLICE_LIT("-ERR hasp: no primary for this request: its node "
		                         "cannot be reached\r\n"));
		return 0;
	}
	to = slot >= 0 ? slot_map_node(c->opts.map, (unsigned)slot) : session_default_node(s);
	if (!to) {
		c->opts.refresh(c->opts.arg);
		stall(s);
		return 0;
	}
	l = node_conn_get(s, to);
	if (!is_node_conn_ready(s, l))
		return 0;
	s->starved = false;
	e = entry_begin(s, 1);
	e->only.slot = slot;
	e->only.several = several;
	e->only.may_forge = may_forge;
	/* The reply takes long if the client takes long to send the rest. */
	e->patient = true;
	if (several)
		s->several |= session_bit((unsigned)slot);
	if (is_refused)
		e->on_reply = on_refused_stream;
	node_conn_write_stream(l, &e->only, slice_of(p, used));
	s->stream_node_conn = l;
	s->stream_part = &e->only;
	keep_stream(s, slice_of(p, used), scan->skip);
	s->scan = *scan;
	session_set_flow(s, FLOW_STREAMING);
	return used;
}

/* --- requests ----------------------------------------------------------------------------- */

/* True if the session may take one more request. hasp never stops reading a shared link, so the
 * limit must have space for all replies, even if all of them wait for the first one. */
static bool has_room(const struct cluster_session *s)
{
	size_t limit = s->cluster->output_limit;

	if (s->nentries >= ENTRIES_MAX || s->nrequested >= REQUESTED_MAX || s->kept >= limit)
		return false;
	return !s->shares || s->nentries < ENTRIES_MIN ||
	       s->nentries < (limit - s->kept) / s->reply_size;
}

/* Forwards the bytes up to a protocol error, after which Redis closes the connection. */
static size_t session_pass_bad(struct cluster_session *s, const char *p, size_t used)
{
	struct cluster_entry *e;

	if (!is_last_to_answer(s))
		return 0;
	e = entry_begin_one(s, -1, NULL, slice_of(p, used));
	e->ends = true;
	entry_start(e);
	session_set_flow(s, FLOW_ENDING);
	return used;
}

/* Takes the request at `p`. Returns how many bytes it took: the whole request, or the part that
 * was forwarded. */
static size_t session_take_request(struct cluster_session *s, const char *p, size_t n)
{
	struct request_args *args = &s->cluster->args;
	size_t used = request_scan_simple(p, n, args);

	if (used == 0) {
		struct request_scan scan = { 0 };
		enum resp_result r = request_scan(&scan, p, n, &used, args);

		if (r == RESP_BAD)
			return session_pass_bad(s, p, used);
		if (r == RESP_MORE)
			return session_begin_stream(s, p, n, &scan, used);
		if (scan.empty) {
			/* CLIENT REPLY SKIP skips an empty request, too. */
			if (s->reply_mode == REPLY_SKIP_NEXT)
				s->reply_mode = REPLY_ON;
			return used;
		}
	}
	if (routing_take(s, &(struct resp_view){ args->argc, args->argv }, slice_of(p, used)))
		return used;
	if (s->flow == FLOW_OPEN)
		session_set_flow(s, FLOW_BARRIER);
	s->starved = true;
	return 0;
}

/* Lets the session use the present map, if all requests are answered. */
static void reopen(struct cluster_session *s)
{
	if (!list_empty(&s->entries))
		return;
	s->map_version = s->cluster->opts.map->version;
	s->several = s->blocks = 0;
	s->refused = false;
	if (s->flow == FLOW_BARRIER)
		session_set_flow(s, FLOW_OPEN);
}

/* True while a part that was redirected, or routed by an older map, has no answer: later
 * requests may be for the same key, and must wait. */
static bool is_barred(const struct cluster_session *s)
{
	return s->map_version != s->cluster->opts.map->version || !list_empty(&s->retries);
}

/* Takes the gathered request, whose last `bytes` have arrived. If it must wait, gathers all but
 * these, and returns 0. */
static size_t take_gathered(struct cluster_session *s, struct slice bytes)
{
	struct buf request = s->gathered;
	struct request_scan scan = s->scan;
	size_t n = buf_len(&request), taken;

	s->gathered = BUF_INIT;
	buf_append(&request, bytes);
	session_set_flow(s, FLOW_OPEN);
	taken = session_take_request(s, buf_head(&request), buf_len(&request));
	if (taken == 0) {
		s->scan = scan;
		buf_append(&s->gathered, slice_of(buf_head(&request), n));
		session_set_flow(s, FLOW_OPEN);
		session_set_flow(s, FLOW_GATHERING);
	}
	HASP_ASSERT(taken == 0 || taken == buf_len(&request));
	buf_release(&request);
	return taken ? bytes.n : 0;
}

/* Adds to the request that hasp is gathering. Returns how many bytes it has taken. */
static size_t gather_on(struct cluster_session *s, const char *p, size_t n)
{
	struct request_scan scan = s->scan;
	size_t used;
	enum resp_result r = request_scan(&scan, p, n, &used, NULL);

	/* Wait for earlier requests, so that session_take_request() takes the whole request. */
	if (r != RESP_MORE && !list_empty(&s->entries)) {
		s->starved = true;
		return 0;
	}
	if (r != RESP_MORE)
		return take_gathered(s, slice_of(p, used));
	buf_append(&s->gathered, slice_of(p, used));
	s->scan = scan;
	if (scan.bulk > REQUEST_BULK_MAX) {
		buf_release(&s->gathered);
		return session_refuse_bulk(s, used);
	}
	if (buf_len(&s->gathered) > s->cluster->output_limit) {
		block_fail(&s->block);
		buf_release(&s->gathered);
		refuse_long(s, SLICE_LIT("-ERR hasp: in front of a cluster, the request is too "
		                         "long to be split, or to be part of a transaction"
		                         "\r\n"));
	}
	return used;
}

/* Takes a request after MONITOR. Only QUIT may follow: the replies to other requests would come
 * from one node, and RESET would have to end the stream between two of its bytes. For any other
 * request, the session ends. Returns how many bytes it has taken. */
static size_t take_raw(struct cluster_session *s, const char *p, size_t n)
{
	struct link *to = s->stream_node_conn->user.link;
	struct request_args *args = &s->cluster->args;
	struct request_scan scan = { 0 };
	size_t used;
	enum resp_result r = request_scan(&scan, p, n, &used, args);

	if (r == RESP_MORE && n < STREAM_FROM)
		return 0;
	if (r == RESP_OK && scan.empty)
		return used;
	if (r == RESP_OK && args_option(args->argv[0], "QUIT")) {
		link_send(to, slice_of(p, used));
		session_set_flow(s, FLOW_QUITTING);
		return used;
	}
	session_set_flow(s, FLOW_ENDING);
	session_wake(s);
	return n;
}

static size_t take_some(struct cluster_session *s, const char *p, size_t n)
{
	switch (s->flow) {
	case FLOW_STREAMING:
		return session_stream_on(s, p, n);
	case FLOW_GATHERING:
		return gather_on(s, p, n);
	case FLOW_RAW:
		return take_raw(s, p, n);
	case FLOW_QUITTING:
	case FLOW_ENDING:
		/* Drop the bytes: no node will answer the request. */
		return n;
	case FLOW_OPEN:
		if (is_barred(s))
			session_set_flow(s, FLOW_BARRIER);
		if (s->flow == FLOW_OPEN && has_room(s))
			return session_take_request(s, p, n);
		s->starved = true;
		return 0;
	case FLOW_BARRIER:
		s->starved = true;
		return 0;
	case FLOW_CLOSED:
	case FLOW_NSTATES:
		break;
	}
	return 0;
}

static size_t on_take(struct stream_peer *peer, struct slice bytes)
{
	struct cluster_session *s = container_of(peer, struct cluster_session, peer);
	size_t at = 0, used = 1;

	reopen(s);
	s->starved = false;
	while (used && at < bytes.n) {
		used = take_some(s, bytes.p + at, bytes.n - at);
		at += used;
	}
	request_args_trim(&s->cluster->args);
	return at;
}

/* --- beginning and end -------------------------------------------------------------------- */

/* True if no reply is due and no request can come, so that the link must end. */
static bool is_session_over(const struct cluster_session *s)
{
	if (!list_empty(&s->entries) || buf_len(&s->out) || s->starved)
		return false;
	return (s->flow == FLOW_ENDING && !s->lingers) || (s->shut && !session_is_raw(s));
}

/* Closes the link of a blocking command whose client has disconnected, if all commands before
 * it are answered, so that Redis does not remove an element that no client gets. */
static void hang_up(struct cluster_session *s)
{
	const struct cluster_entry *e = list_first(&s->entries, struct cluster_entry, node);

	if (s->shut && e && e->blocks && e->only.state == PART_SENT && e->only.node_conn->own)
		link_shutdown(e->only.node_conn->user.link);
}

static void on_deliver(struct watch *w, int events)
{
	struct cluster_session *s = container_of(w, struct cluster_session, deliver);

	(void)events;
	if (!list_empty(&s->retries))
		(void)dispatch_due(s, timers_now(s->cluster->opts.timers));
	session_deliver(s);
	if (s->flow == FLOW_CLOSED)
		return;
	reopen(s);
	hang_up(s);
	if (s->starved && s->flow != FLOW_BARRIER && has_room(s))
		link_peer_ready(s->link);
	if (s->flow == FLOW_CLOSED || !is_session_over(s))
		return;
	if (s->flow == FLOW_ENDING && s->stream_node_conn)
		link_fail(s->link, "the client sent a request after MONITOR");
	else
		link_end(s->link, "closed by the server");
}

static void on_shutdown(struct stream_peer *peer)
{
	struct cluster_session *s = container_of(peer, struct cluster_session, peer);

	if (s->shut)
		return;
	s->shut = true;
	session_wake(s);
}

static void on_pause(struct stream_peer *peer, bool paused)
{
	struct cluster_session *s = container_of(peer, struct cluster_session, peer);

	s->paused = paused;
	session_steer_node_conns(s);
	if (!paused)
		session_wake(s);
}

static void on_close(struct stream_peer *peer)
{
	struct cluster_session *s = container_of(peer, struct cluster_session, peer);

	session_set_flow(s, FLOW_CLOSED);
	s->link = NULL;
	(void)watch_stop(s->cluster->opts.flusher->loop, &s->deliver);
	node_conns_leave(s);
	list_remove(&s->stalled);
	list_move(&s->cluster->dead, &s->node);
}

/* Fails the last request at once if no node has it. If a node has it, that node may still run
 * it; if the node refuses it, hasp does not send it again. */
static void on_withdraw(struct stream_peer *peer, struct slice error)
{
	struct cluster_session *s = container_of(peer, struct cluster_session, peer);
	struct cluster_entry *last = list_entry(s->entries.prev, &s->entries,
	                                        struct cluster_entry, node);

	if (!last || last->nparts != 1 || last->only.block)
		return;
	s->withdrawal = error;
	if (part_is_unsent(&last->only))
		part_withdraw(&last->only);
	else
		last->only.withdrawn = true;
}

static size_t on_nbytes(const struct stream_peer *peer)
{
	const struct cluster_session *s = container_of(peer, const struct cluster_session,
	                                               peer);

	size_t nbytes = s->kept + s->nrequested + buf_cap(&s->out) + buf_cap(&s->pushes) +
	                buf_cap(&s->block.kept) + buf_cap(&s->gathered) +
	                s->nentries * sizeof(struct cluster_entry);

	list_each (const struct node_conn, l, &s->node_conns, in_session)
		nbytes += link_user_nbytes(&l->user) + buf_cap(&l->frame);
	return nbytes;
}

static const struct stream_peer_ops peer_ops = {
	.take = on_take,
	.on_shutdown = on_shutdown,
	.on_pause = on_pause,
	.on_close = on_close,
	.on_withdraw = on_withdraw,
	.nbytes = on_nbytes,
};

/* Copies `login` with its strings, which may not live as long as the session. */
static void keep_login(struct cluster_session *s, const struct link_login *login)
{
	s->login = *login;
	s->login.user = xstrdup_or_null(login->user);
	s->login.password = xstrdup_or_null(login->password);
	s->login.name = xstrdup_or_null(login->name);
}

struct stream_peer *session_connect(struct link_env *env, struct link *l,
                                    const struct link_login *accepted)
{
	struct cluster *c = env->inproc_peer;
	struct cluster_session *s = xcalloc(1, sizeof(*s));

	s->peer.ops = &peer_ops;
	s->link = l;
	s->cluster = c;
	list_init(&s->stalled);
	list_init(&s->entries);
	list_init(&s->node_conns);
	list_init(&s->retries);
	watch_init(&s->deliver, on_deliver);
	list_init(&s->replay.commands);
	block_init(&s->block);
	s->block_serial = 1;
	s->proto = accepted ? accepted->proto : 2;
	s->map_version = c->opts.map->version;
	s->reply_size = FIRST_REPLY_SIZE;
	s->env = env;
	s->shares = s->admitted = accepted;
	if (accepted)
		keep_login(s, accepted);
	list_append(&c->sessions, &s->node);
	return &s->peer;
}

void session_free(struct cluster_session *s)
{
	HASP_ASSERT(s->flow == FLOW_CLOSED);
	list_drain (struct cluster_entry, e, &s->entries, node)
		entry_end(e);
	node_conns_free(s);
	buf_release(&s->gathered);
	replay_fini(&s->replay);
	buf_release(&s->login_error);
	block_reset(&s->block);
	buf_release(&s->out);
	buf_release(&s->pushes);
	list_remove(&s->node);
	free((char *)s->login.user);
	free((char *)s->login.password);
	free((char *)s->login.name);
	free(s);
}
