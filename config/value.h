/* SPDX-License-Identifier: BSD-3-Clause
 *
 * value: parses the text of a setting, and prints it again. Knows no setting.
 */
#ifndef HASP_CONFIG_VALUE_H
#define HASP_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* These functions read a number. They return 0; -1 if `s` has another form, contains a sign or
 * a blank, or does not fit into 63 bits. */
int value_int(const char *s, int64_t *out) __attribute__((warn_unused_result));
int value_octal(const char *s, int64_t *out) __attribute__((warn_unused_result));
/* Reads 500ms, 30s, 5m, 2h; without a unit: seconds, as in pgbouncer.ini. */
int value_duration(const char *s, int64_t *ms) __attribute__((warn_unused_result));
/* Reads 64kb, 64mb, 1gb (powers of 1024), 64k, 64m, 1g (powers of 1000); without a unit: bytes;
 * all as in redis.conf. */
int value_size(const char *s, int64_t *bytes) __attribute__((warn_unused_result));

/* These print a short text that the functions above read back as the same number. */
void value_print_int(struct buf *out, int64_t v);
void value_print_octal(struct buf *out, int64_t v);
void value_print_duration(struct buf *out, int64_t ms);
void value_print_size(struct buf *out, int64_t bytes);

enum address_use { ADDRESS_TO_LISTEN, ADDRESS_TO_CONNECT };

/* Returns the fault in HOST:PORT, [V6]:PORT or unix:/PATH, for listening also *:PORT and port
 * 0; NULL: no fault. Resolves no names. */
const char *value_address_fault(const char *s, enum address_use use);

/* True if only this machine can reach `address`, which has no fault: a unix socket, localhost,
 * or the loopback interface. Does not resolve names. */
bool value_address_is_local(const char *address);

/* True if a client that connects to `address` reaches a socket that listens at `listen`, as far
 * as hasp can see without resolving names; neither may have a fault. */
bool value_address_reaches(const char *address, const char *listen);

/* Returns the fault of a word such as a command's or a rule's name; NULL: none. */
const char *value_word_fault(const char *s);

#endif
