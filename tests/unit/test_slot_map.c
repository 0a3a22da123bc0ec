/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of upstream/slot_map.c: which node serves which slot, by CLUSTER SLOTS and
 * redirections.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/testing.h"
#include "upstream/decode.h"
#include "upstream/slot_map.h"

#define NODES_MAX 1100

/* Addresses stand for nodes. */
static char named[NODES_MAX][64];
static size_t nnamed;
static char gone[64 * NODES_MAX];
static struct slot_map map;

static struct node *on_node(void *arg, const char *address)
{
	(void)arg;
	assert_true(nnamed < NODES_MAX);
	snprintf(named[nnamed], sizeof(named[nnamed]), "%s", address);
	return (struct node *)(void *)named[nnamed++];
}

static void on_gone(void *arg, struct node *n)
{
	(void)arg;
	strcat(gone, (const char *)(const void *)n);
	strcat(gone, " ");
}

static const struct slot_map_ops ops = { on_node, on_gone };

static int set_up(void **state)
{
	(void)state;
	nnamed = 0;
	*gone = '\0';
	slot_map_init(&map, &ops, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	slot_map_fini(&map);
	return 0;
}

FIXTURE(set_up, tear_down);

static int read_slots(const char *text)
{
	redisReply *reply = reply_decode(slice_str(text));
	int rc;

	assert_non_null(reply);
	rc = slot_map_read(&map, reply, "asked.lan");
	freeReplyObject(reply);
	return rc;
}

static void assert_served(unsigned slot, const char *address)
{
	const struct node *n = slot_map_node(&map, slot);

	assert_string_equal(n ? (const char *)(const void *)n : "nobody", address);
}

#define A "*3\r\n$7\r\n1.1.1.1\r\n:1000\r\n$2\r\nid\r\n"
#define B "*3\r\n$3\r\n::1\r\n:1001\r\n$2\r\nid\r\n"
#define WHO_ASKS "*3\r\n$0\r\n\r\n:1002\r\n$2\r\nid\r\n"
#define UNKNOWN "*3\r\n$-1\r\n:1003\r\n$2\r\nid\r\n"

#define NODES_HEAD "0123 1.1.1.1:1000@11000,alpha myself,master - 0 0 1 connected 0-16383 "
#define NODES_TAIL                                                                             \
	"\n4567 2.2.2.2:5@15,beta master - 0 0 2 connected\n89ab 3.3.3.3:6@16 "                \
	"slave,nofailover "                                                                    \
	"0123 0 0 1 connected\n"

TEST(an_answer_tells_which_node_serves_what)
{
	assert_int_equal(read_slots("*4\r\n*4\r\n:0\r\n:9\r\n" A B "*3\r\n:10\r\n:11\r\n" B
	                            "*3\r\n:12\r\n:12\r\n" WHO_ASKS
	                            "*3\r\n:14\r\n:16383\r\n" UNKNOWN),
	                 0);
	assert_served(0, "1.1.1.1:1000");
	assert_served(9, "1.1.1.1:1000");
	assert_served(10, "[::1]:1001");
	assert_served(12, "asked.lan:1002");
	assert_served(13, "nobody");
	assert_served(16383, "asked.lan:1003");
}

TEST(the_version_changes_with_the_map_alone)
{
	uint32_t version;

	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	version = map.version;
	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:99\r\n" A "*3\r\n:100\r\n:16383\r\n" A),
	                 0);
	assert_int_equal(map.version, version);
	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:99\r\n" A "*3\r\n:100\r\n:16383\r\n" B),
	                 0);
	assert_int_not_equal(map.version, version);
	assert_string_equal(gone, "");
}

TEST(a_node_that_is_not_named_any_more_is_gone)
{
	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:99\r\n" A "*3\r\n:100\r\n:101\r\n" B),
	                 0);
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:99\r\n" B), 0);
	assert_string_equal(gone, "1.1.1.1:1000 ");
	assert_served(5, "[::1]:1001");
	assert_int_equal(map.nnodes, 1);
}

TEST(a_node_keeps_the_slots_that_an_answer_leaves_out)
{
	uint32_t version;

	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:99\r\n" A "*3\r\n:100\r\n:101\r\n" B),
	                 0);
	version = map.version;
	assert_int_equal(read_slots("*1\r\n*3\r\n:100\r\n:101\r\n" B), 0);
	assert_string_equal(gone, "");
	assert_served(5, "1.1.1.1:1000");
	assert_int_equal(map.version, version);
	/* The node stays in the map as long as it serves one slot. */
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:98\r\n" B), 0);
	assert_string_equal(gone, "");
	assert_served(98, "[::1]:1001");
	assert_served(99, "1.1.1.1:1000");
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:101\r\n" B), 0);
	assert_string_equal(gone, "1.1.1.1:1000 ");
}

