/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "admin/admin_internal.h"
#include "base/fatal.h"

/* The question to each worker. The answer begins with the number of its rows. */
struct rows_question {
	console_tell_fn *tell;
	int protocol;
};

static bool step(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct rows_question *q = arg;
	struct rows rows;
	uint64_t n = 0;
	bool done;

	if (buf_len(&a->out) == 0)
		buf_append(&a->out, slice_of((const char *)&n, sizeof(n)));
	memcpy(&n, buf_head(&a->out), sizeof(n));
	rows_init(&rows, q->protocol);
	rows.bytes = a->out;
	done = q->tell(w, &a->cursor, &rows);
	a->out = rows.bytes;
	n += rows.n;
	memcpy(buf_head(&a->out), &n, sizeof(n));
	return done;
}

bool console_ask(struct worker_shared *shared, console_tell_fn *tell, struct rows *rows)
{
	const struct rows_question q = { tell, rows->protocol };
	struct worker_answers answers;
	bool whole = true;

	workers_ask(shared, step, &q, sizeof(q), CONSOLE_ASK_MS, &answers);
	for (size_t i = 0; i < answers.n; i++) {
		struct slice bytes = buf_slice(&answers.v[i].out);
		uint64_t n;

		if (!answers.v[i].whole) {
			whole = false;
			continue;
		}
		HASP_ASSERT(bytes.n >= sizeof(n));
		memcpy(&n, bytes.p, sizeof(n)); /* NOLINT(clang-analyzer-core.*) */
		rows_append(rows, n, slice_of(bytes.p + sizeof(n), bytes.n - sizeof(n)));
	}
	worker_answers_fini(&answers);
	return whole;
}
