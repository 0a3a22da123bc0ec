/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/model/key_names.h"

#include <string.h>

#include "resp/write.h"

static const struct slice prefixes[] = {
	[KEY_NAME_OWNER] = { "hasp:owner:", sizeof("hasp:owner:") - 1 },
	[KEY_NAME_QUEUE] = { "hasp:queue:", sizeof("hasp:queue:") - 1 },
	[KEY_NAME_FENCE] = { "hasp:fence:", sizeof("hasp:fence:") - 1 },
	[KEY_NAME_GUARD] = { "hasp:guard:", sizeof("hasp:guard:") - 1 },
	[KEY_NAME_READERS] = { "hasp:readers:", sizeof("hasp:readers:") - 1 },
};

bool key_names_has_tag(struct slice key)
{
	const char *open, *close;

	open = key.n ? memchr(key.p, '{', key.n) : NULL;
	if (!open)
		return false;
	open++;
	close = memchr(open, '}', key.n - (size_t)(open - key.p));
	return close && close != open;
}

/* Most prefixes are as long as this one. */
#define PREFIX_LEN (sizeof("hasp:owner:") - 1)

static inline char *put_prefix(char *p, struct slice prefix)
{
	if (prefix.n == PREFIX_LEN)
		memcpy(p, prefix.p, PREFIX_LEN);
	else
		memcpy(p, prefix.p, prefix.n);
	return p + prefix.n;
}

/* Prefix and key, which has a hash tag, or gets one. Returns the end. */
static inline char *put_name(char *p, struct slice prefix, struct slice key, bool tagged)
{
	p = put_prefix(p, prefix);
	if (!tagged)
		*p++ = '{';
	if (key.n)
		memcpy(p, key.p, key.n);
	p += key.n;
	*p++ = tagged ? ':' : '}';
	return p;
}

/* Appends prefix and key, which has a hash tag, or gets one. */
static void write_name(struct buf *out, struct slice prefix, struct slice key, bool tagged)
{
	char *p = buf_reserve(out, prefix.n + key.n + 2);

	buf_added(out, (size_t)(put_name(p, prefix, key, tagged) - p));
}

void key_names_write(struct buf *out, enum key_name kind, struct slice key)
{
	write_name(out, prefixes[kind], key, key_names_has_tag(key));
}

void key_names_write_bulks(struct buf *out, struct slice key, const enum key_name *kinds,
                           size_t n)
{
	bool tagged = key_names_has_tag(key);
	size_t space = RESP_BULK_SPACE + sizeof("hasp:readers:{}") + key.n;
	char *begin = buf_reserve(out, n * space), *p = begin;

	for (size_t i = 0; i < n; i++) {
		struct slice prefix = prefixes[kinds[i]];
		p = resp_put_header(p, '$', prefix.n + key.n + (tagged ? 1 : 2));
		p = resp_put_end(put_name(p, prefix, key, tagged));
	}
	buf_added(out, (size_t)(p - begin));
}

void key_names_write_guard_queue_bulk(struct buf *out, struct slice key)
{
	struct slice queue = prefixes[KEY_NAME_QUEUE], guard = prefixes[KEY_NAME_GUARD];
	bool tagged = key_names_has_tag(key);
	/* A guard's name has a tag, but for `hasp:guard:{}` and `hasp:guard:{}...`. */
	bool guard_tagged = tagged || (key.n && *key.p != '}');

	resp_write_bulk_header(out, queue.n + (guard_tagged ? 1 : 2) + guard.n + key.n +
	                                    (tagged ? 1 : 2));
	buf_append(out, queue);
	if (!guard_tagged)
		buf_append(out, SLICE_LIT("{"));
	write_name(out, guard, key, tagged);
	buf_append(out, guard_tagged ? SLICE_LIT(":\r\n") : SLICE_LIT("}\r\n"));
}