TEST(what_is_no_answer_changes_nothing)
{
	static const char *const bad[] = {
		"*0\r\n",
		"-ERR This instance has cluster support disabled\r\n",
		"*1\r\n*2\r\n:0\r\n:1\r\n",
		"*1\r\n*3\r\n:5\r\n:1\r\n" A,
		"*1\r\n*3\r\n:0\r\n:16384\r\n" A,
		"*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\nx\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nx\r\n:0\r\n",
		"*1\r\n:5\r\n",
	};

	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(read_slots(bad[i]), -1);
	assert_served(0, "1.1.1.1:1000");
	assert_served(16383, "1.1.1.1:1000");
	assert_string_equal(gone, "");
}

/* Reads a map of `n` ranges, of one slot each or of all slots. Each of `primaries` has every
 * so manieth range. */
static int read_ranges(size_t n, size_t primaries, bool overlap)
{
	char *text = malloc(n * 64 + 64);
	size_t len = (size_t)sprintf(text, "*%zu\r\n", n);
	int rc;

	for (size_t i = 0; i < n; i++)
		len += (size_t)sprintf(text + len,
		                       "*3\r\n:%zu\r\n:%zu\r\n*2\r\n$1\r\nh\r\n:%zu\r\n",
		                       overlap ? 0 : i, overlap ? 16383 : i, i % primaries + 1);
	rc = read_slots(text);
	free(text);
	return rc;
}

/* Reads a map of ranges with a primary each. */
static int read_many(size_t n, bool overlap)
{
	return read_ranges(n, 2000, overlap);
}

TEST(a_cluster_has_no_more_than_a_thousand_primaries)
{
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	assert_int_equal(read_many(1001, false), -1);
	assert_int_equal(read_many(16384, false), -1);
	assert_int_equal(map.nnodes, 1);
	assert_int_equal(read_many(1000, false), 0);
	assert_int_equal(map.nnodes, 1000);
	assert_served(999, "h:1000");
	/* Of so many nodes, one that is not named is gone with its slots. */
	assert_served(1000, "nobody");
}

TEST(each_slot_may_be_a_range)
{
	assert_int_equal(read_ranges(16384, 2, false), 0);
	assert_int_equal(map.nnodes, 2);
	assert_served(16382, "h:1");
	assert_served(16383, "h:2");
	assert_int_equal(read_ranges(16385, 2, false), -1);
}

TEST(a_slot_has_one_primary)
{
	assert_int_equal(read_many(2, true), -1);
	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:9\r\n" A "*3\r\n:9\r\n:11\r\n" B), -1);
	assert_int_equal(map.nnodes, 0);
}

/* Reads a map in which each slot moves to a node of its own. */
static void read_many_migrating(size_t n, const char *host)
{
	char *text = malloc(n * 100 + sizeof(NODES_HEAD));
	size_t len = (size_t)sprintf(text, "%s", NODES_HEAD);

	for (size_t i = 0; i < n; i++)
		len += (size_t)sprintf(text + len, "[%zu->-id%zu] ", i, i);
	for (size_t i = 0; i < n; i++)
		len += (size_t)sprintf(text + len, "\nid%zu %s:%zu@1 master - 0 0 2 connected",
		                       i, host, i + 1);
	slot_map_read_migrating(&map, text, "x");
	free(text);
}

TEST(no_more_than_a_hundred_nodes_get_slots)
{
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	read_many_migrating(1000, "2.2.2.2");
	read_many_migrating(1000, "3.3.3.3");
	assert_true(slot_map_is_migrating(&map, 999));
	assert_int_equal(map.nnodes, 1 + 100);
}

