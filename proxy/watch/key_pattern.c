/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/key_pattern.h"

#include <ctype.h>
#include <string.h>

#include "base/quote.h"

#define UUID_LENGTH ((size_t)36)
#define HEX_MIN ((size_t)8)
#define MIXED_MIN ((size_t)16)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* True if a pattern in an ini file can contain the byte, escaped or not. Blanks, quotes, `;`,
 * `#` and unprintable bytes cannot stand there. */
static bool is_writable(char c)
{
	return c > ' ' && c < 127 && !strchr("\"'`;#", c);
}

static void put_byte(struct buf *out, char c)
{
	if (strchr("*?[]\\", c))
		buf_append(out, SLICE_LIT("\\"));
	buf_append(out, slice_of(&c, 1));
}

static bool ends_in_star(const struct buf *out)
{
	size_t n = buf_len(out);
	const char *p = buf_head(out);

	return n > 0 && p[n - 1] == '*' && !(n > 1 && p[n - 2] == '\\');
}

static void put_star(struct buf *out)
{
	if (!ends_in_star(out))
		buf_append(out, SLICE_LIT("*"));
}

static bool is_uuid(struct slice s)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (s.n < UUID_LENGTH)
		return false;
	for (size_t i = 0; i < UUID_LENGTH; i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char)s.p[i]) : s.p[i] != form[i])
			return false;
	return s.n == UUID_LENGTH || !isalnum((unsigned char)s.p[UUID_LENGTH]);
}

/* Returns how many letters and digits `s` begins with. */
static size_t word_length(struct slice s)
{
	size_t n = 0;

	while (n < s.n && isalnum((unsigned char)s.p[n]))
		n++;
	return n;
}

enum word { WORD_FIXED, WORD_NUMBERED, WORD_VARIES };

static enum word word_kind(struct slice w)
{
	size_t digits = 0, hex = 0;

	for (size_t i = 0; i < w.n; i++) {
		digits += is_digit(w.p[i]);
		hex += isxdigit((unsigned char)w.p[i]) != 0;
	}
	if (digits == w.n || (digits && hex == w.n && w.n >= HEX_MIN) ||
	    (digits > 1 && w.n >= MIXED_MIN))
		return WORD_VARIES;
	return is_digit(w.p[w.n - 1]) ? WORD_NUMBERED : WORD_FIXED;
}

/* True if `rest` continues the number before it: 2026-11-22 and 10.0.0.7 are one part each. */
static bool joins(struct slice rest)
{
	struct slice next = slice_of(rest.p + 1, rest.n - 1);

	if ((*rest.p != '-' && *rest.p != '.') || next.n == 0 || !is_digit(*next.p))
		return false;
	return word_kind(slice_of(next.p, word_length(next))) == WORD_VARIES;
}

/* Writes the word at the head of `rest`, and returns its length. */
static size_t put_word(struct buf *out, struct slice rest, bool *varies)
{
	struct slice word = slice_of(rest.p, word_length(rest));
	size_t fixed = word.n;

	switch (word_kind(word)) {
	case WORD_VARIES:
		put_star(out);
		*varies = true;
		break;
	case WORD_NUMBERED:
		while (is_digit(word.p[fixed - 1]))
			fixed--;
		buf_append(out, slice_of(word.p, fixed));
		put_star(out);
		break;
	case WORD_FIXED:
		buf_append(out, word);
		break;
	}
	return word.n;
}

/* --- bytes that are no text --------------------------------------------------------------- */

#define SCRAP_MAX ((size_t)3)

/* Random bytes may begin after any of SEPARATORS_BEFORE. They end at one of SEPARATORS, which
 * random bytes seldom contain. */
#define SEPARATORS ":/|"
#define SEPARATORS_BEFORE ":/|.-{}"

static bool is_among(const char *separators, char c)
{
	return c && strchr(separators, c);
}

/* Returns the number of bytes before the first separator in `s`. */
static size_t part_length(struct slice s, const char *separators)
{
	size_t n = 0;

	while (n < s.n && !is_among(separators, s.p[n]))
		n++;
	return n;
}

static bool is_text(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 127)
			return false;
	for (size_t i = 0, n; i < s.n; i += n) {
		n = utf8_length(slice_of(s.p + i, s.n - i));
		if (n == 0)
			return false;
	}
	return true;
}

/* True if the bytes after a separator are text again. If they are short and not a word, the
 * separator counts as a random byte, too. */
static bool is_text_behind(struct slice behind)
{
	size_t n = part_length(behind, SEPARATORS_BEFORE);
	size_t part = part_length(behind, SEPARATORS);

	if (n > SCRAP_MAX ? is_text(slice_of(behind.p, n))
	                  : n > 1 && n < behind.n && word_length(behind) == n)
		return true;
	return is_text(slice_of(behind.p, part)) && (part > SCRAP_MAX || part == behind.n);
}

/* Returns how many bytes at the head of `rest`, where a part begins, are not text. */
static size_t binary_length(struct slice rest)
{
	size_t n = part_length(rest, SEPARATORS_BEFORE);

	if (is_text(slice_of(rest.p, n)))
		return 0;
	n = part_length(rest, SEPARATORS);
	while (n < rest.n) {
		struct slice behind = slice_of(rest.p + n + 1, rest.n - n - 1);
		if (is_text_behind(behind))
			break;
		n += 1 + part_length(behind, SEPARATORS);
	}
	return n;
}

bool key_pattern(struct buf *out, struct slice key)
{
	bool varies = false;
	size_t used;

	for (struct slice rest = key; rest.n; rest = slice_of(rest.p + used, rest.n - used)) {
		bool begins = rest.p == key.p || is_among(SEPARATORS_BEFORE, rest.p[-1]);
		size_t binary = begins ? binary_length(rest) : 0;
		used = 1;
		if (binary) {
			put_star(out);
			varies = true;
			used = binary;
		} else if (is_uuid(rest)) {
			put_star(out);
			varies = true;
			used = UUID_LENGTH;
		} else if (word_length(rest)) {
			used = put_word(out, rest, &varies);
		} else if (!is_writable(*rest.p)) {
			put_star(out);
			varies = true;
		} else if (!(varies && ends_in_star(out) && joins(rest))) {
			put_byte(out, *rest.p);
		}
	}
	return varies;
}

bool key_pattern_has_name(struct slice pattern)
{
	for (size_t i = 0; i < pattern.n; i++)
		if (isalnum((unsigned char)pattern.p[i]) || pattern.p[i] == '\\')
			return true;
	return false;
}

void key_pattern_literal(struct buf *out, struct slice key)
{
	for (size_t i = 0; i < key.n; i++) {
		if (is_writable(key.p[i]))
			put_byte(out, key.p[i]);
		else
			buf_append(out, SLICE_LIT("?"));
	}
}
