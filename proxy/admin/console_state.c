/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_state: the only writer of a console's state.
 */
#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/fatal.h"

static void set_state(struct console *c, enum console_state state)
{
	static const unsigned allowed[] = {
		[CONSOLE_SERVING] = 1u << CONSOLE_AWAITING | 1u << CONSOLE_ENDING |
		                    1u << CONSOLE_DEAD,
		[CONSOLE_AWAITING] = 1u << CONSOLE_SERVING | 1u << CONSOLE_DEAD,
		[CONSOLE_ENDING] = 1u << CONSOLE_DEAD,
		[CONSOLE_DEAD] = 0,
	};

	HASP_ASSERT(allowed[c->state] & 1u << state);
	c->state = state;
}

void console_close(struct console *c)
{
	if (c->state == CONSOLE_DEAD)
		return;
	set_state(c, CONSOLE_DEAD);
	stream_close(&c->stream);
	list_move(&c->admin->dead, &c->place.node);
	c->admin->nconsoles--;
}

void console_end(struct console *c)
{
	set_state(c, CONSOLE_ENDING);
	c->since = clock_now();
}

void console_await(struct console *c)
{
	set_state(c, CONSOLE_AWAITING);
}

void console_go_on(struct console *c)
{
	set_state(c, CONSOLE_SERVING);
	c->reload = 0;
	c->awaits = AWAITS_NO_PAUSE;
	c->question = 0;
	c->answer_at = 0;
}
