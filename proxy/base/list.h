/* SPDX-License-Identifier: BSD-3-Clause
 *
 * list: an intrusive doubly linked ring. The head is a node like the others. A node in no list
 * points at itself, so removing it twice is harmless.
 */
#ifndef HASP_BASE_LIST_H
#define HASP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_prepend(struct list *head, struct list *node)
{
	list_append(head->next, node);
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Moves the node, which may be in a list, to the end of a list. */
static inline void list_move(struct list *head, struct list *node)
{
	list_remove(node);
	list_append(head, node);
}

/* Moves all nodes to another list, `to`, which need not be initialized: `to` takes the place of
 * `from` in the ring. */
static inline void list_take_all(struct list *to, struct list *from)
{
	list_append(from, to);
	list_remove(from);
}

/* Takes the first node off the list, and returns it; NULL: the list is empty. */
static inline struct list *list_shift(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/* Returns the entry whose `member` is at `at`; NULL: `at` is the head. */
#define list_entry(at, head, type, member)                                                     \
	((at) == (head) ? NULL : container_of(at, type, member))
/* Returns the first entry; NULL: the list is empty. */
#define list_first(head, type, member) list_entry((head)->next, head, type, member)
/* Takes the first entry off a list that is not empty. */
#define list_take(head, type, member) container_of(list_shift(head), type, member)

/* Goes through the entries. The body must keep `e` in the list. */
#define list_each(type, e, head, member)                                                       \
	for (type *e = list_first(head, type, member); e;                                      \
	     e = list_entry(e->member.next, head, type, member))
/* As list_each(), for the entries after `from`. */
#define list_each_after(type, e, from, head, member)                                           \
	for (type *e = list_entry((from)->member.next, head, type, member); e;                 \
	     e = list_entry(e->member.next, head, type, member))
/* As list_each(), but the body may remove or free `e`; it must keep the others. */
#define list_drain(type, e, head, member)                                                      \
	for (type *e = list_first(head, type, member), *e##_next;                              \
	     e && (e##_next = list_entry(e->member.next, head, type, member), true);           \
	     e = e##_next)
/* As list_drain(), from the last entry to the first. */
#define list_each_back(type, e, head, member)                                                  \
	for (type *e = list_entry((head)->prev, head, type, member), *e##_next;                \
	     e && (e##_next = list_entry(e->member.prev, head, type, member), true);           \
	     e = e##_next)
/* Takes each entry off the list. The body may free `e`, and change the list. */
#define list_shift_each(type, e, head, member)                                                 \
	for (type * e; (e = list_first(head, type, member)) && (list_remove(&e->member), true);)

#endif
