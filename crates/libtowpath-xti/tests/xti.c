/* Every call of xti.h, over TCP, UDP and the loop-back providers, and the errors that programs meet. */
#include <errno.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xti.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s, t_errno %d %s, errno %d\n", __FILE__, __LINE__, #condition, t_errno,          \
                    t_strerror(t_errno), errno);                                                                      \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#define FAILS(call, number) CHECK((call) == -1 && t_errno == (number))

static const char *tcp_like[] = {"/dev/unix_cotsord", "/dev/tcp", "/dev/ticotsord", "/dev/xtp"};

/* An address of any port of the loopback, or none for providers within the host, which choose names. */
static void any(struct netbuf *address, struct sockaddr_in *in, const char *device)
{
    memset(in, 0, sizeof *in);
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int is_inet = strncmp(device, "/dev/tic", 8) != 0 && strncmp(device, "/dev/unix", 9) != 0;
    address->buf = in;
    address->maxlen = sizeof *in;
    address->len = is_inet ? sizeof *in : 0;
}

static int bound(const char *device, unsigned queue_len, char *address, unsigned *len)
{
    int fd = t_open(device, O_RDWR, NULL);
    CHECK(fd >= 0);
    struct sockaddr_in in;
    struct t_bind request = {.qlen = queue_len}, answer = {.addr = {.maxlen = 128, .buf = address}};
    any(&request.addr, &in, device);
    CHECK(t_bind(fd, &request, &answer) == 0);
    CHECK(answer.qlen == queue_len && answer.addr.len > 0);
    *len = answer.addr.len;
    return fd;
}

static int readable(int fd, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int ready;
    while ((ready = poll(&poll_fd, 1, timeout_ms)) == -1 && errno == EINTR) {
    }
    return ready == 1 && (poll_fd.revents & POLLIN);
}

/* Waits for an event by poll, which may wake for one that has come only in part. */
static int event_after_poll(int fd)
{
    int event = 0;
    while (event == 0) {
        CHECK(readable(fd, 10000));
        event = t_look(fd);
        CHECK(event >= 0);
    }
    return event;
}

/* A client, connected to `address`, and the server's end of the connection. */
struct pair {
    int client, server, listener;
};

struct connecting {
    int fd;
    struct t_call call;
};

static void *connect_thread(void *argument)
{
    struct connecting *connecting = argument;
    CHECK(t_connect(connecting->fd, &connecting->call, NULL) == 0);
    return NULL;
}

static struct pair connected(const char *device)
{
    struct pair pair;
    char address[128], from[128];
    unsigned len;
    pair.listener = bound(device, 2, address, &len);
    pair.client = t_open(device, O_RDWR, NULL);
    CHECK(pair.client >= 0 && t_bind(pair.client, NULL, NULL) == 0);
    CHECK(!readable(pair.listener, 0) && t_look(pair.listener) == 0);

    struct connecting connecting = {pair.client, {.addr = {.len = len, .buf = address}}};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, connect_thread, &connecting) == 0);
    CHECK(event_after_poll(pair.listener) == T_LISTEN);
    struct t_call call = {.addr = {.maxlen = sizeof from, .buf = from}};
    CHECK(t_listen(pair.listener, &call) == 0 && t_getstate(pair.listener) == T_INCON);
    CHECK(call.addr.len > 0);
    pair.server = t_open(device, O_RDWR, NULL);
    CHECK(pair.server >= 0 && t_accept(pair.listener, pair.server, &call) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(t_getstate(pair.listener) == T_IDLE && t_getstate(pair.server) == T_DATAXFER);
    CHECK(t_sync(pair.client) == T_DATAXFER);
    return pair;
}

static void closed(struct pair pair)
{
    CHECK(t_close(pair.client) == 0 && t_close(pair.server) == 0 && t_close(pair.listener) == 0);
    FAILS(t_close(pair.client), TBADF);
}

