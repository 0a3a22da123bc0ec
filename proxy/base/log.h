/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log: one line per event, to stderr, a file or syslog. Callable from every thread. Never log a
 * value or a password.
 *
 *   "event key=1 ..."             ->  time=... level=info event=event key=1 ...
 *                                     {"time":"...","level":"info","event":"event","key":1}
 *   any other text                ->  time=... level=info msg="text"
 */
#ifndef HASP_BASE_LOG_H
#define HASP_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum log_severity { LOG_SEV_ERROR, LOG_SEV_WARNING, LOG_SEV_INFO, LOG_SEV_DEBUG };

/* Sets where lines go: "stderr", "syslog", or the path of a file. Returns 0. If the file cannot
 * be opened, changes nothing, and returns -1 with errno. */
int log_open(const char *target) __attribute__((warn_unused_result));

enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };
void log_set_format(enum log_format format);

/* Drops lines less severe than `level` from now on. */
void log_set_level(enum log_severity level);
bool log_enabled(enum log_severity level);

void log_line(enum log_severity level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Logs each line of a text as log_line() does. */
void log_lines(enum log_severity level, struct slice lines);

#define log_error(...) log_line(LOG_SEV_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_SEV_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_SEV_INFO, __VA_ARGS__)
#define log_debug(...)                                                                         \
	(log_enabled(LOG_SEV_DEBUG) ? log_line(LOG_SEV_DEBUG, __VA_ARGS__) : (void)0)

/* Limits the lines about an event that a peer can cause: `burst` lines in 10 seconds.
 * Initialize the struct with zeros. Threads must not share it. */
struct log_limit {
	double window_end; /* end of the window, in seconds of the caller's clock */
	uint32_t passed; /* lines allowed in this window */
	uint32_t dropped; /* lines dropped since the last allowed one */
};
/* Returns true if the line may be logged; then *suppressed is the number of lines dropped since
 * the last allowed one. `now`: in seconds; never goes back. */
bool log_limit_pass(struct log_limit *l, double now, uint32_t burst, uint32_t *suppressed);
/* As log_limit_pass(), with a window of `seconds`. */
bool log_limit_pass_in(struct log_limit *l, double now, double seconds, uint32_t burst,
                       uint32_t *suppressed);

/* States of a server, for callers that know no others. */
enum { LOG_STATE_DOWN = 1, LOG_STATE_UP, LOG_STATE_REFUSED, LOG_STATE_TLS };

/* Limits the lines about a server's state, which may change again and again. Initialize the
 * struct with zeros. Threads must not share it. */
struct log_state {
	struct log_limit limit; /* of lines about faults */
	int state; /* 0: unknown */
	int logged; /* the state in the last line; 0: there was no line */
};
/* Returns true if the caller must log that the state is `state` now, not 0; *suppressed is the
 * number of lines dropped since the last one. Call it for each sign of the state, also if the
 * state is the same: if faults were too frequent to be logged, a fault that stays is logged
 * later. The end of a fault that was logged is always logged. `works`: true if the state is
 * no fault. */
bool log_state_pass(struct log_state *s, double now, int state, bool works,
                    uint32_t *suppressed);

#endif
