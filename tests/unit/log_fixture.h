/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_fixture: hasp's log, in a file that a test reads.
 */
#ifndef HASP_TESTS_UNIT_LOG_FIXTURE_H
#define HASP_TESTS_UNIT_LOG_FIXTURE_H

/* Logs to a new file until log_fixture_close(), which restores stderr. */
void log_fixture_open(void);
void log_fixture_close(void);

/* Fails unless `text` is in one of the lines that were logged since the last call. */
void assert_logged(const char *text);
/* Fails if `text` is in one of these lines. */
void assert_not_logged(const char *text);
/* Fails if a line was logged since the last call. */
void assert_nothing_logged(void);

#endif
