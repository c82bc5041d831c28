/*
 * usrsctp as one end of an association in virtual time, for the tests of interoperation.
 *
 * It has neither threads nor sockets: packets, messages and time come by standard input, and packets,
 * messages and events leave by standard output. A frame is a kind (1 octet), a length (4 octets, least
 * first) and that many octets.
 *
 * In:  'I' interleave messages, 'A' authenticate chunks with key 5, before the next; 'L' listen; 'C' connect; 'P' a packet;
 *      'T' milliseconds that passed (4 octets);
 *      'M' a message: stream (2), payload protocol identifier (4), flags (1): 1 unordered, 2 given up when
 *      something of it is lost; bytes;
 *      'R' reset streams to send on (2 each); 'S' shut down.
 * Out: 'p' a packet; 'm' a message as above; 'u' the association is up; 'd' it is down; 'f' the message
 *      did not fit into the send buffer, or the streams could not be reset; 'e' all that followed from
 *      the last frame was said.
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

static int interleaves, authenticates;
static char own_address;
static struct socket *listener, *sock;
/* Unfinished messages, by stream and whether unordered. */
#define MESSAGE_MAX (1 << 16)
static uint8_t messages[STREAMS][2][MESSAGE_MAX];
static size_t message_lens[STREAMS][2];
static uint8_t part[MESSAGE_MAX];

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

/* Types that the other end has to authenticate: DATA, SACK, ABORT, SHUTDOWN. Not COOKIE-ECHO: over AF_CONN usrsctp 0.9.5
 * writes an address into the cookie that came, before it sums the packet, and refuses every one. */
static const uint8_t authenticated[] = { 0, 3, 6, 7 };
static const char shared_key[] = "interoperation";

static void authenticate(struct socket *of)
{
	static uint8_t octets[sizeof(struct sctp_authkey) + sizeof shared_key];
	struct sctp_authkey *key = (struct sctp_authkey *)octets;
	struct sctp_authkeyid active = { .scact_assoc_id = SCTP_FUTURE_ASSOC, .scact_keynumber = 5 };
	for (size_t index = 0; index < sizeof authenticated; index++) {
		struct sctp_authchunk chunk = { .sauth_chunk = authenticated[index] };
		must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_AUTH_CHUNK, &chunk, sizeof chunk), "SCTP_AUTH_CHUNK");
	}
	key->sca_assoc_id = SCTP_FUTURE_ASSOC;
	key->sca_keynumber = 5;
	key->sca_keylength = sizeof shared_key - 1;
	memcpy(key->sca_key, shared_key, sizeof shared_key - 1);
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_AUTH_KEY, key, sizeof *key + sizeof shared_key - 1),
	     "SCTP_AUTH_KEY");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_AUTH_ACTIVE_KEY, &active, sizeof active),
	     "SCTP_AUTH_ACTIVE_KEY");
}

static void configure(struct socket *of)
{
	struct sctp_initmsg init = { .sinit_num_ostreams = STREAMS, .sinit_max_instreams = STREAMS };
	struct sctp_event event = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = SCTP_ASSOC_CHANGE, .se_on = 1 };
	struct sctp_assoc_value reset = { .assoc_id = SCTP_FUTURE_ASSOC };
	int on = 1;
	reset.assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ;
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &reset, sizeof reset),
	     "SCTP_ENABLE_STREAM_RESET");
	must(usrsctp_set_non_blocking(of, 1), "non-blocking");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init), "SCTP_INITMSG");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event), "SCTP_EVENT");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on), "SCTP_RECVRCVINFO");
	must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on), "SCTP_NODELAY");
	if (authenticates)
		authenticate(of);
	if (interleaves) {
		struct sctp_assoc_value supported = { .assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1 };
		int level = 2;
		must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof level),
		     "SCTP_FRAGMENT_INTERLEAVE");
#ifdef SCTP_INTERLEAVING_SUPPORTED
		must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &supported, sizeof supported),
		     "SCTP_INTERLEAVING_SUPPORTED");
#else
		(void)supported;
		must(-1, "SCTP_INTERLEAVING_SUPPORTED");
#endif
	}
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
	struct sctp_sendv_spa info = { .sendv_flags = SCTP_SEND_SNDINFO_VALID };
	info.sendv_sndinfo.snd_sid = frame[0] | frame[1] << 8;
	/* The identifier is opaque: the harness gives it as it lies on the wire. */
	memcpy(&info.sendv_sndinfo.snd_ppid, frame + 2, 4);
	info.sendv_sndinfo.snd_flags = frame[6] & 1 ? SCTP_UNORDERED : 0;
	if (frame[6] & 2) {
		info.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		info.sendv_prinfo.pr_policy = SCTP_PR_SCTP_RTX;
		info.sendv_prinfo.pr_value = 0;
	}
	ssize_t sent = usrsctp_sendv(sock, frame + 7, len - 7, NULL, 0, &info, sizeof info, SCTP_SENDV_SPA, 0);
	if (sent < 0)
		say('f', NULL, 0, NULL, 0);
}

static void reset_streams(const uint8_t *frame, size_t len)
{
	static uint8_t octets[sizeof(struct sctp_reset_streams) + 2 * STREAMS];
	struct sctp_reset_streams *reset = (struct sctp_reset_streams *)octets;
	if (len > 2 * STREAMS)
		exit(1);
	memset(octets, 0, sizeof octets);
	reset->srs_flags = SCTP_STREAM_RESET_OUTGOING;
	reset->srs_number_streams = len / 2;
	memcpy(reset->srs_stream_list, frame, len);
	if (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_RESET_STREAMS, reset, sizeof *reset + len) < 0)
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
		ssize_t len = usrsctp_recvv(sock, part, sizeof part, NULL, &from_len, &info, &info_len,
		                            &info_type, &flags);
		if (len == 0 || (len < 0 && errno != EWOULDBLOCK && errno != EAGAIN)) {
			say('d', NULL, 0, NULL, 0);
			return;
		}
		if (len < 0)
			return;
		if (flags & MSG_NOTIFICATION) {
			say_event((const union sctp_notification *)part);
			continue;
		}
		int unordered = (info.rcv_flags & SCTP_UNORDERED) != 0;
		uint8_t *message = messages[info.rcv_sid][unordered];
		size_t *message_len = &message_lens[info.rcv_sid][unordered];
		if (info.rcv_sid >= STREAMS || *message_len + len > MESSAGE_MAX)
			exit(1);
		memcpy(message + *message_len, part, len);
		*message_len += len;
		if (!(flags & MSG_EOR))
			continue;
		uint8_t head[7] = { info.rcv_sid & 0xff, info.rcv_sid >> 8 };
		memcpy(head + 2, &info.rcv_ppid, 4);
		head[6] = unordered;
		say('m', head, sizeof head, message, *message_len);
		*message_len = 0;
	}
}

static void handle(char kind, const uint8_t *frame, size_t len)
{
	struct sockaddr_conn peer = name_of(&own_address);
	uint32_t elapsed_ms;
	switch (kind) {
	case 'I':
		interleaves = 1;
		break;
	case 'A':
		authenticates = 1;
		break;
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
	case 'R':
		reset_streams(frame, len);
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