static void data_go_both_ways(const char *device)
{
    struct pair pair = connected(device);
    char part[4];
    int flags = -1, got = 0;
    CHECK(!readable(pair.server, 0));
    CHECK(t_snd(pair.client, "hello", 5, 0) == 5);
    CHECK(event_after_poll(pair.server) == T_DATA);
    CHECK(t_rcv(pair.server, part, 4, &flags) == 4 && memcmp(part, "hell", 4) == 0);
    /* The rest is in the stream, where the kernel's socket has nothing any more. */
    CHECK(readable(pair.server, 0));
    CHECK(t_rcv(pair.server, part, 4, &flags) == 1 && part[0] == 'o' && !(flags & T_MORE));
    CHECK(!readable(pair.server, 0));

    struct t_iovec out[2] = {{"ab", 2}, {"cde", 3}};
    CHECK(t_sndv(pair.server, out, 2, T_PUSH) == 5);
    char one[2], two[9];
    struct t_iovec in[2] = {{one, 2}, {two, 9}};
    while (got < 5) {
        int len = t_rcvv(pair.client, in, 2, &flags);
        CHECK(len > 0);
        got += len;
    }
    CHECK(memcmp(one, "ab", 2) == 0 && memcmp(two, "cde", 3) == 0);
    FAILS(t_sndv(pair.server, out, 17, 0), TBADDATA);
    FAILS(t_snd(pair.server, "x", 1, 0x4000), TBADFLAG);
    CHECK(t_rcv(pair.client, NULL, 0, &flags) == 0);

    /* Orderly release, both ways. */
    FAILS(t_rcvrel(pair.server), TNOREL);
    CHECK(t_sndrel(pair.client) == 0 && t_getstate(pair.client) == T_OUTREL);
    FAILS(t_snd(pair.client, "x", 1, 0), TOUTSTATE);
    CHECK(event_after_poll(pair.server) == T_ORDREL);
    FAILS(t_rcv(pair.server, part, 4, &flags), TLOOK);
    CHECK(t_rcvrel(pair.server) == 0 && t_getstate(pair.server) == T_INREL);
    CHECK(t_snd(pair.server, "bye", 3, 0) == 3 && t_sndrel(pair.server) == 0);
    CHECK(t_rcv(pair.client, part, 4, &flags) == 3 && memcmp(part, "bye", 3) == 0);
    CHECK(readable(pair.client, 10000) && t_rcvrel(pair.client) == 0);
    CHECK(t_getstate(pair.client) == T_IDLE && t_getstate(pair.server) == T_IDLE);
    closed(pair);
}

static void non_blocking_calls_say_so(const char *device)
{
    struct pair pair = connected(device);
    static char block[65536];
    int flags, sent, total = 0, received = 0;
    CHECK(fcntl(pair.client, F_SETFL, O_NONBLOCK) == 0 && fcntl(pair.server, F_SETFL, O_NONBLOCK) == 0);
    FAILS(t_rcv(pair.server, block, sizeof block, &flags), TNODATA);
    for (int turn = 0; turn < 10000 && (sent = t_snd(pair.client, block, sizeof block, 0)) > 0; turn++) {
        total += sent;
    }
    CHECK(sent == -1 && t_errno == TFLOW && total > 0 && t_look(pair.client) == 0);
    while (received < total) {
        int len = t_rcv(pair.server, block, sizeof block, &flags);
        if (len == -1) {
            CHECK(t_errno == TNODATA && readable(pair.server, 10000));
        } else {
            received += len;
        }
    }
    int event;
    while ((event = t_look(pair.client)) == 0) {
        struct pollfd room = {.fd = pair.client, .events = POLLOUT};
        CHECK(poll(&room, 1, 10000) == 1 && (room.revents & POLLOUT));
    }
    CHECK(event == T_GODATA && t_look(pair.client) == 0);
    closed(pair);
}

static void disconnect_is_told(const char *device)
{
    struct pair pair = connected(device);
    char octet;
    int flags;
    struct t_discon why = {{0, 0, NULL}, -1, -1};
    FAILS(t_rcvdis(pair.server, &why), TNODIS);
    CHECK(t_snddis(pair.client, NULL) == 0 && t_getstate(pair.client) == T_IDLE);
    CHECK(event_after_poll(pair.server) == T_DISCONNECT);
    FAILS(t_rcv(pair.server, &octet, 1, &flags), TLOOK);
    CHECK(t_rcvdis(pair.server, &why) == 0 && why.reason > 0 && t_getstate(pair.server) == T_IDLE);
    closed(pair);
}

