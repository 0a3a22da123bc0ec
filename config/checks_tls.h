/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checks_tls: checks that the tls_* options of a section fit each other, without reading the
 * files that they name.
 */
#ifndef HASP_CONFIG_CHECKS_TLS_H
#define HASP_CONFIG_CHECKS_TLS_H

#include "config/checks_place.h"
#include "config/faults.h"
#include "config/types.h"

/* [hasp] has ended. */
void checks_tls_of_clients(const struct checks_section *s, struct faults *f);
/* A section with `tls` has ended. */
void checks_tls_of_servers(const struct checks_section *s, const struct server_tls *tls,
                           struct faults *f);

#endif
