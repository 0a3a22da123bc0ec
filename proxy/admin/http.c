/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "admin/http_connections.h"
#include "admin/http_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "config/config.h"

/* Memory of a connection for the headers of requests and replies, in bytes. */
#define HTTP_CONNECTION_MEMORY ((size_t)16 * 1024)
/* The stack of a connection's thread, in bytes. */
#define HTTP_STACK ((size_t)512 * 1024)
/* How long open connections may stay after another process has taken over, in seconds. */
#define LEAVE_SECONDS 5.0

#define TEXT_PLAIN "text/plain; charset=utf-8"
#define TEXT_METRICS "text/plain; version=0.0.4; charset=utf-8"
#define TEXT_JSON "application/json"
#define TEXT_HTML "text/html; charset=utf-8"

/* Age at which hasp writes /status.json again: all open pages get the same copy until then. */
#define STATUS_SECONDS 0.5
/* Writing /discovered.ini is slow, because it compares each pattern with all others. hasp
 * writes it at most once in FOUND_SECONDS, and spends at most FOUND_SHARE of the time on it. */
#define FOUND_SECONDS 1.0
#define FOUND_SHARE 0.02

/* Content-Security-Policy of all replies but the page: these replies load nothing. */
#define POLICY_NOTHING "default-src 'none'; frame-ancestors 'none'"
/* Content-Security-Policy of the page: only hasp's own script and style. */
#define POLICY_PAGE                                                                            \
	"default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; "     \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#define NONCE_BYTES 16

/* Longest host in an absolute target, in bytes: the longest name, and a port. */
#define HOST_MAX 262

struct reply {
	unsigned status;
	const char *type;
	char policy[sizeof(POLICY_PAGE) + 4 * NONCE_BYTES];
	struct buf body;
};

/* --- the replies -------------------------------------------------------------------------- */

static struct config *http_config(struct http *h)
{
	struct config *config;

	pthread_mutex_lock(&h->lock);
	config = config_ref(h->config);
	pthread_mutex_unlock(&h->lock);
	return config;
}

static void reply_metrics(struct http *h, const struct config *config, struct reply *r)
{
	r->type = TEXT_METRICS;
	http_metrics_write(h->shared, config, &r->body);
}

static void reply_healthz(struct http *h, const struct config *config, struct reply *r)
{
	(void)h;
	(void)config;
	buf_puts(&r->body, "ok\n");
}

static void reply_readyz(struct http *h, const struct config *config, struct reply *r)
{
	const char *why = workers_not_ready(h->shared);

	(void)config;
	if (why)
		r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
	buf_printf(&r->body, "%s\n", why ? why : "ok");
}

/* If several clients ask at once, the first one's answer serves the others. */
static void reply_status(struct http *h, const struct config *config, struct reply *r)
{
	r->type = TEXT_JSON;
	pthread_mutex_lock(&h->asking);
	if (!buf_len(&h->status) || clock_now() - h->status_at > STATUS_SECONDS) {
		buf_clear(&h->status);
		http_status_write(h->shared, config, h->history, h->started, &h->status);
		h->status_at = clock_now();
	}
	buf_append(&r->body, buf_slice(&h->status));
	pthread_mutex_unlock(&h->asking);
}

static void write_found(struct http *h, const struct config *config)
{
	double began = clock_now();

	if (buf_len(&h->found) && (began - h->found_at < FOUND_SECONDS ||
	                           h->found_seconds > FOUND_SHARE * (began - h->found_at)))
		return;
	buf_clear(&h->found);
	workers_discovered(h->shared, config, true, &h->found);
	h->found_at = clock_now();
	h->found_seconds = h->found_at - began;
}

static void reply_discovered(struct http *h, const struct config *config, struct reply *r)
{
	pthread_mutex_lock(&h->asking);
	if (config->discover) {
		write_found(h, config);
		buf_append(&r->body, buf_slice(&h->found));
	} else {
		r->status = MHD_HTTP_NOT_FOUND;
		buf_puts(&r->body,
		         "hasp does not discover: use --discover or a section [discover]\n");
		buf_release(&h->found);
	}
	pthread_mutex_unlock(&h->asking);
}

