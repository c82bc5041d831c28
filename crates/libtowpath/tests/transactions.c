/* Transactions: a request, a reply, and their ends. With -DXTP the request opens the association, as
 * in T/TCP; TCP takes three calls for it. */
#include <errno.h>
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
#define MSG_EOF 0
#endif

#define COUNT 50
#define LONGEST 30000

static void need(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static ssize_t all(int fd, char *buffer, size_t len)
{
    size_t at = 0;
    for (;;) {
        ssize_t got = recv(fd, buffer + at, len - at, 0);
        need(got >= 0, "recv");
        if (got == 0)
            return at;
        at += got;
    }
}

static void serve(int listener)
{
    static char request[LONGEST + 1];
    for (int number = 0; number < COUNT; number++) {
        int fd = accept(listener, NULL, NULL);
        need(fd >= 0, "accept");
        ssize_t len = all(fd, request, sizeof request);
        for (ssize_t at = 0; at < len; at++)
            request[at] ^= 1;
        need(send(fd, request, len, MSG_EOF) == len, "send");
        close(fd);
    }
}

static void ask(struct sockaddr_in server, int number)
{
    static char request[LONGEST], reply[LONGEST + 1];
    size_t len = number * (LONGEST / COUNT) + 1;
    for (size_t at = 0; at < len; at++)
        request[at] = at * 7 + number;
    int fd = socket(FAMILY, SOCK_STREAM, 0);
    need(fd >= 0, "socket");
#ifdef XTP
    ssize_t sent = sendto(fd, request, len, MSG_EOF, (struct sockaddr *)&server, sizeof server);
    need(sent == (ssize_t)len, "sendto");
    errno = 0;
    need(send(fd, "more", 4, MSG_NOSIGNAL) < 0 && errno == EPIPE, "that was all");
#else
    need(connect(fd, (struct sockaddr *)&server, sizeof server) == 0, "connect");
    need(send(fd, request, len, 0) == (ssize_t)len, "send");
    need(shutdown(fd, SHUT_WR) == 0, "shutdown");
#endif
    need(all(fd, reply, sizeof reply) == (ssize_t)len, "a whole reply");
    for (size_t at = 0; at < len; at++)
        need(reply[at] == (char)(request[at] ^ 1), "a right reply");
    close(fd);
}

int main(void)
{
    int names[2];
    need(pipe(names) == 0, "pipe");
    pid_t child = fork();
    need(child >= 0, "fork");
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (child == 0) {
        socklen_t len = sizeof address;
        int fd = socket(FAMILY, SOCK_STREAM, 0);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        need(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
        need(listen(fd, 16) == 0, "listen");
        need(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
        need(write(names[1], &address, sizeof address) == sizeof address, "write");
        serve(fd);
        return 0;
    }
    int status;
    need(read(names[0], &address, sizeof address) == sizeof address, "an address");
    for (int number = 0; number < COUNT; number++)
        ask(address, number);
    need(waitpid(child, &status, 0) == child && status == 0, "the server");
    return 0;
}
