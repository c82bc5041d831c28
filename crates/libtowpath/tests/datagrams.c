/* An echo server of datagrams and its client, which tries each call that can send and receive one.
 * With -DXTP it speaks XTP, -DKIND=SOCK_RDM the confirmed kind, and UDP without. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#ifdef XTP
#include "towpath.h"
#define FAMILY PF_XTP
#else
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#define FAMILY PF_INET
#endif
#ifndef KIND
#define KIND SOCK_DGRAM
#endif

#define LONGEST 8000

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void need(int holds, const char *what)
{
    if (!holds)
        fail(what);
}

static struct sockaddr_in here(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int bound(struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int fd = socket(FAMILY, KIND, 0);
    need(fd >= 0, "socket");
    *address = here(0);
    need(bind(fd, (struct sockaddr *)address, len) == 0, "bind");
    need(getsockname(fd, (struct sockaddr *)address, &len) == 0, "getsockname");
    need(address->sin_port != 0, "a port");
    return fd;
}

/* Sends everything back to whoever sent it, until a datagram says "end". */
static void serve(int fd)
{
    char buffer[LONGEST + 1];
    for (;;) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        ssize_t got = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &len);
        need(got >= 0, "recvfrom");
        need(len == sizeof peer && peer.sin_family == AF_INET, "an address");
        ssize_t sent = sendto(fd, buffer, got, 0, (struct sockaddr *)&peer, len);
        need(sent == got, "sendto");
        if (got == 3 && memcmp(buffer, "end", 3) == 0)
            break;
    }
    need(close(fd) == 0, "close");
}

static void await(int fd)
{
    fd_set set;
    struct timeval limit = {.tv_sec = 20};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    need(select(fd + 1, &set, NULL, NULL, &limit) == 1, "select");
}

/* Datagrams of all lengths, to a named peer. */
static void to_a_name(int fd, struct sockaddr_in server)
{
    static char message[LONGEST], buffer[LONGEST];
    static const int lengths[] = {0, 1, 8, 1400, LONGEST};
    for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        int len = lengths[at];
        memset(message, 'a' + at, len);
        need(sendto(fd, message, len, 0, (struct sockaddr *)&server, sizeof server) == len, "sendto");
        await(fd);
        struct sockaddr_in peer;
        socklen_t peer_len = sizeof peer;
        need(recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &peer_len) == len,
             "recvfrom");
        need(memcmp(buffer, message, len) == 0, "what was sent");
        need(peer.sin_port == server.sin_port && peer.sin_addr.s_addr == server.sin_addr.s_addr,
             "from whom");
    }
}

/* Looks, cuts off, does not wait. */
static void with_flags(int fd, struct sockaddr_in server)
{
    char buffer[16];
    errno = 0;
    need(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing yet");
    need(sendto(fd, "0123456789", 10, 0, (struct sockaddr *)&server, sizeof server) == 10, "sendto");
    await(fd);
    need(recv(fd, buffer, sizeof buffer, MSG_PEEK) == 10, "peek");
    need(recv(fd, buffer, 4, MSG_PEEK | MSG_TRUNC) == 10, "its whole length");
    need(recv(fd, buffer, 4, 0) == 4 && memcmp(buffer, "0123", 4) == 0, "the first part");
    need(recv(fd, buffer, 4, MSG_DONTWAIT) < 0 && errno == EAGAIN, "the rest is dropped");
}

/* Messages in parts, and calls without addresses once there is a peer. */
static void in_parts(int fd, struct sockaddr_in server)
{
    char one[3], two[16];
    struct sockaddr_in peer;
    struct iovec out[2] = {{"par", 3}, {"ts", 2}}, in[2] = {{one, 3}, {two, sizeof two}};
    struct msghdr message = {.msg_name = &server, .msg_namelen = sizeof server,
                             .msg_iov = out, .msg_iovlen = 2};
    need(sendmsg(fd, &message, 0) == 5, "sendmsg");
    message = (struct msghdr){.msg_name = &peer, .msg_namelen = sizeof peer,
                              .msg_iov = in, .msg_iovlen = 2};
    await(fd);
    need(recvmsg(fd, &message, 0) == 5, "recvmsg");
    need(memcmp(one, "par", 3) == 0 && memcmp(two, "ts", 2) == 0, "both parts");
    need(peer.sin_port == server.sin_port && !(message.msg_flags & MSG_TRUNC), "a name");

    errno = 0;
    need(send(fd, "x", 1, 0) < 0 && errno == EDESTADDRREQ, "nobody to send to");
    need(getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) < 0
             && errno == ENOTCONN, "no peer");
    need(connect(fd, (struct sockaddr *)&server, sizeof server) == 0, "connect");
    need(getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) == 0
             && peer.sin_port == server.sin_port, "getpeername");
    need(writev(fd, out, 2) == 5, "writev");
    await(fd);
    need(readv(fd, in, 2) == 5 && memcmp(two, "ts", 2) == 0, "readv");
    need(write(fd, "four", 4) == 4, "write");
    await(fd);
    need(read(fd, two, sizeof two) == 4, "read");
}