TEST(a_redirection_names_a_node)
{
	struct node *a, *b;

	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	a = slot_map_node(&map, 0);
	assert_null(slot_map_named(&map, a, SLICE_LIT("MOVED 7 2.2.2.2:5")));
	assert_int_equal(nnamed, 1);
	b = slot_map_get(&map, SLICE_LIT("2.2.2.2:5"));
	assert_ptr_equal(slot_map_named(&map, a, SLICE_LIT("MOVED 7 2.2.2.2:5")), b);
	assert_ptr_equal(slot_map_named(&map, a, SLICE_LIT("ASK 7 1.1.1.1:1000")), a);
	assert_ptr_equal(slot_map_named(&map, b, SLICE_LIT("MOVED 7 :5")), b);
	assert_null(slot_map_named(&map, b, SLICE_LIT("MOVED 7 :1000")));
	assert_null(slot_map_named(&map, a, SLICE_LIT("MOVED 7")));
	assert_null(slot_map_named(&map, a, SLICE_LIT("MOVED 7 host")));
	assert_null(slot_map_named(&map, a, SLICE_LIT("MOVED 7 host:x")));
	assert_null(slot_map_named(&map, a, SLICE_LIT("MOVED 7 host:99999")));
	assert_null(slot_map_named(&map, a, SLICE_LIT("ERR 7 host:1")));
	slot_map_move(&map, 7, b);
	assert_served(7, "2.2.2.2:5");
	assert_served(8, "1.1.1.1:1000");
}

#define NAMELESS(first, last, ip, port)                                                        \
	"*3\r\n:" first "\r\n:" last "\r\n*4\r\n$1\r\n?\r\n:" port "\r\n$2\r\nid\r\n"          \
	"*2\r\n$2\r\nip\r\n$7\r\n" ip "\r\n"

/* A node may not know another node's host name, which cluster-preferred-endpoint-type tells it
 * to name. */
TEST(an_unknown_host_name_is_replaced_by_the_address)
{
	struct node *a, *b;

	assert_int_equal(read_slots("*3\r\n" NAMELESS("0", "9", "1.1.1.1", "1")
	                                    NAMELESS("10", "19", "2.2.2.2", "1")
	                                            NAMELESS("20", "29", "2.2.2.2", "2")),
	                 0);
	assert_served(0, "1.1.1.1:1");
	assert_served(10, "2.2.2.2:1");
	a = slot_map_node(&map, 0);
	b = slot_map_node(&map, 20);
	assert_ptr_equal(slot_map_named(&map, a, SLICE_LIT("ASK 7 ?:2")), b);
	assert_null(slot_map_named(&map, a, SLICE_LIT("ASK 7 ?:1")));
	assert_null(slot_map_named(&map, a, SLICE_LIT("ASK 7 ?:3")));
}

TEST(nodes_that_get_slots_are_in_the_map)
{
	static const char nodes[] = NODES_HEAD "1000-5460 [7->-4567] [9-<-89ab]" NODES_TAIL;

	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	slot_map_read_migrating(&map, nodes, "x");
	assert_true(slot_map_is_migrating(&map, 7));
	assert_true(slot_map_is_migrating(&map, 9));
	assert_int_equal(map.nmigrating, 2);
	assert_int_equal(nnamed, 2);
	assert_string_equal(named[1], "2.2.2.2:5");
	/* The node stays although it serves no slot yet, until the migration may have been
	 * given up. */
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	assert_string_equal(gone, "");
	slot_map_forget_migrating(&map);
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	assert_string_equal(gone, "2.2.2.2:5 ");
}

/* Depending on cluster-preferred-endpoint-type, clients get host names, or no host at all. */
TEST(nodes_that_get_slots_are_named_as_clients_are_told)
{
	static const char nodes[] = NODES_HEAD "[7->-4567]" NODES_TAIL;

	assert_int_equal(
		read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$5\r\nalpha\r\n:1000\r\n"), 0);
	slot_map_read_migrating(&map, nodes, "x");
	assert_string_equal(named[1], "beta:5");
	slot_map_forget_migrating(&map);
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:1000\r\n"), 0);
	slot_map_read_migrating(&map, nodes, "asked.lan");
	assert_string_equal(named[nnamed - 1], "asked.lan:5");
}

/* Behind the host name, Redis 7.2 lists other properties; a host name may be missing. */
TEST(a_property_of_a_node_is_no_host_name)
{
	static const char nodes[] = "0123 1.1.1.1:1000@11000,shard-id=9f myself,master - 0 0 1 "
				    "connected [7->-4567]\n"
				    "4567 2.2.2.2:5@15,shard-id=9e master - 0 0 2 connected\n";

	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n"
	                            "$11\r\nshard-id=9f\r\n:1000\r\n"),
	                 0);
	slot_map_read_migrating(&map, nodes, "x");
	assert_string_equal(named[1], "2.2.2.2:5");
}