static void connect_without_waiting(const char *device)
{
    char address[128];
    unsigned len;
    int listener = bound(device, 1, address, &len);
    int client = t_open(device, O_RDWR | O_NONBLOCK, NULL);
    CHECK(client >= 0 && t_bind(client, NULL, NULL) == 0);
    struct t_call to = {.addr = {.len = len, .buf = address}}, call = {.udata = {0, 0, NULL}};
    FAILS(t_rcvconnect(client, NULL), TOUTSTATE);
    if (t_connect(client, &to, NULL) == -1) {
        CHECK(t_errno == TNODATA && t_getstate(client) == T_OUTCON);
    }
    CHECK(t_listen(listener, &call) == 0);
    /* On the endpoint itself, which listens no more. */
    CHECK(t_accept(listener, listener, &call) == 0 && t_getstate(listener) == T_DATAXFER);
    if (t_getstate(client) == T_OUTCON) {
        CHECK(event_after_poll(client) == T_CONNECT && t_rcvconnect(client, NULL) == 0);
    }
    CHECK(t_getstate(client) == T_DATAXFER && t_snd(client, "z", 1, 0) == 1);
    char octet;
    CHECK(t_rcv(listener, &octet, 1, NULL) == 1 && octet == 'z');
    CHECK(t_close(client) == 0 && t_close(listener) == 0);
}

static void refused_connection(void)
{
    char address[128];
    unsigned len;
    int gone = bound("/dev/tcp", 1, address, &len);
    CHECK(t_close(gone) == 0);
    int client = t_open("/dev/tcp", O_RDWR, NULL);
    CHECK(client >= 0 && t_bind(client, NULL, NULL) == 0);
    struct t_call to = {.addr = {.len = len, .buf = address}};
    FAILS(t_connect(client, &to, NULL), TLOOK);
    struct t_discon why = {.reason = 0};
    CHECK(t_look(client) == T_DISCONNECT && t_rcvdis(client, &why) == 0 && why.reason == ECONNREFUSED);
    CHECK(t_getstate(client) == T_IDLE && t_unbind(client) == 0 && t_getstate(client) == T_UNBND);
    CHECK(t_close(client) == 0);
}

static void datagrams(const char *device)
{
    char here[128], there[128], from[128], text[8];
    unsigned here_len, there_len;
    int a = bound(device, 0, here, &here_len), b = bound(device, 0, there, &there_len);
    struct t_unitdata out = {.addr = {.len = there_len, .buf = there}, .udata = {.len = 6, .buf = "datagr"}};
    struct t_unitdata in = {.addr = {.maxlen = sizeof from, .buf = from}, .udata = {.maxlen = 4, .buf = text}};
    int flags = 0;
    CHECK(!readable(b, 0) && t_sndudata(a, &out) == 0 && event_after_poll(b) == T_DATA);
    CHECK(t_rcvudata(b, &in, &flags) == 0 && in.udata.len == 4 && flags == T_MORE);
    CHECK(in.addr.len == here_len && readable(b, 0));
    CHECK(t_rcvudata(b, &in, &flags) == 0 && in.udata.len == 2 && flags == 0);
    struct t_iovec parts[2] = {{"12", 2}, {"345", 3}};
    char one[1], two[9];
    struct t_iovec rooms[2] = {{one, 1}, {two, 9}};
    CHECK(t_sndvudata(a, &out, parts, 2) == 0 && t_rcvvudata(b, &in, rooms, 2, &flags) == 5);
    CHECK(one[0] == '1' && memcmp(two, "2345", 4) == 0 && flags == 0);
    FAILS(t_rcvuderr(a, NULL), TNOUDERR);
    FAILS(t_snd(a, "x", 1, 0), TOUTSTATE);
    out.addr.len = 1;
    CHECK(t_sndudata(a, &out) == -1 || t_look(a) == T_UDERR);
    CHECK(t_close(a) == 0 && t_close(b) == 0);
}

