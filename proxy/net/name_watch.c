/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/name_watch.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/log.h"
#include "net/loop_timers.h"

struct name_watch {
	struct resolver *resolver;
	struct loop_timer timer; /* runs if hasp must resolve the name regularly */
	struct resolve_request *asking; /* the request in progress; NULL: none */
	struct address at;
	struct addrinfo *last; /* the last answer; NULL: none since name_watch_set() */
	bool has_name; /* the host of `at` is a name, not an address */
	bool again; /* ask again after the answer: name_watch_ask() was called while `asking` */
	bool failing; /* the last request failed, and hasp has logged that */
	void (*on_answer)(void *arg, const struct addrinfo *ai);
	void *arg;
};

static bool has_address(const struct addrinfo *ai, const struct sockaddr *sa, socklen_t len)
{
	for (; ai; ai = ai->ai_next)
		if (address_is_same(ai->ai_addr, ai->ai_addrlen, sa, len))
			return true;
	return false;
}

/* True if `all` has all addresses of `some`. Name servers change the order each time. */
static bool are_all_among(const struct addrinfo *some, const struct addrinfo *all)
{
	for (; some; some = some->ai_next)
		if (!has_address(all, some->ai_addr, some->ai_addrlen))
			return false;
	return true;
}

bool name_watch_has_peer(const struct addrinfo *ai, int fd)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);

	/* A connection that has just ended has no peer. */
	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0 || peer.ss_family == AF_UNIX)
		return true;
	return has_address(ai, (const struct sockaddr *)&peer, len);
}

static void forget_answer(struct name_watch *w)
{
	if (w->last)
		freeaddrinfo(w->last);
	w->last = NULL;
}

static void name_watch_on_answer(void *arg, struct addrinfo *ai, int error)
{
	struct name_watch *w = arg;
	bool is_news;

	w->asking = NULL;
	if (w->again)
		name_watch_ask(w);
	if (!ai) {
		if (!w->failing)
			log_warning("upstream_name_failed name=%s reason=\"%s\" effect=\"hasp "
			            "keeps the addresses that it had\"",
			            w->at.host, gai_strerror(error));
		w->failing = true;
		return;
	}
	if (w->failing)
		log_info("upstream_name_recovered name=%s", w->at.host);
	w->failing = false;
	is_news = !w->last || !are_all_among(ai, w->last) || !are_all_among(w->last, ai);
	forget_answer(w);
	w->last = ai;
	if (is_news)
		w->on_answer(w->arg, ai);
}

void name_watch_ask(struct name_watch *w)
{
	w->again = w->asking;
	if (w->has_name && !w->asking)
		w->asking = resolve_start(w->resolver, w->at.host, w->at.port,
		                          name_watch_on_answer, w);
}

static void name_watch_on_timer(void *arg)
{
	struct name_watch *w = arg;

	if (!w->asking)
		name_watch_ask(w);
}

struct name_watch *name_watch_new(struct ev_loop *loop, struct resolver *resolver,
                                  void (*on_answer)(void *arg, const struct addrinfo *ai),
                                  void *arg)
{
	struct name_watch *w = xcalloc(1, sizeof(*w));

	w->resolver = resolver;
	w->on_answer = on_answer;
	w->arg = arg;
	loop_timer_init(&w->timer, loop, name_watch_on_timer, w);
	return w;
}

static void stop_asking(struct name_watch *w)
{
	loop_timer_stop(&w->timer);
	if (w->asking)
		resolve_cancel(w->asking);
	w->asking = NULL;
	w->again = w->failing = false;
	forget_answer(w);
}

void name_watch_free(struct name_watch *w)
{
	stop_asking(w);
	free(w);
}

void name_watch_set(struct name_watch *w, const struct address *at, int64_t every_ms)
{
	double every = (double)every_ms / 1000;
	struct addrinfo *number;

	stop_asking(w);
	w->at = *at;
	number = at->local ? NULL : resolve_numeric(at->host, at->port);
	w->has_name = !at->local && !number;
	if (number)
		freeaddrinfo(number);
	if (!w->has_name || every_ms == 0)
		return;
	loop_timer_repeat(&w->timer, every);
}
