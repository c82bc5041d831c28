//! usrsctp, the stack of FreeBSD: a child process without I/O of its own (`usrsctp_peer.c`).

use super::{Label, Order, Packets, Stack};
use std::collections::VecDeque;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Its timers have ticks of 10 ms.
const TICK_MS: u64 = 10;

/// The key that it authenticates with, and its number.
pub const SHARED_KEY: (u16, &[u8]) = (5, b"interoperation");

/// One end.
pub struct Usrsctp {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Its clock, in milliseconds.
    now_ms: u64,
    packets: VecDeque<Vec<u8>>,
    messages: VecDeque<(Label, Vec<u8>)>,
    refused: bool,
    is_up: bool,
    is_down: bool,
}

impl Usrsctp {
    /// Compiles the program into `folder` and starts it; it listens if `listens`. Each of `settings` is
    /// a letter: `I` interleaves messages with a peer that does (RFC 8260), `A` authenticates chunks
    /// (RFC 4895) with [`SHARED_KEY`].
    ///
    /// # Errors
    ///
    /// Why usrsctp is not there.
    pub fn start(folder: &Path, listens: bool, settings: &str) -> Result<Usrsctp, String> {
        if settings.contains('I') && !offers_interleaving() {
            return Err(
                "this usrsctp does not offer to interleave messages (SCTP_INTERLEAVING_SUPPORTED)"
                    .into(),
            );
        }
        let program = compile(folder)?;
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut peer = Usrsctp {
            child,
            input: BufWriter::new(input.ok_or("no pipe")?),
            output: BufReader::new(output.ok_or("no pipe")?),
            now_ms: 0,
            packets: VecDeque::new(),
            messages: VecDeque::new(),
            refused: false,
            is_up: false,
            is_down: false,
        };
        for setting in settings.bytes() {
            peer.tell(setting, &[]);
        }
        if listens {
            peer.tell(b'L', &[]);
        }
        Ok(peer)
    }

    /// Sends a frame and takes what follows from it.
    fn tell(&mut self, kind: u8, octets: &[u8]) {
        self.try_tell(kind, octets).expect("the program goes on");
    }

    fn try_tell(&mut self, kind: u8, octets: &[u8]) -> io::Result<()> {
        self.input.write_all(&[kind])?;
        self.input.write_all(&(octets.len() as u32).to_le_bytes())?;
        self.input.write_all(octets)?;
        self.input.flush()?;
        loop {
            let mut head = [0; 5];
            self.output.read_exact(&mut head)?;
            let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            let mut octets = vec![0; len as usize];
            self.output.read_exact(&mut octets)?;
            match head[0] {
                b'p' => self.packets.push_back(octets),
                b'm' => {
                    let label = Label {
                        stream: u16::from_le_bytes([octets[0], octets[1]]),
                        ppid: u32::from_be_bytes([octets[2], octets[3], octets[4], octets[5]]),
                    };
                    self.messages.push_back((label, octets.split_off(7)));
                }
                b'u' => self.is_up = true,
                b'd' => self.is_down = true,
                b'f' => self.refused = true,
                _ => return Ok(()),
            }
        }
    }

    fn advance(&mut self, now: u64) {
        let now_ms = now / 1_000_000;
        let elapsed = now_ms.saturating_sub(self.now_ms);
        if elapsed > 0 {
            self.now_ms = now_ms;
            self.tell(b'T', &(elapsed as u32).to_le_bytes());
        }
    }
}

/// Where Debian has the header of the library.
const HEADER: &str = "/usr/include/usrsctp.h";

/// Whether the library's header has the option, which Debian's 0.9.5 has not.
fn offers_interleaving() -> bool {
    let header = std::fs::read_to_string(HEADER).unwrap_or_default();
    header.contains("SCTP_INTERLEAVING_SUPPORTED")
}

/// Compiles the program that speaks for usrsctp.
///
/// # Errors
///
/// What is missing here.
///
/// # Panics
///
/// The library is here, and the program does not compile: that is no reason to skip.
fn compile(folder: &Path) -> Result<std::path::PathBuf, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../usrsctp/usrsctp_peer.c");
    // Tests run side by side, each with a program of its own.
    let program = folder.join(format!("usrsctp_peer_{:?}", std::thread::current().id()));
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .args([program.as_path(), Path::new(source)])
        .args(["-lusrsctp", "-lpthread"])
        .output()
        .map_err(|error| format!("cc: {error}; apt-get install gcc"))?;
    if !built.status.success() {
        assert!(
            !Path::new(HEADER).exists(),
            "usrsctp is here, but its program does not compile: {}",
            String::from_utf8_lossy(&built.stderr)
        );
        return Err("usrsctp is absent: apt-get install libusrsctp-dev".into());
    }
    Ok(program)
}

impl Drop for Usrsctp {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stack for Usrsctp {
    fn name(&self) -> &'static str {
        "usrsctp"
    }

    fn connect(&mut self, now: u64) {
        self.advance(now);
        self.tell(b'C', &[]);
    }

    fn handle_packets(&mut self, now: u64, octets: &[u8], len: usize) {
        self.advance(now);
        for packet in octets.chunks(len) {
            self.tell(b'P', packet);
        }
    }

    fn poll_packets(&mut self, _now: u64) -> Option<Packets> {
        self.packets.pop_front().map(Packets::one)
    }

    fn handle_timeout(&mut self, now: u64) {
        self.advance(now);
    }

    fn poll_timeout(&self) -> Option<u64> {
        Some((self.now_ms + TICK_MS) * 1_000_000)
    }

    fn send(&mut self, now: u64, label: Label, order: Order, bytes: &[u8]) -> bool {
        self.advance(now);
        let mut frame = label.stream.to_le_bytes().to_vec();
        frame.extend(label.ppid.to_be_bytes());
        frame.push(u8::from(order.is_unordered()) | u8::from(order.is_once()) << 1);
        frame.extend_from_slice(bytes);
        self.refused = false;
        self.tell(b'M', &frame);
        !self.refused
    }

    fn receive(&mut self, _now: u64, bytes: &mut Vec<u8>) -> Option<Label> {
        let (label, payload) = self.messages.pop_front()?;
        bytes.extend_from_slice(&payload);
        Some(label)
    }

    fn reset(&mut self, _: u64, streams: &[u16]) -> bool {
        self.refused = false;
        let octets: Vec<u8> = streams
            .iter()
            .flat_map(|stream| stream.to_le_bytes())
            .collect();
        self.tell(b'R', &octets);
        !self.refused
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn is_down(&self) -> bool {
        self.is_down
    }

    fn shutdown(&mut self, now: u64) {
        self.advance(now);
        self.tell(b'S', &[]);
    }

    fn ends_surely(&self) -> bool {
        true
    }
}
