/* SPDX-License-Identifier: BSD-3-Clause
 *
 * breaks: defects that are planted in hasp on purpose (--break NAME), to show that the
 * simulation finds them. Those of Lua scripts stand in the scripts, as `-- break NAME: LINE`
 * (proxy/lock/scripts/embed.sh). Those of C are here: functions of hasp that the linker puts
 * wrappers before (Makefile.am, sim_broken), which do something else, or nothing.
 */
#ifndef HASP_TESTS_SIM_BREAKS_H
#define HASP_TESTS_SIM_BREAKS_H

#include <stdbool.h>

/* Plants a break; NULL: none. False: there is no such break. */
bool breaks_plant(const char *name);
/* True if that break is planted. */
bool break_is(const char *name);
/* Prints the breaks of C, a line for each. */
void breaks_list(void);

#endif
