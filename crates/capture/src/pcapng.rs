//! The pcapng format (draft-ietf-opsawg-pcapng), as far as it is needed to write packets.
//!
//! A file is a sequence of blocks: one section header, a description of each interface, packets,
//! and at the end each interface's statistics. A truncated file is readable up to the truncation.

use std::io::{self, Write};

/// Writes packets to `out` as pcapng.
///
/// The first error of `out` ends the file: later calls return it again. `out` is flushed by
/// [`finish`](PcapngWriter::finish) or when the writer is dropped.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    /// None after `finish`.
    out: Option<W>,
    limit: FileLimit,
    interfaces: u32,
    packets: u64,
    written: u64,
    failed: Option<(io::ErrorKind, String)>,
    /// The block being built.
    block: Vec<u8>,
}

/// Limit of a file. The first packet beyond it is left out, and so are all after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileLimit {
    /// Packets; None for any number.
    pub packets: Option<u64>,
    /// Octets of the file up to the last packet; None for any number.
    pub octets: Option<u64>,
}

/// Link type of an interface, as numbered by <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
    /// What only its users know (LINKTYPE_USER0).
    User,
    /// Records of ERF: ATM cells (LINKTYPE_ERF).
    Erf,
}

/// An interface of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceId(u32);

/// Direction of a packet at its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Inbound.
    Received,
    /// Outbound.
    Sent,
}

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct PacketBlock<'a> {
    /// The interface it crossed.
    pub interface: InterfaceId,
    /// Timestamp: ns since 1970-01-01 UTC, or since the start of virtual time.
    pub at_ns: u64,
    /// Its octets, possibly truncated.
    pub octets: &'a [u8],
    /// Its original length.
    pub original_len: usize,
    /// Direction, where known.
    pub direction: Option<Direction>,
    /// Comment for a reader; empty for none.
    pub comment: &'a str,
}

/// Packet counts of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Time of the counts, on the clock of the packets.
    pub at_ns: u64,
    /// Packets that crossed the interface.
    pub received: u64,
    /// Of these, packets the kernel dropped because the file was not written fast enough.
    pub dropped: u64,
}

/// Block types, section 4.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Option codes; each block type has its own from 2 on.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const SECTION_PROGRAM: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// Timestamps in units of 10^-9 s.
const NANOSECONDS: [u8; 1] = [9];

/// Longest option: the largest multiple of 4 that fits a 16-bit length.
const OPTION_MAX: usize = 0xfffc;

