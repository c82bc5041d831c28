/* What the test programs of SCTP sockets check, and how: the first thing that is wrong ends the program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest wait for anything. */
#define LIMIT_MS 20000

static inline void check(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

/* A call that must fail with this number. */
static inline void expect(int error, int result, const char *what)
{
    if (result != -1 || errno != error) {
        fprintf(stderr, "%s: %d, errno %d (%s), not %d\n", what, result, errno, strerror(errno),
                error);
        exit(1);
    }
}
