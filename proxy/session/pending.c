/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/pending.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

static bool is_login(const struct pending_request *r)
{
	return r->kind == PENDING_AUTH || r->kind == PENDING_HELLO || r->kind == PENDING_NAME ||
	       r->kind == PENDING_SETINFO;
}

struct pending_request *pending_new(enum pending_kind kind)
{
	return pending_new_of(NULL, kind);
}

struct pending_request *pending_new_of(struct freelist *freelist, enum pending_kind kind)
{
	struct pending_request *r = freelist ? freelist_take(freelist) : xmalloc(sizeof(*r));

	*r = (struct pending_request){ .kind = kind, .freelist = freelist };
	list_init(&r->node);
	if (kind == PENDING_EXEC)
		list_init(&r->queued);
	else if (is_login(r))
		r->login = xcalloc(1, sizeof(*r->login));
	return r;
}

void pending_free_list(struct list *l)
{
	list_shift_each (struct pending_request, r, l, node)
		pending_free(r);
}

void pending_free(struct pending_request *r)
{
	list_remove(&r->node);
	if (r->kind == PENDING_EXEC) {
		pending_free_list(&r->queued);
	} else if (is_login(r)) {
		for (size_t i = 0; i < LOGIN_TEXTS; i++)
			free(r->login->texts[i]);
		free(r->login);
	}
	if (r->rest)
		r->rest->free(r);
	buf_release(&r->probe_keys);
	if (r->charged_to)
		*r->charged_to -= r->charged;
	if (r->freelist)
		freelist_give(r->freelist, r);
	else
		free(r);
}

static size_t login_nbytes(const struct pending_request *r)
{
	size_t n = sizeof(*r->login);

	for (size_t i = 0; i < LOGIN_TEXTS; i++)
		n += r->login->texts[i] ? strlen(r->login->texts[i]) : 0;
	return n;
}

void pending_charge(struct pending_request *r, size_t *total)
{
	size_t nbytes = sizeof(*r) + buf_cap(&r->probe_keys);

	if (r->rest)
		nbytes += r->rest->nbytes(r);
	else if (is_login(r))
		nbytes += login_nbytes(r);
	*total += nbytes - r->charged;
	r->charged_to = total;
	r->charged = nbytes;
}

void pending_add_probe_key(struct pending_request *r, struct slice key)
{
	buf_append(&r->probe_keys, slice_of(&key.n, sizeof(key.n)));
	buf_append(&r->probe_keys, key);
}

void pending_each_probe_key(const struct pending_request *r,
                            void (*fn)(void *arg, struct slice key), void *arg)
{
	struct slice rest = buf_slice(&r->probe_keys);

	while (rest.p && rest.n) {
		size_t n;
		memcpy(&n, rest.p, sizeof(n));
		fn(arg, slice_of(rest.p + sizeof(n), n));
		rest.p += sizeof(n) + n;
		rest.n -= sizeof(n) + n;
	}
	if (r->kind != PENDING_EXEC)
		return;
	list_each (const struct pending_request, queued, &r->queued, node)
		pending_each_probe_key(queued, fn, arg);
}

const char *pending_user(const struct pending_request *r)
{
	return is_login(r) ? r->login->texts[TEXT_USER] : NULL;
}

const char *pending_name(const struct pending_request *r)
{
	return is_login(r) ? r->login->texts[TEXT_NAME] : NULL;
}

bool pending_logs_in(const struct pending_request *r)
{
	if (r->kind != PENDING_EXEC)
		return pending_user(r);
	list_each (const struct pending_request, queued, &r->queued, node)
		if (pending_user(queued))
			return true;
	return false;
}
