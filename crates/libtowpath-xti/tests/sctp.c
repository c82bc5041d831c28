/* Options of SCTP, of an endpoint and of single messages. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xti.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s, t_errno %d %s\n", __FILE__, __LINE__, #condition, t_errno,                    \
                    t_strerror(t_errno));                                                                             \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

struct option {
    struct t_opthdr header;
    unsigned value;
};

static struct option of_sctp(unsigned name, unsigned value)
{
    struct option option = {{sizeof option, T_INET_SCTP, name, 0}, value};
    return option;
}

/* Status of one option after a request; its value is put into `value`. */
static int asked(int fd, int what, unsigned name, unsigned *value)
{
    struct option option = of_sctp(name, *value);
    struct t_optmgmt request = {{0, sizeof option, &option}, what}, answer = {{sizeof option, 0, &option}, 0};
    CHECK(t_optmgmt(fd, &request, &answer) == 0 && answer.opt.len == sizeof option);
    *value = option.value;
    return answer.flags;
}

static int bound(unsigned queue_len, struct sockaddr_in *address)
{
    int fd = t_open("/dev/sctp_t", O_RDWR, NULL);
    CHECK(fd >= 0);
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct t_bind request = {{0, sizeof *address, address}, queue_len}, answer = {{sizeof *address, 0, address}, 0};
    CHECK(t_bind(fd, queue_len ? &request : NULL, queue_len ? &answer : NULL) == 0);
    return fd;
}

/* How the association of an endpoint stands: one path, to this host. */
static void has_one_path(int fd)
{
    struct {
        struct t_opthdr header;
        struct t_sctp_status status;
        struct t_sctp_dest_status path;
    } told = {{sizeof told.header, T_INET_SCTP, T_SCTP_STATUS, 0}, {0}, {0}};
    struct t_optmgmt request = {{0, sizeof told.header, &told}, T_CURRENT}, answer = {{sizeof told, 0, &told}, 0};
    CHECK(t_optmgmt(fd, &request, &answer) == 0 && answer.opt.len == sizeof told);
    CHECK(answer.flags == T_READONLY && told.status.curr_nrep == 1 && told.status.curr_rwnd > 0);
    CHECK(told.status.curr_rbuf >= told.status.curr_rwnd && told.path.dest_addr == htonl(INADDR_LOOPBACK));
    CHECK(told.path.dest_cwnd > 0 && told.path.dest_rto > 0 && told.path.dest_sst == (uint32_t)T_UNSPEC);
}

/* The timeouts of all paths, at once. */
static void set_timeouts(int fd)
{
    struct {
        struct t_opthdr header;
        struct t_sctp_rto rto;
    } wanted = {{sizeof wanted, T_INET_SCTP, T_SCTP_RTO, 0}, {0, 800, 300, 9000, 4}};
    struct t_optmgmt request = {{0, sizeof wanted, &wanted}, T_NEGOTIATE}, answer = {{sizeof wanted, 0, &wanted}, 0};
    CHECK(t_optmgmt(fd, &request, &answer) == 0 && answer.flags == T_SUCCESS && wanted.rto.rto_min == 300);
    unsigned value = 0;
    CHECK(asked(fd, T_CURRENT, T_SCTP_RTO_MIN, &value) == T_SUCCESS && value == 300);
}

/* Heartbeats and timeouts of the path of an association, and of one that there is not. */
static void set_path(int fd)
{
    struct {
        struct t_opthdr header;
        struct t_sctp_rto rto;
    } wanted = {{sizeof wanted, T_INET_SCTP, T_SCTP_RTO, 0}, {htonl(INADDR_LOOPBACK), 5000, 4000, 9000, 3}};
    struct t_optmgmt request = {{0, sizeof wanted, &wanted}, T_NEGOTIATE}, answer = {{sizeof wanted, 0, &wanted}, 0};
    CHECK(t_optmgmt(fd, &request, &answer) == 0 && answer.flags == T_SUCCESS && wanted.rto.rto_min == 4000);
    struct {
        struct t_opthdr header;
        struct t_sctp_hb hb;
    } silent = {{sizeof silent, T_INET_SCTP, T_SCTP_HB, 0}, {htonl(INADDR_LOOPBACK), 0, 0}};
    struct t_optmgmt off = {{0, sizeof silent, &silent}, T_NEGOTIATE}, told = {{sizeof silent, 0, &silent}, 0};
    CHECK(t_optmgmt(fd, &off, &told) == 0 && told.flags == T_SUCCESS && silent.hb.hb_onoff == 0);
    silent.hb.hb_dest = htonl(0x0a090807);
    off.opt.len = sizeof silent;
    CHECK(t_optmgmt(fd, &off, &told) == 0 && told.flags == T_FAILURE);
}

int main(void)
{
    alarm(60);
    struct sockaddr_in address, unused;
    int listener = bound(1, &address), client = bound(0, &unused);
    unsigned value = 7;
    CHECK(asked(client, T_NEGOTIATE, T_SCTP_OSTREAMS, &value) == T_SUCCESS && value == 7);
    value = 501;
    CHECK(asked(client, T_NEGOTIATE, T_SCTP_SACK_DELAY, &value) == T_FAILURE);
    CHECK(asked(client, T_CURRENT, 99, &value) == T_NOTSUPPORT);

    set_timeouts(client);

    struct t_call to = {.addr = {0, sizeof address, &address}}, call = {.addr = {sizeof unused, 0, &unused}};
    CHECK(fcntl(client, F_SETFL, O_NONBLOCK) == 0);
    CHECK(t_connect(client, &to, NULL) == -1 && t_errno == TNODATA);
    CHECK(t_listen(listener, &call) == 0);
    int server = t_open("/dev/sctp_t", O_RDWR, NULL);
    CHECK(server >= 0 && t_accept(listener, server, &call) == 0);
    CHECK(fcntl(client, F_SETFL, 0) == 0 && t_rcvconnect(client, NULL) == 0);
    CHECK(asked(client, T_CURRENT, T_SCTP_OSTREAMS, &value) == T_READONLY && value == 7);
    has_one_path(client);
    set_path(client);
    value = 1;
    CHECK(asked(server, T_NEGOTIATE, T_SCTP_RECVOPT, &value) == T_SUCCESS);

    struct option both[2] = {of_sctp(T_SCTP_SID, 6), of_sctp(T_SCTP_PPI, 46)}, came[4];
    struct netbuf options = {0, sizeof both, both}, room = {sizeof came, 0, came};
    char text[8];
    int flags = 0;
    CHECK(t_sndopt(client, "abc", 3, 0, &options) == 3);
    CHECK(t_rcvopt(server, text, sizeof text, &flags, &room) == 3 && memcmp(text, "abc", 3) == 0 && flags == 0);
    CHECK(room.len == sizeof both && came[0].header.name == T_SCTP_PPI && came[0].value == 46);
    CHECK(came[1].header.name == T_SCTP_SID && came[1].value == 6);
    CHECK(t_snd(client, "now", 3, T_EXPEDITED) == 3);
    CHECK(t_rcv(server, text, sizeof text, &flags) == 3 && flags == T_EXPEDITED);
    both[0] = of_sctp(T_SCTP_SID, 7);
    CHECK(t_sndopt(client, "none", 4, 0, &options) == -1 && t_errno == TBADOPT);
    CHECK(t_close(client) == 0 && t_close(server) == 0 && t_close(listener) == 0);
    return 0;
}
