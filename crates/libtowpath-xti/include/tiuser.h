/* TLI, the older name of XTI: what programs of System V include. Its calls, states, events and errors are those of
 * xti.h; structures are the same, so that a program is rebuilt, not relinked.
 */
#ifndef TOWPATH_TIUSER_H
#define TOWPATH_TIUSER_H

#include "xti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The texts of errors by their numbers, as t_strerror has them. */
extern const char *const *_t_errlist(void);
#define t_errlist (_t_errlist())
#define t_nerr 30

#ifdef __cplusplus
}
#endif

#endif