static void reply_page(struct http *h, const struct config *config, struct reply *r)
{
	char nonce[2 * NONCE_BYTES + 1];
	const char *text = http_page_text, *end;
	unsigned char bytes[NONCE_BYTES];

	(void)h;
	(void)config;
	random_bytes(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
	r->type = TEXT_HTML;
	snprintf(r->policy, sizeof(r->policy), POLICY_PAGE, nonce, nonce);
	for (; (end = strstr(text, HTTP_PAGE_NONCE)); text = end + strlen(HTTP_PAGE_NONCE)) {
		buf_append(&r->body, slice_of(text, (size_t)(end - text)));
		buf_puts(&r->body, nonce);
	}
	buf_puts(&r->body, text);
}

static const struct path {
	const char *path;
	bool names_keys; /* the reply may name keys: for allowed hosts only */
	void (*reply)(struct http *h, const struct config *config, struct reply *r);
} http_paths[] = {
	{ "/", true, reply_page },
	{ "/metrics", false, reply_metrics },
	{ "/healthz", false, reply_healthz },
	{ "/readyz", false, reply_readyz },
	{ "/status.json", true, reply_status },
	{ "/discovered.ini", true, reply_discovered },
};

/* Cuts the scheme and the host off a target such as http://HOST:PORT/PATH, which a proxy may
 * forward, and writes the host to `host`. Any server must accept this form; its host replaces
 * the header Host (RFC 9112, section 3.2.2). Returns false if `path` has another form. */
static bool cut_host(const char **path, char *host, size_t nhost)
{
	static const char scheme[] = "http://";
	const char *begin = *path + sizeof(scheme) - 1;
	size_t n;

	if (strncasecmp(*path, scheme, sizeof(scheme) - 1) != 0)
		return false;
	n = strcspn(begin, "/");
	/* A host that is too long, or comes after a user, is not allowed. */
	snprintf(host, nhost, "%.*s", n < nhost && !memchr(begin, '@', n) ? (int)n : 0, begin);
	*path = begin[n] ? begin + n : "/";
	return true;
}

static void reply_to_path(struct http *h, const struct config *config, const char *path,
                          const char *host, struct reply *r)
{
	char named[HOST_MAX + 1];

	if (cut_host(&path, named, sizeof(named)))
		host = named;
	for (size_t i = 0; i < sizeof(http_paths) / sizeof(http_paths[0]); i++) {
		const struct path *p = &http_paths[i];

		if (strcmp(p->path, path) != 0)
			continue;
		if (!p->names_keys || http_host_is_allowed(host, config)) {
			p->reply(h, config, r);
		} else {
			r->status = MHD_HTTP_MISDIRECTED_REQUEST;
			buf_puts(
				&r->body,
				"this host name is not allowed: see allowed_hosts in [http]\n");
		}
		return;
	}
	r->status = MHD_HTTP_NOT_FOUND;
	buf_puts(&r->body, "not found; there are /, /status.json, /discovered.ini, /metrics, "
	                   "/healthz and /readyz\n");
}

/* --- libmicrohttpd ------------------------------------------------------------------------ */

/* Sends the reply. If there is too little memory, returns MHD_NO, and libmicrohttpd closes the
 * connection. */
static enum MHD_Result http_send(struct http *h, struct MHD_Connection *c,
                                 const struct reply *r)
{
	size_t n = buf_len(&r->body);
	struct MHD_Response *response = MHD_create_response_from_buffer(
		n, n ? buf_head(&r->body) : "", MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result = MHD_YES;
	/* No other site may embed the reply, no cache may store it, and no browser may guess
	 * another type. The client must send its next request to the process that has taken
	 * over. NULL: the reply does not have the header. */
	const char *const headers[][2] = {
		{ "Content-Type", r->type },
		{ "Cache-Control", "no-store" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Referrer-Policy", "no-referrer" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Content-Security-Policy", r->policy },
		{ "Allow", r->status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL },
		{ "Connection", atomic_load(&h->leaving) ? "close" : NULL },
	};

	if (!response)
		return MHD_NO;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]) && result == MHD_YES; i++)
		if (headers[i][1])
			result = MHD_add_response_header(response, headers[i][0],
			                                 headers[i][1]);
	if (result == MHD_YES)
		result = MHD_queue_response(c, r->status, response);
	MHD_destroy_response(response);
	return result;
}

/* Keeps libmicrohttpd from decoding %XX: no path in http_paths needs it. */
static size_t http_on_quoted(void *arg, struct MHD_Connection *c, char *text)
{
	(void)arg;
	(void)c;
	return strlen(text);
}

/* libmicrohttpd calls this when the headers have arrived, and again when the request is
 * complete. hasp refuses other methods than GET and HEAD at the first call: this ends the
 * connection before libmicrohttpd reads a body. */
