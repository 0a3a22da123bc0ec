/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_discover: starts and ends the discovery of locks as the configuration says, and writes
 * the file with the results.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "config/match.h"
#include "config/sections.h"
#include "watch/shared_tracker.h"
#include "worker/worker.h"

#define FOUND_MODE 0640

void workers_discover(struct worker_shared *shared, const struct config *config)
{
	if (config->discover)
		shared_tracker_discover(shared->tracker, (size_t)config->discover_memory);
	else
		shared_tracker_stop(shared->tracker);
}

void workers_discover_progress(struct worker_shared *shared, struct buf *out)
{
	struct discovery_progress p;

	shared_tracker_progress(shared->tracker, &p);
	discovery_put_progress(&p, out);
}

void workers_discover_write(struct worker_shared *shared, struct json *j)
{
	struct discovery_progress p;

	shared_tracker_progress(shared->tracker, &p);
	json_number(j, "seconds", p.seconds, 1);
	json_count(j, "commands", p.commands);
	json_count(j, "patterns", p.key_patterns);
	json_count(j, "locks", p.locks);
	json_count(j, "values", p.guards);
	json_count(j, "harm", p.harm);
}

/* --- the result --------------------------------------------------------------------------- */

struct in_force {
	const struct config *config;
	struct matcher *matcher;
};

static bool covers(void *arg, struct slice key)
{
	const struct in_force *f = arg;

	return match_rule(f->matcher, key) || match_guard(f->matcher, key);
}

static bool has_section(void *arg, bool is_guard, const char *name)
{
	const struct in_force *f = arg;

	return sections_find(f->config, is_guard ? SECTION_GUARD : SECTION_LOCK, name);
}

void workers_discovered(struct worker_shared *shared, const struct config *config, bool so_far,
                        struct buf *out)
{
	struct in_force f = { config, match_new(config) };
	struct buf listen = BUF_INIT;
	struct discovery_result r = {
		.address = config->master ? config->master : config->address,
		.covers = covers,
		.has_section = has_section,
		.arg = &f,
		.examples = config->discover_examples == SWITCH_YES,
	};

	for (size_t i = 0; i < config->listen.n; i++)
		buf_printf(&listen, "%s%s", i ? " " : "", config->listen.v[i]);
	buf_append(&listen, slice_of("", 1));
	if (config->discover_alone)
		r.listen = buf_head(&listen);
	shared_tracker_report(shared->tracker, &r, so_far, out);
	buf_release(&listen);
	match_free(f.matcher);
}

/* --- the file ----------------------------------------------------------------------------- */

/* Returns 0, or an errno. */
static int write_all(const char *path, struct slice text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
	              FOUND_MODE);
	ssize_t n;

	if (fd < 0)
		return errno;
	while (text.n) {
		n = write(fd, text.p, text.n);
		if (n < 0) {
			int error = errno;
			close(fd);
			return error;
		}
		text = slice_of(text.p + n, text.n - (size_t)n);
	}
	return close(fd) < 0 ? errno : 0;
}

/* Replaces the file atomically: a reader sees the old file or the new one. */
static int replace_file(const char *path, struct slice text)
{
	struct buf next = BUF_INIT;
	int error;

	buf_printf(&next, "%s.new%c", path, '\0');
	error = write_all(buf_head(&next), text);
	if (error == 0 && rename(buf_head(&next), path) < 0)
		error = errno;
	if (error)
		(void)unlink(buf_head(&next));
	buf_release(&next);
	return error;
}

void workers_save_discovered(struct worker_shared *shared, const struct config *config,
                             bool so_far)
{
	struct buf ini = BUF_INIT;
	int error;

	if (!config->discover_file) {
		log_info("discovery_not_saved reason=\"[discover] names no file\" "
		         "hint=\"the console command SHOW DISCOVERED prints the findings\"");
		return;
	}
	workers_discovered(shared, config, so_far, &ini);
	error = replace_file(config->discover_file, buf_slice(&ini));
	if (error)
		log_error("discovery_save_failed file=%s reason=\"%s\"", config->discover_file,
		          strerror(error));
	else
		log_info("discovery_saved file=%s", config->discover_file);
	buf_release(&ini);
}
