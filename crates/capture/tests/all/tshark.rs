//! Files as tshark reads them.

use std::path::Path;
use std::process::Command;

/// A packet as tshark sees it.
#[derive(Debug)]
pub struct TsharkPacket {
    /// The protocol it names.
    pub protocol: String,
    /// Time in ns, exactly.
    pub at_ns: u64,
    /// Original length.
    pub len: usize,
    /// Name of its interface.
    pub interface: String,
    /// `Good` is 1, for IP and for XTP.
    pub ip_check: String,
    pub xtp_check: String,
    /// Format of an XTP packet.
    pub format: Option<u8>,
    pub seq: Option<u64>,
    pub comment: String,
    /// Faults that tshark found.
    pub malformed: String,
    pub expert: String,
}

const FIELDS: [&str; 11] = [
    "_ws.col.Protocol",
    "frame.time_epoch",
    "frame.len",
    "frame.interface_name",
    "ip.checksum.status",
    "xtp.checksum.status",
    "xtp.cmd.ptype.pformat",
    "xtp.seq",
    "frame.comment",
    "_ws.malformed",
    "_ws.expert.message",
];

/// Every packet of `file`, or None where there is no tshark.
pub fn read(file: &Path) -> Option<Vec<TsharkPacket>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    command.args(["-E", "separator=/t", "-E", "occurrence=a"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let Ok(output) = command.arg("-r").arg(file).output() else {
        eprintln!("SKIPPED: tshark is not installed");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(line).collect())
}

fn line(text: &str) -> TsharkPacket {
    let fields: Vec<&str> = text.split('\t').collect();
    assert_eq!(fields.len(), FIELDS.len(), "{text:?}");
    TsharkPacket {
        protocol: fields[0].into(),
        at_ns: nanoseconds(fields[1]),
        len: fields[2].parse().expect("a length"),
        interface: fields[3].into(),
        ip_check: fields[4].into(),
        xtp_check: fields[5].into(),
        format: fields[6].parse().ok(),
        seq: fields[7].parse().ok(),
        comment: fields[8].into(),
        malformed: fields[9].into(),
        expert: fields[10].into(),
    }
}

/// `5.000000007` as 5000000007.
fn nanoseconds(text: &str) -> u64 {
    let (seconds, rest) = text.split_once('.').expect("a fraction");
    assert_eq!(rest.len(), 9, "nine digits in {text}");
    let number = |text: &str| text.parse::<u64>().expect("digits");
    number(seconds) * 1_000_000_000 + number(rest)
}

impl TsharkPacket {
    /// Panics unless it is a good packet of XTP.
    pub fn assert_good_xtp(&self) {
        assert_eq!(self.protocol, "XTP", "{self:?}");
        assert_eq!(self.ip_check, "1", "{self:?}");
        assert_eq!(self.xtp_check, "1", "{self:?}");
        assert_eq!(self.malformed, "", "{self:?}");
        assert_eq!(self.expert, "", "{self:?}");
    }
}
