/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake_clock: replaces the C library's clock in a test program that links it. The time, and
 * with it the timers of loops, advances only when the test says so.
 */
#ifndef HASP_TESTS_UNIT_FAKE_CLOCK_H
#define HASP_TESTS_UNIT_FAKE_CLOCK_H

void fake_clock_advance_ms(long ms);

#endif