TEST(what_is_no_list_of_nodes_adds_nothing)
{
	static const char *const texts[] = {
		"",
		"\n\n \n",
		"0123",
		"0123 1.1.1.1:1000@11000 myself",
		"0123 1.1.1.1:1000 master - 0 0 1 connected [7->-0123]",
		NODES_HEAD "[7->-cdef]",
		NODES_HEAD "[16384->-4567]" NODES_TAIL,
		NODES_HEAD "[-1->-4567]" NODES_TAIL,
		NODES_HEAD "[7" NODES_TAIL,
		NODES_HEAD "[7]" NODES_TAIL,
		NODES_HEAD "[7-" NODES_TAIL,
		NODES_HEAD "[7->-]" NODES_TAIL,
		NODES_HEAD "[]]]]" NODES_TAIL,
		"4567 nonsense myself,master - 0 0 1 connected [7->-4567]",
	};

	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		slot_map_read_migrating(&map, texts[i], "x");
	assert_int_equal(nnamed, 1);
}

TEST(a_slot_is_on_its_way_until_it_has_arrived)
{
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
	assert_false(slot_map_is_migrating(&map, 7));
	slot_map_note_migrating(&map, 7);
	slot_map_note_migrating(&map, 9);
	assert_true(slot_map_is_migrating(&map, 7));
	assert_false(slot_map_is_migrating(&map, 8));
	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:7\r\n" B "*3\r\n:8\r\n:16383\r\n" A),
	                 0);
	assert_false(slot_map_is_migrating(&map, 7));
	assert_true(slot_map_is_migrating(&map, 9));
	slot_map_forget_migrating(&map);
	assert_false(slot_map_is_migrating(&map, 9));
}

TEST(a_node_has_a_port_and_a_host_of_at_most_255_bytes)
{
	static const struct {
		const char *address, *named; /* `named`: NULL: the address is not valid */
	} rows[] = {
		{ "h:1", "h:1" },         { "h:65535", "h:65535" },
		{ "h:00001", "h:1" },     { "::1:7", "[::1]:7" },
		{ "[::1]:7", "[::1]:7" }, { "h:65536", NULL },
		{ "h:0", NULL },          { "h:", NULL },
		{ ":7", NULL },           { "h:7x", NULL },
		{ "h:-1", NULL },         { "h:999999999999999999999", NULL },
	};
	char text[300];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *node = (const char *)(const void *)slot_map_get(
			&map, slice_str(rows[i].address));

		assert_int_equal(node != NULL, rows[i].named != NULL);
		if (node)
			assert_string_equal(node, rows[i].named);
	}
	memset(text, 'h', sizeof(text));
	memcpy(text + 256, ":1", 3);
	assert_null(slot_map_get(&map, slice_str(text)));
	assert_null(slot_map_get(&map, slice_of(text, sizeof(text))));
	memset(text + 256, 'h', sizeof(text) - 256);
	memcpy(text + sizeof(text) - 3, ":1", 3);
	assert_null(slot_map_get(&map, slice_str(text)));
}

TEST(slots_on_their_way_are_read_from_whole_words)
{
	static const struct {
		const char *word;
		int slot; /* -1: the word names no slot */
		size_t nnamed;
	} rows[] = {
		{ "[0->-4567]", 0, 2 },
		{ "[16383->-4567]", 16383, 2 },
		{ "[7-<-4567]", 7, 1 },
		{ "[7->-89ab]", 7, 2 },
		{ "[7->-0123]", 7, 1 },
		{ "[7->-none]", 7, 1 },
		{ "[16384->-4567]", -1, 1 },
		{ "[7->-4567", -1, 1 },
		{ "7->-4567]", -1, 1 },
		{ "[7>-4567]", -1, 1 },
		{ "[7]", -1, 1 },
		{ "[7-]", -1, 1 },
		{ "[7->]", -1, 1 },
		{ "7", -1, 1 },
	};
	char nodes[400];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" A), 0);
		snprintf(nodes, sizeof(nodes), NODES_HEAD "%s" NODES_TAIL, rows[i].word);
		slot_map_read_migrating(&map, nodes, "x");
		assert_int_equal(map.nmigrating, rows[i].slot >= 0);
		if (rows[i].slot >= 0)
			assert_true(slot_map_is_migrating(&map, (unsigned)rows[i].slot));
		if (nnamed != rows[i].nnamed)
			fail_msg("%s: %zu", rows[i].word, nnamed);
		slot_map_note_migrating(&map, 8);
		slot_map_move(&map, 8, NULL);
		assert_int_equal(map.nmigrating, rows[i].slot >= 0);
		tear_down(state);
		set_up(state);
	}
}

