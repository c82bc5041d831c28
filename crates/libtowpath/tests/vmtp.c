/* Message transactions between processes: a client, a server, and another that it forwards to. */
#include "towpath_vmtp.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST 100000
#define CALLS 40
#define LIMIT 20000

static void check(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

/* What a server tells the others. */
struct place {
    uint64_t entity;
    struct sockaddr_in address;
};

static int open_endpoint(struct place *place, uint32_t discriminator)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof place->address;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int vmtp = towpath_vmtp_open((struct sockaddr *)&any, sizeof any);
    check(vmtp > 0, "open");
    check(towpath_vmtp_getsockname(vmtp, (struct sockaddr *)&place->address, &len) == 0, "name");
    place->entity = discriminator ? towpath_vmtp_entity(vmtp, discriminator) : 0;
    check(!discriminator || place->entity != 0, "entity");
    return vmtp;
}

static void locate(int vmtp, const struct place *place)
{
    const struct sockaddr *address = (const struct sockaddr *)&place->address;
    check(towpath_vmtp_locate(vmtp, place->entity, address, sizeof place->address) == 0, "locate");
}

static pid_t start(int tell, int hear, uint32_t discriminator, void (*serve)(int, const struct place *))
{
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        struct place own = {0}, other;
        int vmtp = open_endpoint(&own, discriminator);
        check(write(tell, &own, sizeof own) == sizeof own, "write");
        check(read(hear, &other, sizeof other) == sizeof other, "read");
        if (other.entity)
            locate(vmtp, &other);
        serve(vmtp, &other);
        exit(0);
    }
    return child;
}

/* Echoes with each octet changed, until a request with code 99. */
static void serve_echo(int vmtp, const struct place *other)
{
    static char buffer[LONGEST];
    (void)other;
    for (;;) {
        struct vmtp_mcb mcb = {0};
        ssize_t len = towpath_recvreq(vmtp, &mcb, buffer, sizeof buffer, LIMIT);
        check(len >= 0, "recvreq");
        for (ssize_t at = 0; at < len; at++)
            buffer[at] ^= 1;
        unsigned code = mcb.code;
        mcb.code = code == 99 ? 0 : 0x800000 + code;
        check(towpath_sendreply(vmtp, &mcb, buffer, len) == 0, "sendreply");
        errno = 0;
        check(towpath_sendreply(vmtp, &mcb, buffer, len) < 0 && errno == EINVAL, "once");
        if (code == 99) {
            /* Its reply must have left. */
            sleep(1);
            return;
        }
    }
}

/* Forwards everything, until a request with code 99. */
static void serve_forward(int vmtp, const struct place *other)
{
    static char buffer[LONGEST];
    for (;;) {
        struct vmtp_mcb mcb = {0};
        ssize_t len = towpath_recvreq(vmtp, &mcb, buffer, sizeof buffer, LIMIT);
        check(len >= 0, "recvreq");
        if (mcb.code == 99) {
            mcb.code = 0;
            check(towpath_sendreply(vmtp, &mcb, "", 0) == 0, "sendreply");
            sleep(1);
            return;
        }
        check(towpath_forward(vmtp, &mcb, other->entity, buffer, len) == 0, "forward");
    }
}

static void call(int vmtp, uint64_t entity, uint64_t from, size_t len, unsigned code)
{
    static char request[LONGEST], reply[LONGEST];
    struct vmtp_mcb mcb = {.entity = entity, .code = code};
    for (size_t at = 0; at < len; at++)
        request[at] = at * 7 + code;
    ssize_t got = towpath_invoke(vmtp, &mcb, request, len, reply, sizeof reply, LIMIT);
    check(got == (ssize_t)len, "invoke");
    check(mcb.entity == from && mcb.code == 0x800000 + code, "who answered");
    for (size_t at = 0; at < len; at++)
        check(reply[at] == (char)(request[at] ^ 1), "a right reply");
    char prefix[5] = "....";
    mcb.entity = entity;
    mcb.code = code;
    got = towpath_invoke(vmtp, &mcb, request, len, prefix, 2, LIMIT);
    check(got == (ssize_t)len && prefix[2] == '.', "a prefix, and the whole length");
}

static void stop(int vmtp, uint64_t entity)
{
    struct vmtp_mcb mcb = {.entity = entity, .code = 99};
    check(towpath_invoke(vmtp, &mcb, "", 0, NULL, 0, LIMIT) == 0, "stop");
}

int main(void)
{
    int tell[2][2], hear[2][2];
    struct place place[2], none = {0}, own;
    for (int server = 0; server < 2; server++)
        check(pipe(tell[server]) == 0 && pipe(hear[server]) == 0, "pipe");
    pid_t echo = start(tell[0][1], hear[0][0], 1, serve_echo);
    pid_t forwarder = start(tell[1][1], hear[1][0], 2, serve_forward);
    for (int server = 0; server < 2; server++)
        check(read(tell[server][0], &place[server], sizeof place[0]) == sizeof place[0], "a place");
    check(write(hear[0][1], &none, sizeof none) == sizeof none, "write");
    check(write(hear[1][1], &place[0], sizeof place[0]) == sizeof place[0], "write");
    int vmtp = open_endpoint(&own, 0);
    locate(vmtp, &place[0]);
    locate(vmtp, &place[1]);
    check(towpath_probeentity(vmtp, place[0].entity, 5, 500) == 1, "the echo server is there");
    for (unsigned number = 0; number < CALLS; number++)
        call(vmtp, place[0].entity, place[0].entity, number * (LONGEST / CALLS), number);
    for (unsigned number = 0; number < 6; number++)
        call(vmtp, place[1].entity, place[0].entity, number * 3000, number);
    struct vmtp_mcb mcb = {.entity = place[0].entity ^ (4ull << 32)};
    errno = 0;
    check(towpath_invoke(vmtp, &mcb, "x", 1, NULL, 0, LIMIT) < 0 && errno == EINVAL, "not located");
    struct place nobody = {.entity = mcb.entity, .address = place[0].address};
    locate(vmtp, &nobody);
    errno = 0;
    check(towpath_invoke(vmtp, &mcb, "x", 1, NULL, 0, LIMIT) < 0 && errno == ECONNREFUSED, "nobody");
    check(towpath_probeentity(vmtp, nobody.entity, 3, 200) == 0, "nobody is there");
    errno = 0;
    check(towpath_recvreq(vmtp, &mcb, NULL, 0, 50) < 0 && errno == ETIMEDOUT, "a time-out");
    stop(vmtp, place[1].entity);
    stop(vmtp, place[0].entity);
    check(towpath_vmtp_close(vmtp) == 0, "close");
    errno = 0;
    check(towpath_vmtp_close(vmtp) < 0 && errno == EBADF, "closed");
    int status;
    check(waitpid(echo, &status, 0) == echo && status == 0, "the echo server");
    check(waitpid(forwarder, &status, 0) == forwarder && status == 0, "the forwarder");
    return 0;
}