/* The drivers over raw IP, where this process may have raw sockets. */
static void datagrams_over_raw_ip(const char *device)
{
    int fd = t_open(device, O_RDWR, NULL);
    CHECK(fd >= 0);
    int may = t_bind(fd, NULL, NULL) == 0;
    CHECK(may || t_errno == TACCES);
    if (may)
        datagrams(device);
    else
        fprintf(stderr, "SKIPPED: %s needs the right to raw sockets\n", device);
    CHECK(t_close(fd) == 0);
}

static void datagram_options(void)
{
    char here[128], there[128], text[8];
    _Alignas(8) char sent[32], came[128];
    unsigned here_len, there_len;
    int a = bound("/dev/udp", 0, here, &here_len), b = bound("/dev/udp", 0, there, &there_len);
    struct t_opthdr *option = (struct t_opthdr *)sent;
    *option = (struct t_opthdr){sizeof *option + 1, T_INET_IP, T_IP_TTL, 0};
    *T_OPT_DATA(option) = 7;
    struct t_unitdata out = {{.len = there_len, .buf = there}, {.len = option->len, .buf = sent}, {.len = 1, .buf = "x"}};
    struct t_unitdata in = {.opt = {.maxlen = sizeof came, .buf = came}, .udata = {.maxlen = 8, .buf = text}};
    int flags = 0, ttl = 0; /* The first call with room for options asks for them. */
    CHECK(fcntl(b, F_SETFL, O_NONBLOCK) == 0);
    FAILS(t_rcvudata(b, &in, &flags), TNODATA);
    CHECK(t_sndudata(a, &out) == 0 && event_after_poll(b) == T_DATA && t_rcvudata(b, &in, &flags) == 0);
    for (option = T_OPT_FIRSTHDR(&in.opt); option; option = T_OPT_NEXTHDR(in.opt.buf, in.opt.len, option))
        if (option->level == T_INET_IP && option->name == T_IP_TTL)
            ttl = *T_OPT_DATA(option);
    CHECK(ttl == 7);
    out.opt.len = 15;
    FAILS(t_sndudata(a, &out), TBADOPT);
    out.opt.len = 17;
    ((struct t_opthdr *)sent)->name = T_IP_BROADCAST;
    CHECK(t_sndudata(a, &out) == 0 && t_look(a) == T_UDERR);
    struct t_uderr error = {.opt = {.maxlen = sizeof came, .buf = came}};
    CHECK(t_rcvuderr(a, &error) == 0 && error.error == EOPNOTSUPP);
    CHECK(error.opt.len >= 17 && ((struct t_opthdr *)came)->status == T_NOTSUPPORT);
    CHECK(t_close(a) == 0 && t_close(b) == 0);
}

