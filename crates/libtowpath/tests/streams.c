/* Non-blocking byte streams, both ends in one process. With -DXTP it uses XTP, else TCP: the checks
 * are the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <netinet/tcp.h>
#ifdef XTP
#include "towpath.h"
#define FAMILY PF_XTP
#else
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#define FAMILY PF_INET
#endif

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

static struct sockaddr_in local_address(int fd)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    check(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
    return address;
}

static int int_option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    check(getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && len == sizeof value, "getsockopt");
    return value;
}

static int listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(FAMILY, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    check(fd >= 0, "socket");
    check(fcntl(fd, F_GETFD) & FD_CLOEXEC, "SOCK_CLOEXEC");
    check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(int_option(fd, SO_ACCEPTCONN) == 0, "it does not listen yet");
    check(listen(fd, 8) == 0, "listen");
    check(int_option(fd, SO_ACCEPTCONN) == 1, "it listens");
    errno = 0;
    check(accept(fd, NULL, NULL) < 0 && errno == EAGAIN, "an empty accept queue");
    return fd;
}

static int ready(int fd, int events)
{
    struct pollfd one = {.fd = fd, .events = events};
    check(poll(&one, 1, 40000) == 1, "poll");
    return one.revents;
}

/* Waits for a non-blocking connect, by poll, select or epoll. */
static void await_writable(int fd, int method)
{
    if (method == 0) {
        check(ready(fd, POLLOUT) & POLLOUT, "writable by poll");
    } else if (method == 1) {
        fd_set set;
        struct timeval limit = {.tv_sec = 40};
        FD_ZERO(&set);
        FD_SET(fd, &set);
        check(select(fd + 1, NULL, &set, NULL, &limit) == 1, "writable by select");
    } else {
        int epoll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.fd = fd};
        check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
        memset(&event, 0, sizeof event);
        do
            check(epoll_wait(epoll, &event, 1, 40000) == 1, "writable by epoll");
        while (!(event.events & EPOLLOUT));
        check(event.data.fd == fd, "epoll");
        close(epoll);
    }
}

static int connect_nonblocking(struct sockaddr_in to)
{
    int fd = socket(FAMILY, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(fd >= 0, "socket");
    errno = 0;
    check(connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno == EINPROGRESS,
          "EINPROGRESS");
    return fd;
}

static void connect_and_accept(int listener, int method, int *client, int *server)
{
    struct sockaddr_in to = local_address(listener), peer;
    socklen_t len = sizeof peer;
    int fd = connect_nonblocking(to);
    await_writable(fd, method);
    check(int_option(fd, SO_ERROR) == 0, "no error");
    check(getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_port == to.sin_port,
          "peer");
    check(ntohl(local_address(fd).sin_addr.s_addr) == INADDR_LOOPBACK, "the address it has");
    /* On Linux a second connect succeeds once, then gives EISCONN. */
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        check(errno == EISCONN, "EISCONN");
    check(ready(listener, POLLIN) & POLLIN, "a queued connection");
    *server = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK);
    check(*server >= 0, "accept4");
    check(peer.sin_port == local_address(fd).sin_port, "the same port on both sides");
    *client = fd;
}

static void test_exchange(int client, int server)
{
    char buffer[16];
    errno = 0;
    check(recv(server, buffer, sizeof buffer, 0) < 0 && errno == EAGAIN, "nothing yet");
    check(fcntl(server, F_SETFL, fcntl(server, F_GETFL) & ~O_NONBLOCK) == 0, "fcntl");
    errno = 0;
    check(recv(server, buffer, sizeof buffer, MSG_DONTWAIT) < 0 && errno == EAGAIN, "MSG_DONTWAIT");
    check(send(client, "abc", 3, MSG_NOSIGNAL) == 3, "send");
    check(recv(server, buffer, sizeof buffer, MSG_PEEK) > 0, "MSG_PEEK");
    check(recv(server, buffer, 3, MSG_WAITALL) == 3 && memcmp(buffer, "abc", 3) == 0,
          "MSG_WAITALL");
    check(shutdown(client, SHUT_WR) == 0, "shutdown");
    check(ready(server, POLLIN) & POLLIN, "the end of file");
    check(recv(server, buffer, sizeof buffer, 0) == 0, "end of file is no error");
    check(int_option(server, SO_ERROR) == 0, "end of file is no error");
    check(write(server, "still", 5) == 5, "the other direction");
    ready(client, POLLIN);
    check(read(client, buffer, sizeof buffer) == 5, "read");
    close(server);
    ready(client, POLLIN);
    check(read(client, buffer, sizeof buffer) == 0, "end of file");
    close(client);
}