static enum MHD_Result http_on_request(void *arg, struct MHD_Connection *c, const char *path,
                                       const char *method, const char *version,
                                       const char *body, size_t *nbody, void **state)
{
	struct reply r = { MHD_HTTP_OK, TEXT_PLAIN, POLICY_NOTHING, BUF_INIT };
	struct http *h = arg;
	struct config *config;
	enum MHD_Result result;

	(void)version;
	(void)body;
	if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
	    strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) {
		if (!*state) {
			*state = arg;
			return MHD_YES;
		}
		/* No page takes a request with a body. */
		if (*nbody > 0)
			return MHD_NO;
		http_connection_set_rank(h->connections, c, PLACE_BUSY);
		config = http_config(h);
		reply_to_path(h, config, path,
		              MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host"), &r);
		config_unref(config);
	} else {
		r.status = MHD_HTTP_METHOD_NOT_ALLOWED;
		buf_puts(&r.body, "only GET and HEAD\n");
	}
	result = http_send(h, c, &r);
	http_connection_set_rank(h->connections, c, PLACE_PROVEN);
	buf_release(&r.body);
	return result;
}

/* --- beginning and end -------------------------------------------------------------------- */

int http_open(struct http *h, const struct listen_socket *sockets, size_t n)
{
	if (n > HTTP_LISTEN_MAX) {
		log_error("listen_failed section=http reason=\"the name resolves to %zu "
		          "addresses; expected at most %d\"",
		          n, HTTP_LISTEN_MAX);
		return -1;
	}
	h->n = n;
	h->owns_fds = true;
	for (size_t i = 0; i < n; i++)
		h->fds[i] = sockets[i].fd;
	return 0;
}

int http_serve(struct http *h, struct worker_shared *shared, struct config *config)
{
	if (h->n == 0)
		return 0;
	h->shared = shared;
	h->started = clock_now();
	h->config = config_ref(config);
	pthread_mutex_init(&h->lock, NULL);
	pthread_mutex_init(&h->asking, NULL);
	h->history = http_history_new(shared);
	h->connections = http_connections_new(&shared->http_full);
	http_history_start(h->history, http_connections_loop(h->connections));
	h->server = MHD_start_daemon(
		MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION |
			MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC,
		0, NULL, NULL, http_on_request, h, MHD_OPTION_CONNECTION_LIMIT,
		http_connections_limit(), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		HTTP_CONNECTION_MEMORY, MHD_OPTION_THREAD_STACK_SIZE, HTTP_STACK,
		MHD_OPTION_UNESCAPE_CALLBACK, http_on_quoted, NULL,
		MHD_OPTION_NOTIFY_CONNECTION, http_connections_notify, h->connections,
		MHD_OPTION_NOTIFY_COMPLETED, http_connections_completed, h->connections,
		MHD_OPTION_END);
	if (!h->server) {
		log_error("thread_failed thread=http reason=\"libmicrohttpd does not start\"");
		return -1;
	}
	h->owns_fds = false;
	return http_connections_start(h->connections, h->server, h->fds, h->n);
}

void http_reload(struct http *h, struct config *config)
{
	struct config *old;

	if (h->n == 0)
		return;
	pthread_mutex_lock(&h->lock);
	old = h->config;
	h->config = config_ref(config);
	pthread_mutex_unlock(&h->lock);
	config_unref(old);
}

void http_leave(struct http *h)
{
	const struct timespec look = { 0, 10 * 1000 * 1000 };
	double until = clock_now() + LEAVE_SECONDS;

	if (h->n == 0)
		return;
	atomic_store(&h->leaving, true);
	http_connections_stop(h->connections);
	while (http_connections_count(h->connections) > 0 && clock_now() < until)
		nanosleep(&look, NULL);
	http_close(h);
}

void http_close(struct http *h)
{
	for (size_t i = 0; i < h->n && h->owns_fds; i++)
		close(h->fds[i]);
	if (h->connections)
		http_connections_stop(h->connections);
	if (h->server)
		MHD_stop_daemon(h->server);
	if (h->connections)
		http_connections_free(h->connections);
	http_history_free(h->history);
	if (h->config) {
		config_unref(h->config);
		pthread_mutex_destroy(&h->lock);
		pthread_mutex_destroy(&h->asking);
	}
	buf_release(&h->status);
	buf_release(&h->found);
	*h = (struct http){ .n = 0 };
}
