/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/guard_fixture.h"

#include <stdlib.h>

#include "tests/unit/fake_jobs.h"
#include "tests/unit/testing.h"

#define DB 2

int guard_set_up(void **state)
{
	struct guard_fixture *f = calloc(1, sizeof(*f));

	f->table = read_sets_new(NULL, NULL);
	read_set_init(&f->set);
	freelist_init(&f->freelist, GUARD_OP_SINGLE_SIZE);
	*state = f;
	return 0;
}

int guard_tear_down(void **state)
{
	struct guard_fixture *f = *state;

	read_set_end(&f->set, GUARD_NOW, false);
	read_sets_free(f->table);
	freelist_fini(&f->freelist);
	fake_jobs_clear();
	free(f);
	return 0;
}

struct guarded_key guarded(const char *key)
{
	return (struct guarded_key){
		.key = slice_str(key),
		.token = SLICE_LIT("token"),
		.lease_ms = GUARD_LEASE_MS,
	};
}

struct guard_op *guard_fixture_op(struct guard_fixture *f, enum guard_op_kind kind,
                                  const struct guarded_key *keys, size_t n)
{
	struct guarded_command g = { .keys = keys, .n = n, .wait_ms = GUARD_WAIT_MS };

	return guard_op_new(f->table, &f->freelist, &f->set, DB, &g, kind, GUARD_NOW);
}

struct guard_op *guard_fixture_single(struct guard_fixture *f, enum guard_op_kind kind,
                                      struct guarded_key key)
{
	return guard_fixture_op(f, kind, &key, 1);
}

struct read_set_entry *guard_fixture_read(struct guard_fixture *f, struct guarded_key key)
{
	struct read_set_entry *e = read_set_add(f->table, &f->set, DB, &key, GUARD_NOW + 5);

	read_set_entry_read(e);
	return e;
}

struct read_set_entry *guard_fixture_entry(struct guard_fixture *f, const char *key)
{
	return read_set_find(f->table, &f->set, DB, slice_str(key));
}

struct resp_reply reply_of_type(char type)
{
	return (struct resp_reply){ .type = type };
}

struct resp_reply reply_integer(long long n)
{
	return (struct resp_reply){ .type = ':', .integer = n };
}
