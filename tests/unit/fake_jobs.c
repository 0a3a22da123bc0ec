/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_jobs.h"

#include <string.h>

#include "lock/scripts/script_job.h"
#include "resp/write.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

static struct buf lines;
static double tried_until;
static const redisReply *reply;

static const char *text(void)
{
	*buf_reserve(&lines, 1) = '\0';
	return buf_head(&lines);
}

void assert_jobs(const char *expected)
{
	assert_string_equal(text(), expected);
	fake_jobs_clear();
}

size_t fake_jobs_count(const char *part)
{
	const char *p = text();
	size_t n = 0;

	for (; (p = strstr(p, part)); p += strlen(part))
		n++;
	return n;
}

double fake_jobs_until(void)
{
	return tried_until;
}

void fake_jobs_answer(const redisReply *r)
{
	reply = r;
}

void fake_jobs_clear(void)
{
	buf_release(&lines);
}

static void note_job(int db, bool repeats, struct slice call, double until)
{
	tried_until = until;
	buf_printf(&lines, "%d ", db);
	if (repeats)
		buf_puts(&lines, "again ");
	wire_words(&lines, call);
}

/* --- in the place of script_job.c: all of it that lock/ calls ------------------------ */

enum key_naming script_jobs_naming(const struct script_jobs *jobs)
{
	(void)jobs;
	return KEY_NAMING_SERVER;
}

struct rewrite_opts script_jobs_opts(struct script_jobs *jobs, int db)
{
	static const struct proof_secret process = { "not very secret" };
	static char secret[SHA1_HEX + 1];

	(void)jobs;
	proof_secret_in(&process, db, secret);
	return (struct rewrite_opts){ .secret = slice_of(secret, SHA1_HEX) };
}

struct job_call script_jobs_call(struct script_jobs *jobs, int db)
{
	return (struct job_call){ .jobs = jobs, .db = db, .opts = script_jobs_opts(jobs, db) };
}

bool script_jobs_are_up(const struct script_jobs *jobs, struct slice key)
{
	(void)jobs;
	(void)key;
	return true;
}

const char *script_jobs_server(const struct script_jobs *jobs, struct slice key)
{
	(void)jobs;
	(void)key;
	return NULL;
}

void script_job_run(struct job_call *call, double until, script_job_fn *fn, void *arg)
{
	note_job(call->db, false, buf_slice(&call->bytes), until);
	buf_release(&call->bytes);
	if (fn)
		fn(arg, reply);
}

void script_job_repeat(struct job_call *call, double since, double sent, double until)
{
	(void)sent;
	if (since)
		resp_write_bulk_int(&call->bytes, (long long)since);
	note_job(call->db, true, buf_slice(&call->bytes), until);
	buf_release(&call->bytes);
}

void script_job_run_written(struct script_jobs *jobs, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg)
{
	struct buf call = BUF_INIT;

	(void)jobs;
	(void)script;
	write(arg, &call);
	note_job(db, false, buf_slice(&call), until);
	fn(arg, reply);
	buf_release(&call);
}
