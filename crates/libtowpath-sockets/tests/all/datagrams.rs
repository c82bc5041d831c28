//! Datagram sockets over STREAMS, by rules that name `/dev/udp`.

use crate::free_port;
use crate::programs::{output_of, preloaded, scratch};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output();
    if is_there.is_ok_and(|output| output.status.success()) {
        return true;
    }
    eprintln!("SKIPPED: there is no {program}");
    false
}

/// Arguments: the port of a peer that answers with the first four octets of what it gets, `on` where datagrams wait in
/// the stream, and a port where nobody is. What is lost on a busy host is sent again.
const USES_DATAGRAMS: &str = r#"
import errno, glob, os, select, socket, struct, sys, time
peer = ("127.0.0.1", int(sys.argv[1]))
near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
near.bind(("127.0.0.1", 0))
near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 0))
def ask(send, answer, room=100):
    for time in range(30):
        send()
        try:
            while near.recvfrom(room) != (answer, peer):
                pass
            return
        except BlockingIOError:
            pass
    sys.exit(f"no answer {answer}")
for first in range(0, 2000, 10):
    numbers = [number.to_bytes(4, "little") * 16 for number in range(first, first + 10)]
    def send():
        assert [near.sendto(number, peer) for number in numbers] == [64] * 10
    ask(send, numbers[9][:4])
def has_helper():
    return any(open(name).read() == "xti-helper\n" for name in glob.glob("/proc/self/task/*/comm"))
until = time.monotonic() + 20
while sys.argv[2] == "on" and not has_helper():
    assert time.monotonic() < until, "no datagram waited in a stream"
near.connect(peer)
ask(lambda: near.send(b"cut " + bytes(900)), b"cu", 2)
def polled():
    near.send(b"poll")
    select.select([near], [], [], 1)
ask(polled, b"poll")
near.setblocking(False)
while True:
    try:
        assert near.recv(9) == b"poll", "an answer that came twice"
    except BlockingIOError:
        break
near.setblocking(True)
try:
    near.send(bytes(70000))
    sys.exit("no datagram is so long")
except OSError as error:
    assert error.errno == errno.EMSGSIZE, error
child = os.fork()
if child == 0:
    ask(lambda: near.send(b"child"), b"chil")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
nobody = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
nobody.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 0))
nobody.connect(("127.0.0.1", int(sys.argv[3])))
for time in range(30):
    try:
        nobody.send(b"to nobody")
        nobody.recv(9)
    except BlockingIOError:
        continue
    except ConnectionRefusedError:
        break
else:
    sys.exit("nobody is there")
ask(lambda: near.send(b"last"), b"last")
near.close()
print("all")
"#;

/// Answers the program until it says `last` and is silent.
fn answer(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    let mut is_last = false;
    loop {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else {
            assert!(is_last, "no datagram in 20 s");
            return;
        };
        let octets = &buffer[..len];
        let asks = match len {
            64 => {
                assert_eq!(octets, octets[..4].repeat(16), "datagrams are whole");
                u16::from_le_bytes([octets[0], octets[1]]) % 10 == 9
            }
            _ => true,
        };
        if asks && len >= 4 {
            // What is lost is asked for again.
            let _ = socket.send_to(&octets[..4], from);
        }
        if octets == b"last" {
            is_last = true;
            let limit = Some(Duration::from_millis(50));
            socket.set_read_timeout(limit).expect("it is a socket");
        }
    }
}

#[test]
fn datagrams_of_a_program_go_over_a_stream_and_its_socket_stays_the_kernels() {
    if !has("python3") {
        return;
    }
    for deferred in ["on", "off"] {
        let scratch = scratch(&format!("datagrams-{deferred}"));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let limit = Some(Duration::from_secs(20));
        socket.set_read_timeout(limit).expect("it is a socket");
        let (port, nobody) = (
            socket.local_addr().expect("it is bound").port(),
            free_port(),
        );
        scratch.write(
            "rules",
            &format!("inet 127.0.0.1 * /dev/udp,deferred={deferred}\n"),
        );
        // The library may have to be built first, for longer than the peer waits.
        let mut program = preloaded("python3", &scratch);
        let answering = std::thread::spawn(move || answer(&socket));
        let words = [port.to_string(), deferred.to_string(), nobody.to_string()];
        let said = output_of(program.args(["-c", USES_DATAGRAMS]).args(words));
        assert_eq!(said, "all\n");
        answering.join().expect("no panic");
    }
}

#[test]
fn iperf3_sends_datagrams_over_streams() {
    if !has("iperf3") {
        return;
    }
    let scratch = scratch("datagrams-iperf3");
    let port = free_port().to_string();
    scratch.write("rules", &format!("inet 127.0.0.1 {port} /dev/udp\n"));
    let mut server = preloaded("iperf3", &scratch);
    server.args(["-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", &port]);
    let (server, rest) = crate::over_streams::listening(server.stdout(Stdio::piped()));
    let mut client = preloaded("iperf3", &scratch);
    let words = ["-u", "-b", "20M", "-l", "1000", "-n", "1M", "--json"];
    let said = output_of(client.args(["-c", "127.0.0.1", "-p", &port]).args(words));
    assert!(!said.contains("\"error\""), "{said}");
    assert!(said.contains("\"lost_percent\""), "{said}");
    crate::over_streams::ended(server, rest);
}
