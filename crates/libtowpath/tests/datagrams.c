/* A datagram echo server and its client, which uses each call that sends or receives a datagram.
 * With -DXTP it uses XTP (-DKIND=SOCK_RDM: acknowledged datagrams), else UDP. */
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

static void check(int condition, const char *what)
{
    if (!condition)
        fail(what);
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int bound_socket(struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int fd = socket(FAMILY, KIND, 0);
    check(fd >= 0, "socket");
    *address = loopback(0);
    check(bind(fd, (struct sockaddr *)address, len) == 0, "bind");
    check(getsockname(fd, (struct sockaddr *)address, &len) == 0, "getsockname");
    check(address->sin_port != 0, "a port");
    return fd;
}

/* Echoes each datagram to its sender, until one contains "end". */
static void serve(int fd)
{
    char buffer[LONGEST + 1];
    for (;;) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        ssize_t got = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &len);
        check(got >= 0, "recvfrom");
        check(len == sizeof peer && peer.sin_family == AF_INET, "an address");
        ssize_t sent = sendto(fd, buffer, got, 0, (struct sockaddr *)&peer, len);
        check(sent == got, "sendto");
        if (got == 3 && memcmp(buffer, "end", 3) == 0)
            break;
    }
    check(close(fd) == 0, "close");
}

static void await_readable(int fd)
{
    fd_set set;
    struct timeval limit = {.tv_sec = 20};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    check(select(fd + 1, &set, NULL, NULL, &limit) == 1, "select");
}

/* Datagrams of all lengths, with sendto. */
static void test_sendto(int fd, struct sockaddr_in server)
{
    static char message[LONGEST], buffer[LONGEST];
    static const int lengths[] = {0, 1, 8, 1400, LONGEST};
    for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        int len = lengths[at];
        memset(message, 'a' + at, len);
        check(sendto(fd, message, len, 0, (struct sockaddr *)&server, sizeof server) == len,
              "sendto");
        await_readable(fd);
        struct sockaddr_in peer;
        socklen_t peer_len = sizeof peer;
        check(recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &peer_len) == len,
             "recvfrom");
        check(memcmp(buffer, message, len) == 0, "what was sent");
        check(peer.sin_port == server.sin_port && peer.sin_addr.s_addr == server.sin_addr.s_addr,
             "the source address");
    }
}

/* MSG_PEEK, MSG_TRUNC and MSG_DONTWAIT. */
static void test_flags(int fd, struct sockaddr_in server)
{
    char buffer[16];
    errno = 0;
    check(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing yet");
    check(sendto(fd, "0123456789", 10, 0, (struct sockaddr *)&server, sizeof server) == 10,
          "sendto");
    await_readable(fd);
    check(recv(fd, buffer, sizeof buffer, MSG_PEEK) == 10, "peek");
    check(recv(fd, buffer, 4, MSG_PEEK | MSG_TRUNC) == 10, "its whole length");
    check(recv(fd, buffer, 4, 0) == 4 && memcmp(buffer, "0123", 4) == 0, "the first part");
    check(recv(fd, buffer, 4, MSG_DONTWAIT) < 0 && errno == EAGAIN, "the rest is dropped");
}

/* As many parts as POSIX allows, and one more. */
static void test_most_parts(int fd, struct sockaddr_in server)
{
    enum { MOST = 1024 };
    static char octets[2 * MOST], got[2 * MOST];
    static struct iovec out[MOST + 1], in[MOST + 1];
    volatile int negative = -1;
    for (int at = 0; at <= MOST; at++) {
        out[at] = (struct iovec){octets + 2 * at * (at < MOST), 2};
        in[at] = (struct iovec){got + 2 * at * (at < MOST), 2};
    }
    for (unsigned at = 0; at < sizeof octets; at++)
        octets[at] = 'a' + at % 23;
    struct msghdr message = {.msg_name = &server, .msg_namelen = sizeof server,
                             .msg_iov = out, .msg_iovlen = MOST};
    check(sendmsg(fd, &message, 0) == sizeof octets, "sendmsg of 1024 parts");
    await_readable(fd);
    message = (struct msghdr){.msg_iov = in, .msg_iovlen = MOST};
    check(recvmsg(fd, &message, 0) == sizeof got, "recvmsg of 1024 parts");
    check(memcmp(octets, got, sizeof got) == 0, "all parts");
    message.msg_iovlen = MOST + 1;
    errno = 0;
    check(recvmsg(fd, &message, MSG_DONTWAIT) < 0 && errno == EMSGSIZE, "recvmsg of 1025 parts");
    errno = 0;
    check(sendmsg(fd, &message, 0) < 0 && errno == EMSGSIZE, "sendmsg of 1025 parts");
    errno = 0;
    check(readv(fd, in, MOST + 1) < 0 && errno == EINVAL, "readv of 1025 parts");
    errno = 0;
    check(writev(fd, in, MOST + 1) < 0 && errno == EINVAL, "writev of 1025 parts");
    check(sendto(fd, "kept", 4, 0, (struct sockaddr *)&server, sizeof server) == 4, "sendto");
    await_readable(fd);
    errno = 0;
    check(readv(fd, in, negative) < 0 && errno == EINVAL, "readv of -1 parts");
    errno = 0;
    check(writev(fd, in, negative) < 0 && errno == EINVAL, "writev of -1 parts");
    check(readv(fd, in, 0) == 0, "readv of no parts");
    check(recv(fd, got, sizeof got, 0) == 4, "the datagram is still there");
}

/* Messages in several parts, and calls without addresses on a connected socket. */
static void test_iovecs(int fd, struct sockaddr_in server)
{
    char one[3], two[16];
    struct sockaddr_in peer;
    struct iovec out[3] = {{"par", 3}, {NULL, 0}, {"ts", 2}};
    struct iovec in[3] = {{one, 3}, {NULL, 0}, {two, sizeof two}};
    struct msghdr message = {.msg_name = &server, .msg_namelen = sizeof server,
                             .msg_iov = out, .msg_iovlen = 3};
    check(sendmsg(fd, &message, 0) == 5, "sendmsg");
    message = (struct msghdr){.msg_name = &peer, .msg_namelen = sizeof peer,
                              .msg_iov = in, .msg_iovlen = 3};
    await_readable(fd);
    check(recvmsg(fd, &message, 0) == 5, "recvmsg");
    check(memcmp(one, "par", 3) == 0 && memcmp(two, "ts", 2) == 0, "both parts");
    check(peer.sin_port == server.sin_port && !(message.msg_flags & MSG_TRUNC),
          "the source address");

    errno = 0;
    check(send(fd, "x", 1, 0) < 0 && errno == EDESTADDRREQ, "no destination");
    check(getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) < 0
             && errno == ENOTCONN, "no peer");
    check(connect(fd, (struct sockaddr *)&server, sizeof server) == 0, "connect");
    check(getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) == 0
             && peer.sin_port == server.sin_port, "getpeername");
    check(writev(fd, out, 3) == 5, "writev");
    await_readable(fd);
    check(readv(fd, in, 3) == 5 && memcmp(two, "ts", 2) == 0, "readv");
    check(send(fd, NULL, 0, 0) == 0, "an empty datagram");
    await_readable(fd);
    check(recv(fd, NULL, 0, 0) == 0, "an empty buffer");
    check(write(fd, "four", 4) == 4, "write");
    await_readable(fd);
    check(read(fd, two, sizeof two) == 4, "read");
}

