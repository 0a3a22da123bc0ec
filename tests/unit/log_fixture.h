/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_fixture: hasp's log, in a file that a test reads.
 */
#ifndef HASP_TESTS_UNIT_LOG_FIXTURE_H
#define HASP_TESTS_UNIT_LOG_FIXTURE_H

/* The log goes to a new file until log_fixture_close(), which lets it go to stderr again. */
void log_fixture_open(void);
void log_fixture_close(void);

/* Fails unless `text` is in one of the lines that were logged since the last call. */
void assert_logged(const char *text);
/* Fails if any line was logged since then. */
void assert_nothing_logged(void);

#endif
