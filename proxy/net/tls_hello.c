/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/tls_hello.h"

/* TLS record type. */
#define TYPE_HANDSHAKE 22
/* Handshake message type. */
#define TYPE_CLIENT_HELLO 1

/* Reads one byte of a handshake message. The message's header may span several records, with
 * other records between them. */
static bool look_into_message(struct tls_hello *h, uint8_t byte)
{
	if (h->message_left) {
		h->message_left--;
		return true;
	}
	h->message[h->nmessage++] = byte;
	if (h->nmessage < sizeof(h->message))
		return true;
	h->nmessage = 0;
	h->message_left = (size_t)h->message[1] << 16 | (size_t)h->message[2] << 8 | byte;
	return h->message[0] != TYPE_CLIENT_HELLO || h->message_left <= TLS_HELLO_MAX;
}

static bool look_at_byte(struct tls_hello *h, uint8_t byte)
{
	if (h->record_left) {
		h->record_left--;
		return h->record[0] != TYPE_HANDSHAKE || look_into_message(h, byte);
	}
	h->record[h->nrecord++] = byte;
	if (h->nrecord == sizeof(h->record)) {
		h->nrecord = 0;
		h->record_left = (size_t)h->record[3] << 8 | byte;
	}
	return true;
}

bool tls_hello_look(struct tls_hello *h, struct slice bytes)
{
	for (size_t i = 0; i < bytes.n; i++)
		if (!look_at_byte(h, (uint8_t)bytes.p[i]))
			return false;
	return true;
}