/* One end resets the connection; the other gets ECONNRESET once. */
static void test_reset(int client, int server)
{
    char buffer[4];
    struct linger zero_linger = {.l_onoff = 1, .l_linger = 0};
    check(setsockopt(client, SOL_SOCKET, SO_LINGER, &zero_linger, sizeof zero_linger) == 0,
          "SO_LINGER");
    close(client);
    ready(server, POLLIN);
    errno = 0;
    check(recv(server, buffer, sizeof buffer, 0) < 0 && errno == ECONNRESET, "ECONNRESET");
    check(recv(server, buffer, sizeof buffer, 0) == 0, "then end of file");
    errno = 0;
    check(send(server, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE, "EPIPE");
    close(server);
}

/* A port without a listener: that of a connected socket. */
static void test_refused(int client)
{
    struct sockaddr_in unused = local_address(client);
    int fd = connect_nonblocking(unused);
    int events = ready(fd, POLLOUT);
    check(events & POLLOUT, "writable when it is refused");
    check(int_option(fd, SO_ERROR) == ECONNREFUSED, "SO_ERROR gives ECONNREFUSED");
    check(int_option(fd, SO_ERROR) == 0, "once");
    close(fd);
    fd = socket(FAMILY, SOCK_STREAM, 0);
    errno = 0;
    check(connect(fd, (struct sockaddr *)&unused, sizeof unused) < 0 && errno == ECONNREFUSED,
         "ECONNREFUSED");
    close(fd);
}

/* A port at which nothing is bound: its host says so. */
static void test_closed_port(void)
{
    struct sockaddr_in closed = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof closed;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    check(bind(fd, (struct sockaddr *)&closed, len) == 0
              && getsockname(fd, (struct sockaddr *)&closed, &len) == 0,
          "a free port");
    close(fd);
    fd = socket(FAMILY, SOCK_STREAM, 0);
    errno = 0;
    check(connect(fd, (struct sockaddr *)&closed, sizeof closed) < 0 && errno == ECONNREFUSED,
          "a closed port refuses");
    close(fd);
}

static void test_options(void)
{
    int fd = socket(FAMILY, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in none;
    socklen_t len = sizeof none;
    check(int_option(fd, SO_TYPE) == SOCK_STREAM && int_option(fd, SO_DOMAIN) == FAMILY,
          "SO_TYPE and SO_DOMAIN");
    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    on = 0;
    len = sizeof on;
    check(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len) == 0 && on == 1, "the stored value");
    len = sizeof none;
    errno = 0;
    check(getpeername(fd, (struct sockaddr *)&none, &len) < 0 && errno == ENOTCONN, "no peer");
    errno = 0;
    check(shutdown(fd, SHUT_WR) < 0 && errno == ENOTCONN, "nothing to shut down");
    check(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, 16) == 0,
          "SO_RCVTIMEO");
    close(fd);
}

int main(void)
{
    int client, server;
    signal(SIGPIPE, SIG_IGN);
    test_options();
    int listener = listening();
    for (int method = 0; method < 3; method++) {
        connect_and_accept(listener, method, &client, &server);
        test_exchange(client, server);
    }
    connect_and_accept(listener, 0, &client, &server);
    test_refused(client);
    test_closed_port();
    /* dup gives an equal descriptor. */
    int copy = dup(client);
    close(client);
    check(local_address(copy).sin_port != 0, "the copy's address");
    test_reset(copy, server);
    /* A closed port can be bound again; queued connections are gone. */
    struct sockaddr_in old = local_address(listener);
    close(listener);
    int on = 1, new_fd = -1;
    for (int tries = 0; tries < 2000 && new_fd < 0; tries++) {
        int fd = socket(FAMILY, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&old, sizeof old) == 0 && listen(fd, 1) == 0)
            new_fd = fd;
        else {
            close(fd);
            poll(NULL, 0, 20);
        }
    }
    check(new_fd >= 0, "the port again");
    close(new_fd);
    return 0;
}