static void options_and_information(void)
{
    struct t_info info;
    int fd = t_open("/dev/tcp", O_RDWR, &info);
    CHECK(fd >= 0 && info.servtype == T_COTS_ORD && info.tsdu == 0 && info.discon == T_INVALID);
    struct t_info same;
    CHECK(t_getinfo(fd, &same) == 0 && memcmp(&info, &same, sizeof info) == 0);
    FAILS(t_getinfo(fd, NULL), TSYSERR);
    CHECK(errno == EFAULT);

    struct t_optmgmt *request = t_alloc(fd, T_OPTMGMT, T_ALL), *answer = t_alloc(fd, T_OPTMGMT, T_ALL);
    CHECK(request && answer && request->opt.maxlen >= 24 && request->opt.buf);
    /* As netperf does: the value is a long. */
    struct t_opthdr *option = request->opt.buf;
    long size = 40000;
    *option = (struct t_opthdr){sizeof *option + sizeof size, XTI_GENERIC, XTI_SNDBUF, 0};
    memcpy(T_OPT_DATA(option), &size, sizeof size);
    request->opt.len = option->len;
    request->flags = T_NEGOTIATE;
    CHECK(t_optmgmt(fd, request, answer) == 0 && answer->flags == T_SUCCESS);
    option = T_OPT_FIRSTHDR(&answer->opt);
    CHECK(option && option->name == XTI_SNDBUF && option->status == T_SUCCESS);
    memcpy(&size, T_OPT_DATA(option), sizeof size);
    CHECK(size == 40000 && !T_OPT_NEXTHDR(answer->opt.buf, answer->opt.len, option));
    request->flags = 0x7777;
    FAILS(t_optmgmt(fd, request, answer), TBADFLAG);
    request->flags = T_CURRENT;
    answer->opt.maxlen = 4;
    FAILS(t_optmgmt(fd, request, answer), TBUFOVFLW);
    option = request->opt.buf;
    option->len = 3;
    FAILS(t_optmgmt(fd, request, answer), TBADOPT);
    CHECK(t_free(request, T_OPTMGMT) == 0 && t_free(answer, T_OPTMGMT) == 0);

    struct t_bind *bind = t_alloc(fd, T_BIND, T_ADDR);
    struct t_call *call = t_alloc(fd, T_CALL, T_ALL);
    CHECK(bind && bind->addr.maxlen >= sizeof(struct sockaddr_in6) && call && !call->udata.buf);
    CHECK(t_free(bind, T_BIND) == 0 && t_free(call, T_CALL) == 0);
    for (int kind = T_DIS; kind <= T_INFO; kind++) {
        void *structure = t_alloc(fd, kind, T_ALL);
        CHECK(structure && t_free(structure, kind) == 0);
    }
    CHECK(!t_alloc(fd, T_CALL, T_UDATA) && t_errno == TSYSERR && errno == EINVAL);
    CHECK(!t_alloc(fd, 99, T_ALL) && t_errno == TNOSTRUCTYPE);
    FAILS(t_free(NULL, T_CALL), TSYSERR);
    FAILS(t_free(NULL, 99), TNOSTRUCTYPE);
    FAILS(t_unbind(fd), TOUTSTATE);
    CHECK(t_close(fd) == 0 && t_sysconf(_SC_T_IOV_MAX) == T_IOV_MAX);
    FAILS(t_sysconf(12345), TSYSERR);
    CHECK(errno == EINVAL);
}

static void bad_calls(void)
{
    char address[128];
    unsigned len;
    FAILS(t_open("/dev/nothing", O_RDWR, NULL), TBADNAME);
    FAILS(t_open(NULL, O_RDWR, NULL), TBADNAME);
    FAILS(t_open("/dev/tcp", O_RDONLY, NULL), TBADFLAG);
    FAILS(t_look(-1), TBADF);
    FAILS(t_look(0), TBADF);
    FAILS(t_snd(1 << 20, "x", 1, 0), TBADF);
    int fd = bound("/dev/tcp", 1, address, &len), other = t_open("/dev/udp", O_RDWR, NULL);
    FAILS(t_bind(fd, NULL, NULL), TOUTSTATE);
    FAILS(t_listen(fd, NULL), TSYSERR);
    struct t_call call = {.sequence = 7};
    FAILS(t_accept(fd, other, &call), TPROVMISMATCH);
    FAILS(t_accept(fd, 12345, &call), TBADF);
    FAILS(t_sndrel(fd), TOUTSTATE);
    FAILS(t_sndrel(other), TNOTSUPPORT);
    FAILS(t_sndudata(fd, &(struct t_unitdata){.udata = {.len = 0}}), TNOTSUPPORT);
    int busy = t_open("/dev/tcp", O_RDWR, NULL);
    struct t_bind same = {.addr = {.len = len, .buf = address}, .qlen = 1};
    FAILS(t_bind(busy, &same, NULL), TADDRBUSY);
    same.addr.len = 3;
    FAILS(t_bind(busy, &same, NULL), TBADADDR);
    char small[2];
    struct t_bind answer = {.addr = {.maxlen = 2, .buf = small}};
    FAILS(t_bind(busy, NULL, &answer), TBUFOVFLW);
    CHECK(t_getstate(busy) == T_IDLE);
    FAILS(t_listen(busy, &call), TBADQLEN);
    struct t_bind own = {.addr = {.maxlen = sizeof address, .buf = address}};
    CHECK(t_getprotaddr(fd, &own, NULL) == 0 && own.addr.len == len);
    CHECK(t_close(busy) == 0 && t_close(fd) == 0 && t_close(other) == 0);
    CHECK(strcmp(t_strerror(TFLOW), t_strerror(TNODATA)) != 0 && t_strerror(-5) && t_strerror(99999));
    t_errno = TBADF;
    CHECK(t_error("words") == 0);
}

