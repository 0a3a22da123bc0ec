/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json: writes valid JSON (RFC 8259) from any input: bytes of a text that are not UTF-8 become
 * U+FFFD, and a number that JSON cannot express becomes null. The caller must open and close
 * objects and arrays in pairs.
 */
#ifndef HASP_BASE_JSON_H
#define HASP_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct json {
	struct buf *out;
	bool follows; /* the next element needs a comma before it */
};

/* In all functions, `name` is the name of a member, a plain word; NULL for an element of an
 * array. json_open() and json_close() open and close an object or an array: `bracket` is '{' or
 * '[', then '}' or ']'. */
void json_open(struct json *j, const char *name, char bracket);
void json_close(struct json *j, char bracket);

void json_text(struct json *j, const char *name, struct slice text);
void json_word(struct json *j, const char *name, const char *word); /* writes null for NULL */
void json_count(struct json *j, const char *name, uint64_t n);
/* Writes the number with this many digits after the point. */
void json_number(struct json *j, const char *name, double value, int digits);
void json_bool(struct json *j, const char *name, bool value);

#endif
