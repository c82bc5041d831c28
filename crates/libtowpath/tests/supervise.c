/* A server that decides about its connections, and options of connected streams. */
#include "towpath.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void check(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static int set(int fd, const char *option)
{
    return setsockopt(fd, SOL_XTP, XTP_OPTION, option, strlen(option));
}

static int connected(in_port_t port, const char *option)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port};
    int fd = socket(PF_XTP, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(fd >= 0, "socket");
    if (option)
        check(set(fd, option) == 0, option);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static void run_client(in_port_t port)
{
    char word[8] = {0}, options[100] = {0};
    socklen_t len = sizeof options;
    int fd = connected(port, "sort=3");
    check(fd >= 0, "the first is admitted");
    check(set(fd, "output_rate=80mbit") == 0, "a rate at run time");
    check(set(fd, "sort=off") == 0, "a priority at run time");
    check(set(fd, "queue=32k") < 0 && errno == EINVAL, "no queue at run time");
    check(getsockopt(fd, SOL_XTP, XTP_OPTION, options, &len) == 0, "options");
    check(strstr(options, "output_rate=80mbit") != NULL, options);
    check(write(fd, "hello", 5) == 5, "write");
    check(read(fd, word, 7) == 7 && !strcmp(word, "welcome"), "read");
    close(fd);
    fd = connected(port, NULL);
    check(fd < 0 && errno == ECONNREFUSED, "the second is refused");
    fd = connected(port, "supervise=on");
    check(fd < 0 && errno == EINVAL, "only a listener decides");
    exit(0);
}

static void serve(int listener)
{
    char word[8] = {0};
    struct xtp_opening opening;
    socklen_t len = sizeof opening;
    int none = XTP_NO_RESOURCE, wrong = 99;
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    check(getsockopt(fd, SOL_XTP, XTP_OPENING, &opening, &len) == 0, "an opening");
    check(len == sizeof opening && !strcmp(opening.service, "stream"), opening.service);
    check(opening.sort == 3 && opening.reserves == 0, "what the peer asks for");
    check(setsockopt(fd, SOL_XTP, XTP_ADMIT, NULL, 0) == 0, "admit");
    check(setsockopt(fd, SOL_XTP, XTP_ADMIT, NULL, 0) < 0 && errno == EINVAL, "once");
    check(getsockopt(fd, SOL_XTP, XTP_OPENING, &opening, &len) < 0 && errno == EINVAL, "decided");
    check(recv(fd, word, 5, MSG_WAITALL) == 5 && !strcmp(word, "hello"), "recv");
    check(write(fd, "welcome", 7) == 7, "write");
    check(read(fd, word, 1) == 0, "the end");
    close(fd);
    fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    check(setsockopt(fd, SOL_XTP, XTP_REFUSE, &wrong, sizeof wrong) < 0, "no such reason");
    check(setsockopt(fd, SOL_XTP, XTP_REFUSE, &none, sizeof none) == 0, "refuse");
    close(fd);
}

int main(void)
{
    int ports[2], state;
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof any;
    check(pipe(ports) == 0, "pipe");
    pid_t client = fork();
    check(client >= 0, "fork");
    if (client == 0) {
        in_port_t port;
        check(read(ports[0], &port, sizeof port) == sizeof port, "a port");
        run_client(port);
    }
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(PF_XTP, SOCK_STREAM, 0);
    check(listener >= 0, "socket");
    check(set(listener, "supervise=perhaps") < 0 && errno == EINVAL, "no such value");
    check(set(listener, "supervise=on") == 0, "supervise");
    check(bind(listener, (struct sockaddr *)&any, sizeof any) == 0, "bind");
    check(listen(listener, 5) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&any, &len) == 0, "name");
    check(write(ports[1], &any.sin_port, sizeof any.sin_port) == sizeof any.sin_port, "write");
    serve(listener);
    check(waitpid(client, &state, 0) == client && state == 0, "the client");
    return 0;
}