/* A connected socket receives from its peer only. */
static void test_peer_filter(int fd, struct sockaddr_in own)
{
    struct sockaddr_in other;
    char buffer[8];
    int other_fd = bound_socket(&other);
    check(sendto(other_fd, "psst", 4, 0, (struct sockaddr *)&own, sizeof own) == 4, "sendto");
    check(send(fd, "client", 6, 0) == 6, "send");
    await_readable(fd);
    check(recv(fd, buffer, sizeof buffer, 0) == 6, "the peer's datagram only");
#ifdef XTP
    /* Linux would also release the port, which was not bound by its number. */
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    check(connect(fd, &none, sizeof none) == 0, "connect to AF_UNSPEC");
    check(sendto(other_fd, "hello", 5, 0, (struct sockaddr *)&own, sizeof own) == 5, "sendto");
    /* The first datagram of the other socket may have been in flight until now. */
    ssize_t got;
    do {
        await_readable(fd);
        got = recv(fd, buffer, sizeof buffer, 0);
    } while (got == 4);
    check(got == 5, "datagrams of any peer again");
#endif
    check(close(other_fd) == 0, "close");
}

static void test_options(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    check(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == KIND, "SO_TYPE");
    check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == 0, "SO_ERROR");
    check(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len) == 0 && value == FAMILY, "SO_DOMAIN");
    check(listen(fd, 1) < 0 && errno == EOPNOTSUPP, "listen on a datagram socket");
    static char oversized[70000];
    check(send(fd, oversized, sizeof oversized, 0) < 0
              && (errno == EMSGSIZE || errno == EDESTADDRREQ), "EMSGSIZE");
}

static void run_client(int port)
{
    struct sockaddr_in server = loopback(port), own;
    int fd = bound_socket(&own);
    test_options(fd);
    test_sendto(fd, server);
    test_most_parts(fd, server);
    test_flags(fd, server);
    test_iovecs(fd, server);
    test_peer_filter(fd, own);
    check(sendto(fd, "end", 3, 0, (struct sockaddr *)&server, sizeof server) == 3, "sendto");
    await_readable(fd);
    char buffer[8];
    check(recv(fd, buffer, sizeof buffer, 0) == 3, "the end");
    check(close(fd) == 0, "close");
}

int main(void)
{
    int ports[2];
    check(pipe(ports) == 0, "pipe");
    pid_t child = fork();
    check(child >= 0, "fork");
    struct sockaddr_in address;
    if (child == 0) {
        int fd = bound_socket(&address), port = ntohs(address.sin_port);
        check(write(ports[1], &port, sizeof port) == sizeof port, "write");
        serve(fd);
        return 0;
    }
    int port, status;
    check(read(ports[0], &port, sizeof port) == sizeof port, "a port");
    run_client(port);
    check(waitpid(child, &status, 0) == child && status == 0, "the server");
    return 0;
}
