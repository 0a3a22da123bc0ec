/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replica_look: most locks have a record that names the ticket of the try, and hasp reads that
 * record. For the layout `count`, a read-write lock and a guard, hasp reads the lock itself:
 * the record of the first two names only the owner's first try, and a guard has none.
 */
#include "lock/ack/replica_look.h"

#include <string.h>

#include "resp/write.h"

static void write_writer(struct buf *out, struct slice token)
{
	struct buf field = BUF_INIT;

	buf_append(&field, token);
	buf_puts(&field, ":write");
	resp_write_bulk(out, buf_slice(&field));
	buf_release(&field);
}

void replica_look_write(const struct attempt *t, enum key_naming naming, struct buf *out)
{
	switch (layout_of(t->id.kind)->evidence) {
	case EVIDENCE_WRITER:
		resp_write_array(out, 3);
		resp_write_bulk_str(out, "HEXISTS");
		resp_write_bulk(out, t->id.key);
		write_writer(out, t->id.token);
		break;
	case EVIDENCE_FIELD:
		resp_write_request(
			out, (struct slice[]){ SLICE_LIT("HEXISTS"), t->id.key, t->id.token },
			3);
		break;
	case EVIDENCE_RECORD_FIELD:
		resp_write_array(out, 3);
		resp_write_bulk_str(out, "HGET");
		key_names_write_bulk(out, naming, KEY_NAME_FENCE, t->id.key);
		resp_write_bulk(out, t->id.token);
		break;
	case EVIDENCE_GUARD:
		resp_write_request(out, (struct slice[]){ SLICE_LIT("GET"), t->id.key }, 2);
		break;
	case EVIDENCE_RECORD:
		resp_write_array(out, 2);
		resp_write_bulk_str(out, "GET");
		key_names_write_bulk(out, naming, KEY_NAME_FENCE, t->id.key);
		break;
	}
}

/* True if `record`, `<token> <fencing token or -> <ticket>`, ends with the ticket. A try that
 * only refreshed the lock has `=` before its ticket. */
static bool names_ticket(struct slice record, struct slice ticket)
{
	const char *last = record.n ? memrchr(record.p, ' ', record.n) : NULL;
	struct slice word;

	if (!last)
		return false;
	word = slice_of(last + 1, record.n - (size_t)(last + 1 - record.p));
	if (word.n && *word.p == '=')
		word = slice_of(word.p + 1, word.n - 1);
	return slice_eq(word, ticket);
}

/* True if `guard`, `<token>` or `<token> <ticket>`, belongs to the owner `token`. */
static bool names_owner(struct slice guard, struct slice token)
{
	return slice_starts(guard, token) && (guard.n == token.n || guard.p[token.n] == ' ');
}

bool replica_look_shows(const struct attempt *t, const redisReply *reply)
{
	enum lock_evidence evidence = layout_of(t->id.kind)->evidence;
	struct slice content;

	if (!reply)
		return false;
	if (evidence == EVIDENCE_FIELD || evidence == EVIDENCE_WRITER)
		return reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
	if (reply->type != REDIS_REPLY_STRING)
		return false;
	content = slice_of(reply->str, reply->len);
	return evidence == EVIDENCE_GUARD ? names_owner(content, t->value)
	                                  : names_ticket(content, t->ticket);
}