static void assert_primaries(struct primaries *p, const char *text)
{
	char out[128] = "";

	primaries_update(p, &map);
	for (size_t i = 0; i < p->n; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s %u ",
		         (const char *)(const void *)p->v[i].node, p->v[i].slot);
	assert_string_equal(out, text);
}

TEST(primaries_keep_their_slots)
{
	struct primaries p = { 0 };
	struct node *a, *b;

	assert_int_equal(read_slots("*2\r\n*3\r\n:0\r\n:5\r\n" A "*3\r\n:6\r\n:16383\r\n" B),
	                 0);
	a = slot_map_node(&map, 0);
	b = slot_map_node(&map, 6);
	assert_primaries(&p, "1.1.1.1:1000 0 [::1]:1001 6 ");
	/* A primary that gets lower slots keeps its turn. */
	slot_map_move(&map, 3, b);
	assert_primaries(&p, "1.1.1.1:1000 0 [::1]:1001 6 ");
	slot_map_move(&map, 0, b);
	assert_primaries(&p, "1.1.1.1:1000 1 [::1]:1001 6 ");
	slot_map_move(&map, 6, a);
	assert_primaries(&p, "1.1.1.1:1000 1 [::1]:1001 7 ");
	/* It has no higher slot: it gets its lowest one. */
	for (unsigned slot = 7; slot < SLOTS; slot++)
		slot_map_move(&map, slot, a);
	assert_primaries(&p, "[::1]:1001 0 1.1.1.1:1000 1 ");
	primaries_fini(&p);
}

TEST(primaries_are_in_the_order_of_their_first_slots)
{
	struct primaries p = { 0 };

	assert_primaries(&p, "");
	assert_null(primaries_after(&p, 0));
	assert_int_equal(read_slots("*3\r\n*3\r\n:2\r\n:5\r\n" A "*3\r\n:6\r\n:7\r\n" B
	                            "*3\r\n:9\r\n:16383\r\n" A),
	                 0);
	assert_primaries(&p, "1.1.1.1:1000 2 [::1]:1001 6 ");
	assert_ptr_equal(primaries_after(&p, 0), &p.v[0]);
	assert_ptr_equal(primaries_after(&p, 1), &p.v[0]);
	assert_ptr_equal(primaries_after(&p, 2), &p.v[1]);
	assert_ptr_equal(primaries_after(&p, 5), &p.v[1]);
	assert_null(primaries_after(&p, 6));
	/* hasp makes the list again only if the map has changed. */
	p.n = 0;
	assert_primaries(&p, "");
	slot_map_move(&map, 0, slot_map_node(&map, 6));
	slot_map_move(&map, 16383, slot_map_get(&map, SLICE_LIT("c:1")));
	assert_primaries(&p, "[::1]:1001 0 1.1.1.1:1000 2 c:1 16383 ");
	primaries_fini(&p);
	assert_null(p.v);
}

TEST(what_is_no_address_is_no_node)
{
	static const char *const addresses[] = {
		"[:1", "[]:1", "[::1:1", "*:1",     "unix:1",   "a b:1", "a\r\nb:1", "\x80:1",
		":1",  "a:",   "a:0",    "a:65536", "a:655350", "a:1/",  "a:1;",
	};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
		assert_null(slot_map_get(&map, slice_str(addresses[i])));
	assert_int_equal(nnamed, 0);
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$3\r\n[:1\r\n:1\r\n"),
	                 -1);
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$4\r\na\r\nb\r\n:1\r\n"),
	                 -1);
	assert_non_null(slot_map_get(&map, SLICE_LIT("::1:1")));
	assert_string_equal(named[0], "[::1]:1");
	/* hasp does not read the bytes after the port. */
	assert_non_null(slot_map_get(&map, slice_of("a:1:", 3)));
	assert_string_equal(named[1], "a:1");
	assert_non_null(slot_map_get(&map, SLICE_LIT("a:65535")));
	assert_string_equal(named[2], "a:65535");
	assert_non_null(slot_map_get(&map, SLICE_LIT("a:9080")));
	assert_string_equal(named[3], "a:9080");
}