impl LinkType {
    fn code(self) -> u16 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::Ip => 101,
            LinkType::User => 147,
            LinkType::Erf => 197,
        }
    }
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a file; `comment` describes it and may be empty.
    pub fn new(out: W, comment: &str, limit: FileLimit) -> io::Result<PcapngWriter<W>> {
        let mut writer = PcapngWriter {
            out: Some(out),
            limit,
            interfaces: 0,
            packets: 0,
            written: 0,
            failed: None,
            block: Vec::new(),
        };
        writer.begin(SECTION);
        // The byte-order magic.
        writer.put(&0x1a2b_3c4d_u32.to_le_bytes());
        writer.put(&1_u16.to_le_bytes());
        writer.put(&0_u16.to_le_bytes());
        // The section's length is unknown.
        writer.put(&u64::MAX.to_le_bytes());
        writer.option(COMMENT, comment.as_bytes());
        writer.option(SECTION_PROGRAM, b"towpath");
        writer.end_options();
        writer.write_block()?;
        Ok(writer)
    }

    /// Adds the interface `name`, whose packets are truncated to `snap_len` octets; 0 for no limit.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn interface(
        &mut self,
        name: &str,
        link: LinkType,
        snap_len: u32,
        comment: &str,
    ) -> io::Result<InterfaceId> {
        self.begin(INTERFACE);
        self.put(&link.code().to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        self.put(&snap_len.to_le_bytes());
        self.option(COMMENT, comment.as_bytes());
        self.option(INTERFACE_NAME, name.as_bytes());
        self.option(INTERFACE_RESOLUTION, &NANOSECONDS);
        self.end_options();
        self.write_block()?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Writes a packet; false when the file is at its limit.
    ///
    /// # Errors
    ///
    /// The first write error, or `InvalidInput` for an interface of another file.
    pub fn packet(&mut self, packet: &PacketBlock<'_>) -> io::Result<bool> {
        let PacketBlock {
            interface,
            at_ns,
            octets,
            ..
        } = *packet;
        if interface.0 >= self.interfaces {
            let text = format!("the file has no interface number {}", interface.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.begin(PACKET);
        self.put(&interface.0.to_le_bytes());
        self.put_time(at_ns);
        self.put(&count(octets.len()).to_le_bytes());
        self.put(&count(packet.original_len).to_le_bytes());
        self.put(octets);
        self.pad();
        self.option(COMMENT, packet.comment.as_bytes());
        if let Some(direction) = packet.direction {
            let flags: u32 = match direction {
                Direction::Received => 1,
                Direction::Sent => 2,
            };
            self.option(PACKET_FLAGS, &flags.to_le_bytes());
        }
        self.end_options();
        if self.is_full() {
            self.limit.packets = Some(self.packets);
            return Ok(false);
        }
        self.write_block()?;
        self.packets += 1;
        Ok(true)
    }

    /// Writes the packet counts of an interface, usually at the end.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn statistics(&mut self, id: InterfaceId, statistics: &Statistics) -> io::Result<()> {
        self.begin(STATISTICS);
        self.put(&id.0.to_le_bytes());
        self.put_time(statistics.at_ns);
        self.option(STATISTICS_RECEIVED, &statistics.received.to_le_bytes());
        self.option(STATISTICS_DROPPED, &statistics.dropped.to_le_bytes());
        self.end_options();
        self.write_block()
    }

    /// Packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Octets of the file so far.
    pub fn octets(&self) -> u64 {
        self.written
    }

    /// Flushes the file and returns its output.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn finish(mut self) -> io::Result<W> {
        self.check()?;
        let mut out = self.out.take().expect("only finish takes it");
        out.flush()?;
        Ok(out)
    }

    /// Whether the current block would exceed the limit.
    fn is_full(&self) -> bool {
        let octets = self.written + self.block.len() as u64 + 4;
        self.limit.packets.is_some_and(|max| self.packets >= max)
            || self.limit.octets.is_some_and(|max| octets > max)
    }

    fn check(&self) -> io::Result<()> {
        match &self.failed {
            None => Ok(()),
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
        }
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, octets: &[u8]) {
        self.block.extend_from_slice(octets);
    }

    fn put_time(&mut self, at_ns: u64) {
        self.put(&((at_ns >> 32) as u32).to_le_bytes());
        self.put(&(at_ns as u32).to_le_bytes());
    }

    fn pad(&mut self) {
        let len = self.block.len().next_multiple_of(4);
        self.block.resize(len, 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(OPTION_MAX)];
        if code == COMMENT && value.is_empty() {
            return;
        }
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end_options(&mut self) {
        self.option(END_OF_OPTIONS, &[]);
    }

    /// Fills in both lengths of the block and writes it.
    fn write_block(&mut self) -> io::Result<()> {
        self.check()?;
        let len = count(self.block.len() + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend_from_slice(&len);
        let out = self.out.as_mut().expect("only finish takes it");
        if let Err(error) = out.write_all(&self.block) {
            self.failed = Some((error.kind(), error.to_string()));
            return Err(error);
        }
        self.written += self.block.len() as u64;
        Ok(())
    }
}

impl<W: Write> Drop for PcapngWriter<W> {
    fn drop(&mut self) {
        if let Some(out) = &mut self.out {
            // `finish` returns errors; drop ignores them.
            let _ = out.flush();
        }
    }
}

/// A length as 32 bits. No block comes near 4 GiB.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: InterfaceId, octets: &[u8]) -> PacketBlock<'_> {
        PacketBlock {
            interface: id,
            at_ns: 5_000_000_007,
            octets,
            original_len: octets.len(),
            direction: Some(Direction::Sent),
            comment: "",
        }
    }

    /// The types and lengths of all blocks; panics when they do not fill the file.
    fn blocks(file: &[u8]) -> Vec<(u32, usize)> {
        let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 octets"));
        let mut found = Vec::new();
        let mut at = 0;
        while at < file.len() {
            let len = number(at + 4) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(number(at + len - 4) as usize, len);
            found.push((number(at), len));
            at += len;
        }
        found
    }

    #[test]
    fn file_consists_of_whole_blocks() {
        let mut writer =
            PcapngWriter::new(Vec::new(), "two words", FileLimit::default()).expect("a vector");
        let id = writer.interface("a", LinkType::Ip, 0, "").expect("room");
        for len in 0..5 {
            assert!(writer.packet(&packet(id, &vec![7; len])).expect("room"));
        }
        writer.statistics(id, &Statistics::default()).expect("room");
        let octets = writer.octets();
        let file = writer.finish().expect("a vector");
        assert_eq!(octets, file.len() as u64);
        let kinds: Vec<u32> = blocks(&file).iter().map(|block| block.0).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, 6, 6, 6, 6, 6, STATISTICS]);
    }

    #[test]
    fn file_limits_hold_for_all_later_packets() {
        let start = PcapngWriter::new(Vec::new(), "", FileLimit::default()).expect("a vector");
        let room = start.octets() + 200;
        for limit in [
            FileLimit {
                packets: Some(2),
                octets: None,
            },
            FileLimit {
                packets: None,
                octets: Some(room),
            },
        ] {
            let mut writer = PcapngWriter::new(Vec::new(), "", limit).expect("a vector");
            let id = writer.interface("a", LinkType::Ip, 0, "").expect("room");
            let big = [0; 1000];
            let mut taken = 0;
            for len in [4, 4, 1000, 4] {
                let wrote = writer.packet(&packet(id, &big[..len])).expect("no error");
                taken += u32::from(wrote);
            }
            assert_eq!(taken, 2, "{limit:?}");
            assert_eq!(writer.packets(), 2);
            assert!(limit.octets.is_none_or(|max| writer.octets() <= max));
        }
    }

    #[test]
    fn interface_id_of_another_file_is_rejected() {
        let mut one = PcapngWriter::new(Vec::new(), "", FileLimit::default()).expect("a vector");
        let mut other = PcapngWriter::new(Vec::new(), "", FileLimit::default()).expect("a vector");
        let id = one.interface("a", LinkType::Ip, 0, "").expect("room");
        let error = other.packet(&packet(id, &[])).expect_err("not its own");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    /// Fails after so many octets; counts flushes.
    struct Full<'a>(usize, &'a mut u32);

    impl Write for Full<'_> {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(octets.len())
                .ok_or_else(|| io::Error::other("disk full"))?;
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            *self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn first_write_error_is_kept_and_drop_flushes() {
        let mut flushes = 0;
        let mut writer =
            PcapngWriter::new(Full(150, &mut flushes), "", FileLimit::default()).expect("room");
        let id = writer.interface("a", LinkType::Ip, 0, "").expect("room");
        assert!(writer.packet(&packet(id, &[0; 100])).is_err());
        let again = writer.packet(&packet(id, &[])).expect_err("it is over");
        assert!(again.to_string().contains("disk full"));
        drop(writer);
        assert_eq!(flushes, 1);
    }
}
