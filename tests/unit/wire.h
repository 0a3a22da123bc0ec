/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire: requests in bytes, as words that a test can compare: a line for each request, a script
 * by its name, `""` for an empty argument, `secret` for the database's secret.
 *
 *   *5\r\n$7\r\nEVALSHA\r\n$40\r\n...  -->  "release 2 k hasp:owner:{k} token\n"
 *   *5\r\n$4\r\nEVAL\r\n...            -->  "EVAL release 2 k hasp:owner:{k} token\n"
 */
#ifndef HASP_TESTS_UNIT_WIRE_H
#define HASP_TESTS_UNIT_WIRE_H

#include "base/buf.h"
#include "base/slice.h"

/* Appends the words of the requests in `bytes`. */
void wire_words(struct buf *out, struct slice bytes);

/* Fails unless `bytes` are requests of these words. */
void assert_wire(struct slice bytes, const char *words);

#endif
