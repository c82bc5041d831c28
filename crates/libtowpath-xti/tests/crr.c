/* Connect, request, response: the calls of netperf's XTI_TCP_CRR, in their order, which its command line has no name for.
 * Each transaction has a connection, which both ends release. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <xti.h>

enum { TRANSACTIONS = 200, REQUEST = 100, RESPONSE = 3000 };

static void check(int is_true, const char *what)
{
    if (!is_true) {
        t_error(what);
        exit(1);
    }
}

/* A call with room for an address. */
static struct t_call *room_for_call(int fd)
{
    struct t_call *call = (struct t_call *)t_alloc(fd, T_CALL, T_ADDR);
    check(call != NULL, "t_alloc");
    return call;
}

static void receive(int fd, int len)
{
    char buffer[RESPONSE];
    for (int done = 0; done < len;) {
        int flags = 0, more = t_rcv(fd, buffer, len - done, &flags);
        check(more > 0, "t_rcv");
        done += more;
    }
}

/* The peer has released, behind all it sent. */
static void receive_release(int fd)
{
    char octet;
    int flags = 0;
    check(t_rcv(fd, &octet, 1, &flags) < 0 && t_errno == TLOOK, "t_rcv of a release");
    check(t_look(fd) == T_ORDREL && t_rcvrel(fd) == 0, "t_rcvrel");
}

static void *serve(void *listener)
{
    static char response[RESPONSE];
    int fd = *(int *)listener;
    struct t_call *call = room_for_call(fd);
    for (int count = 0; count < TRANSACTIONS; count++) {
        check(t_listen(fd, call) == 0, "t_listen");
        int accepted = t_open("/dev/tcp", O_RDWR, NULL);
        check(accepted >= 0 && t_bind(accepted, NULL, NULL) == 0, "t_bind");
        check(t_accept(fd, accepted, call) == 0, "t_accept");
        receive(accepted, REQUEST);
        check(t_snd(accepted, response, RESPONSE, 0) == RESPONSE, "t_snd of a response");
        receive_release(accepted);
        check(t_sndrel(accepted) == 0 && t_close(accepted) == 0, "t_sndrel of the server");
    }
    t_free((char *)call, T_CALL);
    return NULL;
}

int main(void)
{
    static char request[REQUEST];
    int listener = t_open("/dev/tcp", O_RDWR, NULL);
    check(listener >= 0, "t_open");
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in at = {0};
    struct t_bind wanted = {.addr = {.len = sizeof(any), .buf = (char *)&any}, .qlen = 5};
    struct t_bind bound = {.addr = {.maxlen = sizeof(at), .buf = (char *)&at}};
    check(t_bind(listener, &wanted, &bound) == 0 && bound.qlen > 0, "t_bind with a queue");
    pthread_t server;
    check(pthread_create(&server, NULL, serve, &listener) == 0, "a thread");
    for (int count = 0; count < TRANSACTIONS; count++) {
        int fd = t_open("/dev/tcp", O_RDWR, NULL);
        check(fd >= 0 && t_bind(fd, NULL, NULL) == 0, "t_bind");
        struct t_call *call = room_for_call(fd);
        memcpy(call->addr.buf, &at, sizeof(at));
        call->addr.len = sizeof(at);
        check(t_connect(fd, call, NULL) == 0, "t_connect");
        check(t_snd(fd, request, REQUEST, 0) == REQUEST, "t_snd of a request");
        receive(fd, RESPONSE);
        check(t_sndrel(fd) == 0, "t_sndrel");
        receive_release(fd);
        t_free((char *)call, T_CALL);
        check(t_close(fd) == 0, "t_close");
    }
    pthread_join(server, NULL);
    check(t_close(listener) == 0, "t_close of the listener");
    return 0;
}
