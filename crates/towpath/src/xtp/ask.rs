//! MGMT of XTP 3.x: questions to an endpoint or router of another host, which answers hosts that it allows (decision 0008, MGMT).

use crate::engine_setup::random_seed;
use crate::socket::wildcard_address;
use engine_xtp::management::{ManagementAnswer, NAME_LEN, Question};
use engine_xtp::pdu::Version;
use engine_xtp::pdu::v3::{
    BodyV3, HeaderV3, InformationSegment, OP_REQUEST, OP_RESPONSE, PacketKind, PacketV3, RTN_V3,
};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

pub use engine_xtp::management::{RECORD_LEN_MAX, Subject};

/// Octets of a question, and so of its answer: they fit an Ethernet frame over IPv6.
const QUESTION_LEN: usize = 1384;

/// Records of an answer at most.
const RECORDS_MAX: usize = 100_000;

/// How often a question is sent until it is answered.
const TRIES: u32 = 5;

/// Asks the host at `to` about `subject`: a line of `KEY=VALUE` for each association, route or counter. Each question
/// waits up to `limit` for its answer, a fifth of it for each of five tries.
///
/// # Errors
///
/// `InvalidInput` for XTP 4.0, which has no MGMT; `PermissionDenied` when the host refuses; `TimedOut` without an answer; those
/// of the socket.
pub fn ask(
    to: SocketAddr,
    version: Version,
    subject: Subject,
    limit: Duration,
) -> io::Result<Vec<String>> {
    if !version.is_v3() {
        let text = "XTP 4.0 has no MGMT; choose dialect 3.6, 3.5 or 3.3";
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    let socket = UdpSocket::bind(wildcard_address(&to))?;
    socket.connect(to)?;
    let asking = Asking {
        socket,
        version,
        key: random_seed() as u32 & !RTN_V3,
    };
    let mut records = Vec::new();
    let mut from = Some(0);
    while let Some(first) = from.take_if(|_| records.len() < RECORDS_MAX) {
        let mut name = [0; NAME_LEN];
        name[..8].copy_from_slice(&random_seed().to_be_bytes());
        let question = Question {
            name,
            subject,
            from: first,
        };
        let answer = asking.repeat(&question, limit)?;
        records.extend(answer.records);
        from = answer.next;
    }
    Ok(records)
}

/// What the questions to a host share.
struct Asking {
    socket: UdpSocket,
    version: Version,
    key: u32,
}

impl Asking {
    /// Sends a question until it is answered.
    fn repeat(&self, question: &Question, limit: Duration) -> io::Result<ManagementAnswer> {
        let packet = self.packet(&question.encode(QUESTION_LEN));
        for _ in 0..TRIES {
            self.socket.send(&packet)?;
            let end = Instant::now() + limit / TRIES;
            if let Some(answer) = self.answer(question, end)? {
                return Ok(answer);
            }
        }
        let text =
            "no answer: an endpoint of this dialect, or a router, answers those of its managers";
        Err(io::Error::new(ErrorKind::TimedOut, text))
    }

    fn packet(&self, octets: &[u8]) -> Vec<u8> {
        let body = BodyV3::Mgmt(InformationSegment {
            op: OP_REQUEST,
            octets,
        });
        let header = HeaderV3 {
            key: self.key,
            ..HeaderV3::plain(PacketKind::Mgmt, 0, 1)
        };
        PacketV3 { header, body }.emit(self.version)
    }

    /// The answer to `question`; None when there is none until `end`.
    fn answer(&self, question: &Question, end: Instant) -> io::Result<Option<ManagementAnswer>> {
        let mut packet = [0; 2048];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let least = Duration::from_micros(1);
            self.socket.set_read_timeout(Some(left.max(least)))?;
            let len = match self.socket.recv(&mut packet) {
                Ok(len) => len,
                Err(error) if is_retry(&error) => continue,
                Err(error) => return Err(error),
            };
            if let Some(read) = self.read(&packet[..len], question) {
                return read.map(Some);
            }
        }
    }

    /// What a packet says to the question; None for other packets.
    fn read(&self, packet: &[u8], question: &Question) -> Option<io::Result<ManagementAnswer>> {
        let parsed = PacketV3::parse(self.version, packet).ok()?;
        if parsed.header.key != self.key ^ RTN_V3 {
            return None;
        }
        match parsed.body {
            BodyV3::Mgmt(InformationSegment { op, octets }) if op == OP_RESPONSE => {
                ManagementAnswer::decode(octets, question).map(Ok)
            }
            BodyV3::Diag(_) => {
                let text = "it refuses: this host is none of its managers; name it there with managers=ADDR";
                Some(Err(io::Error::new(ErrorKind::PermissionDenied, text)))
            }
            _ => None,
        }
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
