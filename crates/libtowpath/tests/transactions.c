/* Transactions: a request and a reply, each with end of stream. With -DXTP the request opens the
 * association, as in T/TCP; TCP needs three calls for that. */
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

static void check(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static ssize_t read_all(int fd, char *buffer, size_t len)
{
    size_t at = 0;
    for (;;) {
        ssize_t got = recv(fd, buffer + at, len - at, 0);
        check(got >= 0, "recv");
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
        check(fd >= 0, "accept");
        ssize_t len = read_all(fd, request, sizeof request);
        for (ssize_t at = 0; at < len; at++)
            request[at] ^= 1;
        check(send(fd, request, len, MSG_EOF) == len, "send");
        close(fd);
    }
}

static void run_transaction(struct sockaddr_in server, int number)
{
    static char request[LONGEST], reply[LONGEST + 1];
    size_t len = number * (LONGEST / COUNT) + 1;
    for (size_t at = 0; at < len; at++)
        request[at] = at * 7 + number;
    int fd = socket(FAMILY, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
#ifdef XTP
    /* An iovec may be NULL with length 0. */
    struct iovec parts[3] = {{NULL, 0}, {request, len / 2}, {request + len / 2, len - len / 2}};
    struct msghdr message = {.msg_name = &server, .msg_namelen = sizeof server,
                             .msg_iov = parts, .msg_iovlen = 3};
    struct sockaddr *to = (struct sockaddr *)&server;
    ssize_t sent = number % 2 ? sendmsg(fd, &message, MSG_EOF)
                              : sendto(fd, request, len, MSG_EOF, to, sizeof server);
    check(sent == (ssize_t)len, "a request");
    errno = 0;
    check(send(fd, "more", 4, MSG_NOSIGNAL) < 0 && errno == EPIPE, "EPIPE after MSG_EOF");
#else
    check(connect(fd, (struct sockaddr *)&server, sizeof server) == 0, "connect");
    check(send(fd, request, len, 0) == (ssize_t)len, "send");
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
#endif
    check(read_all(fd, reply, sizeof reply) == (ssize_t)len, "a whole reply");
    for (size_t at = 0; at < len; at++)
        check(reply[at] == (char)(request[at] ^ 1), "a right reply");
    close(fd);
}

int main(void)
{
    int names[2];
    check(pipe(names) == 0, "pipe");
    pid_t child = fork();
    check(child >= 0, "fork");
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (child == 0) {
        socklen_t len = sizeof address;
        int fd = socket(FAMILY, SOCK_STREAM, 0);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
        check(listen(fd, 16) == 0, "listen");
        check(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
        check(write(names[1], &address, sizeof address) == sizeof address, "write");
        serve(fd);
        return 0;
    }
    int status;
    check(read(names[0], &address, sizeof address) == sizeof address, "an address");
    for (int number = 0; number < COUNT; number++)
        run_transaction(address, number);
    check(waitpid(child, &status, 0) == child && status == 0, "the server");
    return 0;
}