/* A socket that has a peer hears nobody else. */
static void from_others(int fd, struct sockaddr_in own)
{
    struct sockaddr_in other;
    char buffer[8];
    int stranger = bound(&other);
    need(sendto(stranger, "psst", 4, 0, (struct sockaddr *)&own, sizeof own) == 4, "sendto");
    need(send(fd, "friend", 6, 0) == 6, "send");
    await(fd);
    need(recv(fd, buffer, sizeof buffer, 0) == 6, "the friend's alone");
#ifdef XTP
    /* Linux would take the port away too: it was not asked for by its number. */
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    need(connect(fd, &none, sizeof none) == 0, "connect to nobody");
    need(sendto(stranger, "hello", 5, 0, (struct sockaddr *)&own, sizeof own) == 5, "sendto");
    /* What the stranger said before may have been on its way until now. */
    ssize_t got;
    do {
        await(fd);
        got = recv(fd, buffer, sizeof buffer, 0);
    } while (got == 4);
    need(got == 5, "everybody's again");
#endif
    need(close(stranger) == 0, "close");
}

static void options(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    need(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == KIND, "SO_TYPE");
    need(getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == 0, "SO_ERROR");
    need(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len) == 0 && value == FAMILY, "SO_DOMAIN");
    need(listen(fd, 1) < 0 && errno == EOPNOTSUPP, "datagrams are not listened for");
    static char vast[70000];
    need(send(fd, vast, sizeof vast, 0) < 0 && (errno == EMSGSIZE || errno == EDESTADDRREQ), "vast");
}

static void talk(int port)
{
    struct sockaddr_in server = here(port), own;
    int fd = bound(&own);
    options(fd);
    to_a_name(fd, server);
    with_flags(fd, server);
    in_parts(fd, server);
    from_others(fd, own);
    need(sendto(fd, "end", 3, 0, (struct sockaddr *)&server, sizeof server) == 3, "sendto");
    await(fd);
    char buffer[8];
    need(recv(fd, buffer, sizeof buffer, 0) == 3, "the end");
    need(close(fd) == 0, "close");
}

int main(void)
{
    int ports[2];
    need(pipe(ports) == 0, "pipe");
    pid_t child = fork();
    need(child >= 0, "fork");
    struct sockaddr_in address;
    if (child == 0) {
        int fd = bound(&address), port = ntohs(address.sin_port);
        need(write(ports[1], &port, sizeof port) == sizeof port, "write");
        serve(fd);
        return 0;
    }
    int port, status;
    need(read(ports[0], &port, sizeof port) == sizeof port, "a port");
    talk(port);
    need(waitpid(child, &status, 0) == child && status == 0, "the server");
    return 0;
}
