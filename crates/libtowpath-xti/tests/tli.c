/* A program of System V, with TLI's header: user data with a connect and a disconnect, over ticots. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tiuser.h>
#include <unistd.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, t_errlist[t_errno]);                   \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

static void client(struct t_bind *server)
{
    struct t_info info;
    int fd = t_open("/dev/ticots", O_RDWR, &info);
    CHECK(fd >= 0 && info.servtype == T_COTS && t_bind(fd, NULL, NULL) == 0);
    struct t_call *call = t_alloc(fd, T_CALL, T_ALL);
    CHECK(call && call->udata.maxlen >= 5);
    memcpy(call->addr.buf, server->addr.buf, server->addr.len);
    call->addr.len = server->addr.len;
    memcpy(call->udata.buf, "hello", call->udata.len = 5);
    CHECK(t_connect(fd, call, NULL) == 0);
    CHECK(t_sndrel(fd) == -1 && t_errno == TNOTSUPPORT);
    CHECK(t_snd(fd, "half ", 5, T_MORE) == 5 && t_snd(fd, "whole", 5, 0) == 5);
    struct t_discon *why = t_alloc(fd, T_DIS, T_ALL);
    char octet;
    CHECK(t_rcv(fd, &octet, 1, NULL) == -1 && t_errno == TLOOK && t_look(fd) == T_DISCONNECT);
    CHECK(why && t_rcvdis(fd, why) == 0 && why->udata.len == 4 && memcmp(why->udata.buf, "done", 4) == 0);
    CHECK(t_free(call, T_CALL) == 0 && t_free(why, T_DIS) == 0 && t_close(fd) == 0);
    _exit(0);
}

int main(void)
{
    alarm(60);
    int listener = t_open("/dev/ticots", O_RDWR, NULL);
    CHECK(listener >= 0);
    struct t_bind *bind = t_alloc(listener, T_BIND, T_ALL);
    CHECK(bind);
    bind->qlen = 1;
    CHECK(t_bind(listener, bind, bind) == 0 && bind->addr.len > 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        client(bind);
    }
    struct t_call *call = t_alloc(listener, T_CALL, T_ALL);
    CHECK(call && t_listen(listener, call) == 0);
    CHECK(call->udata.len == 5 && memcmp(call->udata.buf, "hello", 5) == 0);
    int server = t_open("/dev/ticots", O_RDWR, NULL);
    call->udata.len = 0;
    CHECK(server >= 0 && t_accept(listener, server, call) == 0);
    char text[16];
    int flags = 0, len = 0;
    do {
        int got = t_rcv(server, text + len, 3, &flags);
        CHECK(got > 0);
        len += got;
    } while (flags & T_MORE);
    CHECK(len == 10 && memcmp(text, "half whole", 10) == 0);
    memcpy(call->udata.buf, "done", call->udata.len = 4);
    CHECK(t_snddis(server, call) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(t_close(server) == 0 && t_close(listener) == 0);
    return 0;
}
