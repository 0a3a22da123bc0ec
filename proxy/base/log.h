/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log: one line per event, `LEVEL event key=value ...`, to stderr, a file or
 * syslog. Callable from every thread. Never log a value or a password.
 */
#ifndef HASP_BASE_LOG_H
#define HASP_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum log_severity { LOG_SEV_ERROR, LOG_SEV_WARNING, LOG_SEV_INFO, LOG_SEV_DEBUG };

/* Where lines go from now on: "stderr", "syslog" or a file's path, which is opened
 * for appending. Returns 0; -1 with errno when the file cannot be opened, and
 * then the old target stays. */
int log_open(const char *target) __attribute__((warn_unused_result));

/* Lines less severe than `level` are dropped. */
void log_set_level(enum log_severity level);
bool log_enabled(enum log_severity level);

void log_line(enum log_severity level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for each line of a text. */
void log_lines(enum log_severity level, struct slice lines);

#define log_error(...) log_line(LOG_SEV_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_SEV_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_SEV_INFO, __VA_ARGS__)
#define log_debug(...)                                                                         \
	(log_enabled(LOG_SEV_DEBUG) ? log_line(LOG_SEV_DEBUG, __VA_ARGS__) : (void)0)

/* For events that a peer can cause: lets `burst` lines through per 10 seconds.
 * True: log it; *suppressed is then how many were dropped since. Not shared
 * between threads: each owner has its own. */
struct log_limit {
	double window_end; /* seconds, the caller's clock */
	uint32_t passed;
	uint32_t dropped;
};
bool log_limit_pass(struct log_limit *l, double now, uint32_t burst, uint32_t *suppressed);

#endif
