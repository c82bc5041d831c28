/*
 * usrsctp as one end of an association in virtual time, for the tests of interoperation.
 *
 * It has neither threads nor sockets: packets, messages and time come by standard input, and packets,
 * messages and events leave by standard output. A frame is a kind (1 octet), a length (4 octets, least
 * first) and that many octets.
 *
 * In:  'L' listen; 'C' connect; 'P' a packet; 'T' milliseconds that passed (4 octets);
 *      'M' a message: stream (2), payload protocol identifier (4), unordered (1), bytes;
 *      'S' shut down.
 * Out: 'p' a packet; 'm' a message as above; 'u' the association is up; 'd' it is down; 'f' the message
 *      did not fit into the send buffer; 'e' all that followed from the last frame was said.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <usrsctp.h>

#define SCTP_PORT 5000
#define STREAMS 64
#define FRAME_MAX (1 << 20)

static char own_address;
static struct socket *listener, *sock;
static uint8_t message[FRAME_MAX];
static size_t message_len;

static void say(char kind, const void *head, size_t head_len, const void *octets, size_t len)
{
	uint32_t total = head_len + len;
	putchar(kind);
	fwrite(&total, 4, 1, stdout);
	fwrite(head, 1, head_len, stdout);
	fwrite(octets, 1, len, stdout);
}

static int conn_output(void *address, void *packet, size_t len, uint8_t tos, uint8_t set_df)
{
	(void)address, (void)tos, (void)set_df;
	say('p', NULL, 0, packet, len);
	return 0;
}

static void must(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}

static void configure(struct socket *of)
{
	struct sctp_initmsg init = { .sinit_num_ostreams = STREAMS, .sinit_max_instreams = STREAMS };
	struct sctp_event event = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = SCTP_ASSOC_CHANGE, .se_on = 1 };
	int on = 1;
	must(usrsctp_set_non_blocking(of, 1), "non-blocking");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init), "SCTP_INITMSG");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event), "SCTP_EVENT");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on), "SCTP_RECVRCVINFO");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on), "SCTP_NODELAY");
}

static struct sockaddr_conn name_of(void *address)
{
	struct sockaddr_conn name = { .sconn_family = AF_CONN, .sconn_addr = address };
	name.sconn_port = htons(SCTP_PORT);
	return name;
}

static struct socket *bound_socket(void)
{
	struct sockaddr_conn name = name_of(&own_address);
	struct socket *made = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	must(made == NULL ? -1 : 0, "usrsctp_socket");
	configure(made);
	must(usrsctp_bind(made, (struct sockaddr *)&name, sizeof name), "usrsctp_bind");
	return made;
}

static void send_message(const uint8_t *frame, size_t len)
{
	struct sctp_sndinfo info = { 0 };
	info.snd_sid = frame[0] | frame[1] << 8;
	/* The identifier is opaque: the harness gives it as it lies on the wire. */
	memcpy(&info.snd_ppid, frame + 2, 4);
	info.snd_flags = frame[6] ? SCTP_UNORDERED : 0;
	ssize_t sent = usrsctp_sendv(sock, frame + 7, len - 7, NULL, 0, &info, sizeof info,
	                             SCTP_SENDV_SNDINFO, 0);
	if (sent < 0)
		say('f', NULL, 0, NULL, 0);
}

static void say_event(const union sctp_notification *event)
{
	if (event->sn_header.sn_type != SCTP_ASSOC_CHANGE)
		return;
	int state = event->sn_assoc_change.sac_state;
	say(state == SCTP_COMM_UP || state == SCTP_RESTART ? 'u' : 'd', NULL, 0, NULL, 0);
}

static void receive(void)
{
	for (;;) {
		struct sctp_rcvinfo info = { 0 };
		socklen_t from_len = 0, info_len = sizeof info;
		unsigned int info_type = 0;
		int flags = 0;
		ssize_t len = usrsctp_recvv(sock, message + message_len, sizeof message - message_len, NULL,
		                            &from_len, &info, &info_len, &info_type, &flags);
		if (len == 0 || (len < 0 && errno != EWOULDBLOCK && errno != EAGAIN)) {
			say('d', NULL, 0, NULL, 0);
			return;
		}
		if (len < 0)
			return;
		if (flags & MSG_NOTIFICATION) {
			say_event((const union sctp_notification *)(message + message_len));
			continue;
		}
		message_len += len;
		if (!(flags & MSG_EOR))
			continue;
		uint8_t head[7] = { info.rcv_sid & 0xff, info.rcv_sid >> 8 };
		memcpy(head + 2, &info.rcv_ppid, 4);
		head[6] = (info.rcv_flags & SCTP_UNORDERED) != 0;
		say('m', head, sizeof head, message, message_len);
		message_len = 0;
	}
}

static void handle(char kind, const uint8_t *frame, size_t len)
{
	struct sockaddr_conn peer = name_of(&own_address);
	uint32_t elapsed_ms;
	switch (kind) {
	case 'L':
		listener = bound_socket();
		must(usrsctp_listen(listener, 1), "usrsctp_listen");
		break;
	case 'C':
		sock = bound_socket();
		if (usrsctp_connect(sock, (struct sockaddr *)&peer, sizeof peer) < 0 && errno != EINPROGRESS)
			must(-1, "usrsctp_connect");
		break;
	case 'P':
		usrsctp_conninput(&own_address, frame, len, 0);
		break;
	case 'T':
		memcpy(&elapsed_ms, frame, 4);
		usrsctp_handle_timers(elapsed_ms);
		break;
	case 'M':
		send_message(frame, len);
		break;
	case 'S':
		usrsctp_shutdown(sock, SHUT_WR);
		break;
	}
}

int main(void)
{
	static uint8_t frame[FRAME_MAX];
	int kind;
	usrsctp_init_nothreads(0, conn_output, NULL);
	usrsctp_register_address(&own_address);
	while ((kind = getchar()) != EOF) {
		uint32_t len;
		if (fread(&len, 4, 1, stdin) != 1 || len > sizeof frame || fread(frame, 1, len, stdin) != len)
			return 1;
		handle(kind, frame, len);
		if (sock == NULL && listener != NULL) {
			sock = usrsctp_accept(listener, NULL, NULL);
			if (sock != NULL) {
				usrsctp_set_non_blocking(sock, 1);
				say('u', NULL, 0, NULL, 0);
			}
		}
		if (sock != NULL)
			receive();
		say('e', NULL, 0, NULL, 0);
		fflush(stdout);
	}
	return 0;
}
