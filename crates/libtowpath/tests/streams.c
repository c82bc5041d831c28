/* What programs that do not wait do with byte streams, on both ends in one process. With -DXTP it
 * speaks XTP, and TCP without: what is asked of both is the same. */
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

static void need(int holds, const char *what)
{
    if (!holds)
        fail(what);
}

static struct sockaddr_in of(int fd)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    need(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
    return address;
}

static int number(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    need(getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && len == sizeof value, "getsockopt");
    return value;
}

static int listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(FAMILY, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    need(fd >= 0, "socket");
    need(fcntl(fd, F_GETFD) & FD_CLOEXEC, "SOCK_CLOEXEC");
    need(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    need(number(fd, SO_ACCEPTCONN) == 0, "it does not listen yet");
    need(listen(fd, 8) == 0, "listen");
    need(number(fd, SO_ACCEPTCONN) == 1, "it listens");
    errno = 0;
    need(accept(fd, NULL, NULL) < 0 && errno == EAGAIN, "nobody is there yet");
    return fd;
}

static int ready(int fd, int events)
{
    struct pollfd one = {.fd = fd, .events = events};
    need(poll(&one, 1, 40000) == 1, "poll");
    return one.revents;
}

/* A connection that nobody waited for: how it came is asked by poll, select or epoll. */
static void await_writable(int fd, int way)
{
    if (way == 0) {
        need(ready(fd, POLLOUT) & POLLOUT, "writable by poll");
    } else if (way == 1) {
        fd_set set;
        struct timeval limit = {.tv_sec = 40};
        FD_ZERO(&set);
        FD_SET(fd, &set);
        need(select(fd + 1, NULL, &set, NULL, &limit) == 1, "writable by select");
    } else {
        int group = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.fd = fd};
        need(epoll_ctl(group, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
        memset(&event, 0, sizeof event);
        do
            need(epoll_wait(group, &event, 1, 40000) == 1, "writable by epoll");
        while (!(event.events & EPOLLOUT));
        need(event.data.fd == fd, "epoll");
        close(group);
    }
}

static int begin(struct sockaddr_in to)
{
    int fd = socket(FAMILY, SOCK_STREAM | SOCK_NONBLOCK, 0);
    need(fd >= 0, "socket");
    errno = 0;
    need(connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno == EINPROGRESS, "EINPROGRESS");
    return fd;
}

static void connected_later(int listener, int way, int *near, int *far)
{
    struct sockaddr_in to = of(listener), peer;
    socklen_t len = sizeof peer;
    int fd = begin(to);
    await_writable(fd, way);
    need(number(fd, SO_ERROR) == 0, "no error");
    need(getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_port == to.sin_port, "peer");
    need(ntohl(of(fd).sin_addr.s_addr) == INADDR_LOOPBACK, "the address it has");
    /* Linux says so once more, then that it is connected. */
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        need(errno == EISCONN, "EISCONN");
    need(ready(listener, POLLIN) & POLLIN, "somebody is there");
    *far = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK);
    need(*far >= 0, "accept4");
    need(peer.sin_port == of(fd).sin_port, "the same port on both sides");
    *near = fd;
}

static void exchange(int near, int far)
{
    char buffer[16];
    errno = 0;
    need(recv(far, buffer, sizeof buffer, 0) < 0 && errno == EAGAIN, "nothing yet");
    need(fcntl(far, F_SETFL, fcntl(far, F_GETFL) & ~O_NONBLOCK) == 0, "fcntl");
    errno = 0;
    need(recv(far, buffer, sizeof buffer, MSG_DONTWAIT) < 0 && errno == EAGAIN, "MSG_DONTWAIT");
    need(send(near, "abc", 3, MSG_NOSIGNAL) == 3, "send");
    need(recv(far, buffer, sizeof buffer, MSG_PEEK) > 0, "MSG_PEEK");
    need(recv(far, buffer, 3, MSG_WAITALL) == 3 && memcmp(buffer, "abc", 3) == 0, "MSG_WAITALL");
    need(shutdown(near, SHUT_WR) == 0, "shutdown");
    need(ready(far, POLLIN) & POLLIN, "its end");
    need(recv(far, buffer, sizeof buffer, 0) == 0, "an end is no error");
    need(number(far, SO_ERROR) == 0, "an end is no error");
    need(write(far, "still", 5) == 5, "the other direction");
    ready(near, POLLIN);
    need(read(near, buffer, sizeof buffer) == 5, "read");
    close(far);
    ready(near, POLLIN);
    need(read(near, buffer, sizeof buffer) == 0, "both ends");
    close(near);
}

/* One end is broken by its owner; the other is told once. */
static void break_off(int near, int far)
{
    char buffer[4];
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    need(setsockopt(near, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0, "SO_LINGER");
    close(near);
    ready(far, POLLIN);
    errno = 0;
    need(recv(far, buffer, sizeof buffer, 0) < 0 && errno == ECONNRESET, "ECONNRESET");
    need(recv(far, buffer, sizeof buffer, 0) == 0, "then the end");
    errno = 0;
    need(send(far, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE, "EPIPE");
    close(far);
}

/* A port where nobody listens: that of a connection. */
static void refused(int near)
{
    struct sockaddr_in nobody = of(near);
    int fd = begin(nobody);
    int events = ready(fd, POLLOUT);
    need(events & POLLOUT, "writable when it is refused");
    need(number(fd, SO_ERROR) == ECONNREFUSED, "SO_ERROR tells ECONNREFUSED");
    need(number(fd, SO_ERROR) == 0, "once");
    close(fd);
    fd = socket(FAMILY, SOCK_STREAM, 0);
    errno = 0;
    need(connect(fd, (struct sockaddr *)&nobody, sizeof nobody) < 0 && errno == ECONNREFUSED,
         "ECONNREFUSED");
    close(fd);
}

static void options(void)
{
    int fd = socket(FAMILY, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in none;
    socklen_t len = sizeof none;
    need(number(fd, SO_TYPE) == SOCK_STREAM && number(fd, SO_DOMAIN) == FAMILY, "what it is");
    need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    on = 0;
    len = sizeof on;
    need(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len) == 0 && on == 1, "it is remembered");
    len = sizeof none;
    errno = 0;
    need(getpeername(fd, (struct sockaddr *)&none, &len) < 0 && errno == ENOTCONN, "no peer");
    errno = 0;
    need(shutdown(fd, SHUT_WR) < 0 && errno == ENOTCONN, "nothing to shut down");
    need(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, 16) == 0, "a limit");
    close(fd);
}

int main(void)
{
    int near, far;
    signal(SIGPIPE, SIG_IGN);
    options();
    int listener = listening();
    for (int way = 0; way < 3; way++) {
        connected_later(listener, way, &near, &far);
        exchange(near, far);
    }
    connected_later(listener, 0, &near, &far);
    refused(near);
    /* A descriptor is as good as the one it was copied from. */
    int copy = dup(near);
    close(near);
    need(of(copy).sin_port != 0, "a copy's name");
    break_off(copy, far);
    /* A port that was closed can be had again; what waited there is gone. */
    struct sockaddr_in old = of(listener);
    close(listener);
    int on = 1, again = -1;
    for (int tries = 0; tries < 2000 && again < 0; tries++) {
        int fd = socket(FAMILY, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&old, sizeof old) == 0 && listen(fd, 1) == 0)
            again = fd;
        else {
            close(fd);
            poll(NULL, 0, 20);
        }
    }
    need(again >= 0, "the port again");
    close(again);
    return 0;
}
