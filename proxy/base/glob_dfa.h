/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob_dfa: finds the first pattern of a glob_set that matches a key. This takes one step for
 * each byte of the key, however many patterns there are.
 *
 *   state = the nodes of the tree that a match may have reached after the bytes read so far
 *
 *   key --byte by byte--> the state's table --> the next state, made when it is first needed
 *                                          `--> no other byte changes the answer: done
 *
 * When the states exceed a limit, the automaton drops all of them and makes them again. A
 * search changes the automaton, so each thread has its own.
 */
#ifndef HASP_BASE_GLOB_DFA_H
#define HASP_BASE_GLOB_DFA_H

#include <stddef.h>
#include <stdint.h>

#include "base/glob_set.h"
#include "base/slice.h"

struct glob_dfa;

/* Makes the automaton of a complete set, which must outlive the automaton. `max_bytes`: limit
 * of all states together. GLOB_DFA_LIKELY: a limit that the set is unlikely to reach. */
#define GLOB_DFA_LIKELY SIZE_MAX
struct glob_dfa *glob_dfa_new(const struct glob_set *set, size_t max_bytes);
void glob_dfa_free(struct glob_dfa *dfa); /* NULL is allowed */

/* Returns the lowest number whose pattern matches `key`; GLOB_SET_NONE: none matches. */
int32_t glob_dfa_find(struct glob_dfa *dfa, struct slice key);

/* Returns the memory of all present states, in bytes. */
size_t glob_dfa_bytes(const struct glob_dfa *dfa);

#endif