static void nothing(int number)
{
    (void)number;
}

static void signals_end_waits(void)
{
    struct pair pair = connected("/dev/tcp");
    struct sigaction action = {.sa_handler = nothing};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    char octet;
    FAILS(t_rcv(pair.client, &octet, 1, NULL), TSYSERR);
    CHECK(errno == EINTR);
    struct t_call call = {.sequence = 0};
    FAILS(t_listen(pair.listener, &call), TSYSERR);
    CHECK(errno == EINTR);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(t_snd(pair.client, "a", 1, 0) == 1 && t_rcv(pair.server, &octet, 1, NULL) == 1);
    closed(pair);
}

/* As netserver does: the child serves what the parent has accepted, and what it sends leaves by itself. */
static void forked_child_serves(void)
{
    struct pair pair = connected("/dev/tcp");
    CHECK(t_snd(pair.client, "q", 1, 0) == 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char octet;
        CHECK(t_rcv(pair.server, &octet, 1, NULL) == 1 && octet == 'q');
        CHECK(t_snd(pair.server, "r", 1, 0) == 1);
        CHECK(t_rcv(pair.server, &octet, 1, NULL) == 1 && octet == 's');
        _exit(0);
    }
    char octet;
    int status;
    CHECK(t_rcv(pair.client, &octet, 1, NULL) == 1 && octet == 'r');
    CHECK(t_snd(pair.client, "s", 1, 0) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    closed(pair);
}

/* Messages keep their boundaries, and SHUTDOWN ends both directions. */
static void messages_over_sctp(void)
{
    struct pair pair = connected("/dev/sctp_t");
    char text[8];
    int flags = 0;
    CHECK(t_snd(pair.client, "one", 3, 0) == 3 && t_snd(pair.client, "three", 5, T_MORE) == 5);
    CHECK(t_snd(pair.client, "3", 1, 0) == 1);
    CHECK(t_rcv(pair.server, text, sizeof text, &flags) == 3 && memcmp(text, "one", 3) == 0);
    CHECK(t_rcv(pair.server, text, 4, &flags) == 4 && (flags & T_MORE));
    CHECK(t_rcv(pair.server, text, 4, &flags) == 2 && !(flags & T_MORE));
    CHECK(t_sndrel(pair.client) == 0 && event_after_poll(pair.server) == T_ORDREL && t_rcvrel(pair.server) == 0);
    CHECK(t_sndrel(pair.server) == 0 && t_getstate(pair.server) == T_IDLE);
    closed(pair);
}

static void *own_number(void *unused)
{
    (void)unused;
    CHECK(t_errno == 0);
    FAILS(t_look(-1), TBADF);
    return NULL;
}

int main(void)
{
    alarm(60);
    for (unsigned at = 0; at < sizeof tcp_like / sizeof *tcp_like; at++) {
        data_go_both_ways(tcp_like[at]);
        connect_without_waiting(tcp_like[at]);
        if (at > 0) /* The kernel tells the peer of a disconnect of a unix socket as of a release. */
            disconnect_is_told(tcp_like[at]);
        non_blocking_calls_say_so(tcp_like[at]);
    }
    messages_over_sctp();
    refused_connection();
    datagrams("/dev/udp");
    datagrams("/dev/ticlts");
    datagrams("/dev/unix_clts");
    datagrams_over_raw_ip("/dev/udp_s");
    datagrams_over_raw_ip("/dev/rawip");
    datagram_options();
    options_and_information();
    bad_calls();
    t_errno = TFLOW;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, own_number, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(t_errno == TFLOW);
    forked_child_serves();
    signals_end_waits();
    return 0;
}
