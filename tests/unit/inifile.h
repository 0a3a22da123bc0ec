/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inifile: loads configurations from texts, for the tests of config/. A test gives the expected
 * faults or warnings in full, each as "LINE: text\n" without the file's name.
 */
#ifndef HASP_TESTS_UNIT_INIFILE_H
#define HASP_TESTS_UNIT_INIFILE_H

#include "base/buf.h"
#include "base/slice.h"
#include "config/config.h"

/* The path of the file with the text, in a directory of its own. */
extern char ini_path[];

/* For cmocka_run_group_tests(). */
int ini_make_dir(void **state);
int ini_remove_dir(void **state);

/* Loads the text, which must have no faults, and exactly these warnings. */
struct config *load(const char *text);
struct config *load_warned(const char *text, const char *expected);
/* Loads the text, with any warnings. */
struct config *load_anyway(const char *text);

/* Fails unless the text has exactly these faults. */
void assert_faults(const char *text, const char *expected);
void assert_faults_of(struct slice text, const char *expected);

/* Fails unless `b` has exactly these lines. */
void assert_lines(const struct buf *b, const char *expected);

#endif
