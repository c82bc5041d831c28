/* An echo server that forks for each connection, and a client that sends its standard input and
 * prints the echo. With -DXTP it uses XTP, else TCP: nothing else differs. With -DV6 the addresses are
 * IPv6's. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#ifdef XTP
#include "towpath.h"
#define FAMILY PF_XTP
#else
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#define FAMILY PF_INET
#endif

#ifdef V6
#define ADDRESS struct sockaddr_in6
#define PORT(address) (address).sin6_port
#define SET_LOOPBACK(address) \
    ((address).sin6_family = AF_INET6, (address).sin6_addr = in6addr_loopback)
#define IS_LOOPBACK(address) IN6_IS_ADDR_LOOPBACK(&(address).sin6_addr)
#else
#define ADDRESS struct sockaddr_in
#define PORT(address) (address).sin_port
#define SET_LOOPBACK(address) \
    ((address).sin_family = AF_INET, (address).sin_addr.s_addr = htonl(INADDR_LOOPBACK))
#define IS_LOOPBACK(address) (ntohl((address).sin_addr.s_addr) == INADDR_LOOPBACK)
#endif

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, bytes, len);
        if (done < 0)
            fail("write");
        bytes += done;
        len -= done;
    }
}

static void echo(int fd)
{
    char buffer[4096];
    ssize_t len;
    while ((len = read(fd, buffer, sizeof buffer)) > 0)
        write_all(fd, buffer, len);
    if (len < 0)
        fail("read");
    shutdown(fd, SHUT_WR);
}

static int serve(int count)
{
    ADDRESS address = {0};
    socklen_t len = sizeof address;
    int on = 1, fd = socket(FAMILY, SOCK_STREAM, 0);
    if (fd < 0)
        fail("socket");
    SET_LOOPBACK(address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    if (listen(fd, 16) < 0)
        fail("listen");
    if (getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        fail("getsockname");
    printf("%d\n", ntohs(PORT(address)));
    fflush(stdout);
    for (int number = 0; number < count; number++) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 20000) != 1)
            fail("poll");
        ADDRESS peer;
        socklen_t peer_len = sizeof peer;
        int connection = accept(fd, (struct sockaddr *)&peer, &peer_len);
        if (connection < 0)
            fail("accept");
        if (!IS_LOOPBACK(peer))
            fail("the peer's address");
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            close(fd);
            echo(connection);
            exit(0);
        }
        close(connection);
    }
    close(fd);
    int failed = 0;
    for (int number = 0; number < count; number++) {
        int status;
        wait(&status);
        failed |= status != 0;
    }
    return failed;
}

static int run_client(int port)
{
    ADDRESS address = {0};
    static char buffer[65536];
    int fd = socket(FAMILY, SOCK_STREAM, 0);
    if (fd < 0)
        fail("socket");
#ifdef XTP
    if (setsockopt(fd, SOL_XTP, XTP_OPTION, "queue=64k", 9) < 0)
        fail("setsockopt");
    if (setsockopt(fd, SOL_XTP, XTP_OPTION, "colour=red", 10) == 0 || errno != EINVAL)
        fail("an unknown option");
#endif
    SET_LOOPBACK(address);
    PORT(address) = htons(port);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    int sends = 1;
    for (;;) {
        struct pollfd ready[2] = {
            {.fd = fd, .events = POLLIN},
            {.fd = sends ? 0 : -1, .events = POLLIN},
        };
        if (poll(ready, 2, 20000) < 1)
            fail("poll");
        if (ready[1].revents) {
            /* Small reads, so that echo and input alternate and no buffer fills up. */
            ssize_t len = read(0, buffer, 8192);
            if (len < 0)
                fail("read");
            if (len > 0)
                write_all(fd, buffer, len);
            else {
                shutdown(fd, SHUT_WR);
                sends = 0;
            }
        }
        if (ready[0].revents) {
            ssize_t len = recv(fd, buffer, sizeof buffer, 0);
            if (len < 0)
                fail("recv");
            if (len == 0)
                break;
            write_all(1, buffer, len);
        }
    }
    close(fd);
    return 0;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "serve") == 0)
        return serve(atoi(words[2]));
    if (count == 3 && strcmp(words[1], "client") == 0)
        return run_client(atoi(words[2]));
    fprintf(stderr, "usage: echo serve CONNECTIONS | echo client PORT\n");
    return 2;
}
