/*
 * usrsctp as the end of an association that asks for changes of its own addresses (RFC 5061), over UDP.
 *
 * usrsctp_asks OWN MORE PEER UDP_PORT: associates OWN with PEER, whose SCTP port is 5000. A line of standard input
 * is one step: "add" gains MORE, "prefer" asks the peer to prefer it, "delete" loses it, "say" sends a message,
 * "end" shuts the association down. Each step is answered with a line: its name.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usrsctp.h>

#define SCTP_PORT 5000
#define OWN_UDP_PORT 9899

static void must(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}

static struct sockaddr_in address(const char *text, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };
	must(inet_pton(AF_INET, text, &address.sin_addr) - 1, text);
	return address;
}

/* A socket whose associations may change their addresses. */
static struct socket *open_socket(uint16_t udp_port)
{
	struct sctp_udpencaps encaps = { .sue_port = udp_port };
	struct sctp_assoc_value on = { .assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1 };
	struct socket *opened = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	must(opened ? 0 : -1, "usrsctp_socket");
	encaps.sue_address.ss_family = AF_INET;
	must(usrsctp_setsockopt(opened, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps),
	     "SCTP_REMOTE_UDP_ENCAPS_PORT");
	must(usrsctp_setsockopt(opened, IPPROTO_SCTP, SCTP_AUTH_SUPPORTED, &on, sizeof on), "SCTP_AUTH_SUPPORTED");
	must(usrsctp_setsockopt(opened, IPPROTO_SCTP, SCTP_ASCONF_SUPPORTED, &on, sizeof on), "SCTP_ASCONF_SUPPORTED");
	return opened;
}

/* The own port, in the octet order of the network. */
static uint16_t own_port(struct socket *of)
{
	struct sockaddr *all;
	must(usrsctp_getladdrs(of, 0, &all) - 1, "usrsctp_getladdrs");
	uint16_t port = ((struct sockaddr_in *)all)->sin_port;
	usrsctp_freeladdrs(all);
	return port;
}

static void step(struct socket *of, const char *what, struct sockaddr_in more)
{
	struct sctp_setpeerprim prefer = { 0 };
	struct sctp_sndinfo info = { 0 };
	more.sin_port = own_port(of);
	memcpy(&prefer.sspp_addr, &more, sizeof more);
	if (strcmp(what, "add") == 0)
		must(usrsctp_bindx(of, (struct sockaddr *)&more, 1, SCTP_BINDX_ADD_ADDR), what);
	else if (strcmp(what, "prefer") == 0)
		must(usrsctp_setsockopt(of, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &prefer, sizeof prefer), what);
	else if (strcmp(what, "delete") == 0)
		must(usrsctp_bindx(of, (struct sockaddr *)&more, 1, SCTP_BINDX_REM_ADDR), what);
	else if (strcmp(what, "say") == 0)
		must(usrsctp_sendv(of, what, 3, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0), what);
	else
		must(usrsctp_shutdown(of, SHUT_WR), what);
	puts(what);
	fflush(stdout);
}

int main(int count, char **words)
{
	char line[16];
	if (count != 5)
		return 2;
	usrsctp_init(OWN_UDP_PORT, NULL, NULL);
	usrsctp_sysctl_set_sctp_auth_enable(1);
	usrsctp_sysctl_set_sctp_asconf_enable(1);
	struct socket *opened = open_socket(htons(atoi(words[4])));
	struct sockaddr_in own = address(words[1], 0), more = address(words[2], 0);
	struct sockaddr_in peer = address(words[3], htons(SCTP_PORT));
	must(usrsctp_bind(opened, (struct sockaddr *)&own, sizeof own), "usrsctp_bind");
	must(usrsctp_connect(opened, (struct sockaddr *)&peer, sizeof peer), "usrsctp_connect");
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		step(opened, line, more);
	}
	return 0;
}
