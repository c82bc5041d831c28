//! The shortcut between endpoints of one host: see crate `wire-shortcut`.

use super::ring_capture;
use std::io;
use std::path::PathBuf;
use wire_shortcut::{BootId, MeetingPlace, ShortcutWire};
use wire_udp::UdpWire;

/// Whether an endpoint exchanges packets with endpoints of its host, of the same user, through shared memory.
/// Both ends have to want it; to all others packets go by UDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shortcut {
    /// No offers are made or answered.
    #[default]
    Off,
    /// With endpoints of this network namespace.
    On,
    /// With endpoints that see this directory too, also of other network namespaces.
    Directory(PathBuf),
}

impl Shortcut {
    /// On where the kernel lets processes of one boot know each other; for programs whose peers may be on this
    /// host or not.
    pub fn where_possible() -> Shortcut {
        match BootId::of_this_host() {
            Some(_) => Shortcut::On,
            None => Shortcut::Off,
        }
    }

    /// The value of the option. The error is a sentence that names the option and its valid values.
    pub(crate) fn parse(value: &str) -> Result<Shortcut, String> {
        match value {
            "off" => Ok(Shortcut::Off),
            "on" => Ok(Shortcut::On),
            path if path.starts_with('/') => Ok(Shortcut::Directory(PathBuf::from(path))),
            _ => Err(format!(
                "shortcut={value} is not possible; choose off, on, or the whole path of a directory, such as \
                 /run/towpath"
            )),
        }
    }

    /// The value, as results show it.
    pub(crate) fn name(&self) -> String {
        match self {
            Shortcut::Off => "off".to_owned(),
            Shortcut::On => "on".to_owned(),
            Shortcut::Directory(directory) => directory.display().to_string(),
        }
    }

    /// The wire of an endpoint on `udp`.
    /// Fails with `Unsupported` where the kernel shows no boot identifier, `NotFound` for a directory that is none,
    /// and a capture of rings that cannot be written.
    pub(crate) fn wire(&self, udp: UdpWire) -> io::Result<ShortcutWire> {
        let place = match self {
            Shortcut::Off => return Ok(ShortcutWire::off(udp)),
            Shortcut::On => MeetingPlace::Namespace,
            Shortcut::Directory(directory) => MeetingPlace::Directory(directory.clone()),
        };
        let boot = BootId::of_this_host().ok_or_else(|| {
            let text = "the kernel shows no boot identifier in /proc/sys/kernel/random; leave shortcut out";
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        let observer = ring_capture::process_observer(udp.local_addr()?)?;
        let mut wire = ShortcutWire::on(udp, place, boot)?;
        if let Some(observer) = &observer {
            wire.set_observer(observer);
        }
        Ok(wire)
    }
}
