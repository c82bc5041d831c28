//! `capture`: messages that pass are written to a pcapng file.

use ::capture::{Direction, FileLimit, InterfaceId, LinkType, PacketBlock, PcapngWriter};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use streams::{Block, Context, Message, MessageKind, Module, ModuleInfo, Side};

/// Octets of a message that are written.
const SNAP_LEN: usize = 256;

/// Octets of a file: after a quarter of a million messages of that length it takes no more.
const FILE_MAX: u64 = 100 << 20;

/// Number of the next file of this process.
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

/// Writes what passes to a file, and passes it on. An error of the file ends the capture and not the
/// stream.
pub(super) struct CaptureModule {
    writer: Option<PcapngWriter<BufWriter<File>>>,
    interface: InterfaceId,
    written: Arc<AtomicU64>,
}

impl CaptureModule {
    /// A capture into a new file of `folder`. Errors: the file cannot be made; the text names it.
    pub(super) fn create(folder: &Path) -> io::Result<CaptureModule> {
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}.pcapng", std::process::id()));
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("capture to {}: {error}", path.display()),
            )
        };
        let file = File::create_new(&path).map_err(named)?;
        let limit = FileLimit {
            packets: None,
            octets: Some(FILE_MAX),
        };
        let mut writer = PcapngWriter::new(BufWriter::new(file), "messages of a stream", limit)?;
        let snap_len = SNAP_LEN as u32;
        let interface = writer.interface("stream", LinkType::User, snap_len, "")?;
        Ok(CaptureModule {
            writer: Some(writer),
            interface,
            written: Arc::default(),
        })
    }

    /// Messages written so far.
    pub(super) fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }

    fn write(&mut self, side: Side, message: &Message) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let mut start = [0; SNAP_LEN];
        let len = message.copy_data(0, &mut start);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let packet = PacketBlock {
            interface: self.interface,
            at_ns: since.map_or(0, |since| since.as_nanos() as u64),
            octets: &start[..len],
            original_len: message.data.iter().map(Block::len).sum(),
            direction: Some(match side {
                Side::Write => Direction::Sent,
                Side::Read => Direction::Received,
            }),
            comment: "",
        };
        match writer.packet(&packet) {
            Ok(true) => _ = self.written.fetch_add(1, Ordering::Relaxed),
            Ok(false) | Err(_) => self.writer = None,
        }
    }
}

impl Module for CaptureModule {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("capture")
    }

    fn close(&mut self, _: &mut Context<'_>) {
        if let Some(writer) = self.writer.take() {
            // Nobody is left to tell.
            let _ = writer.finish();
        }
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        if message.kind() == MessageKind::Data {
            self.write(side, &message);
        }
        context.put_next(side, message);
    }
}
