//! UDP with the shortcut between processes of one host.

use crate::medium::{Medium, OpenedWire, UdpMedium};
use crate::options::Options;
use crate::xtp::Shortcut;
use engine::Address;
use std::io;
use std::os::fd::BorrowedFd;
use wire_shortcut::{ShortcutHandle, ShortcutWire};
use wire_udp::UdpWire;

/// UDP, and rings to peers that have them.
pub(crate) struct ShortcutMedium(pub(crate) Shortcut);

impl ShortcutMedium {
    fn over(&self, opened: OpenedWire<UdpWire>) -> io::Result<OpenedWire<ShortcutWire>> {
        Ok(OpenedWire {
            wire: self.0.wire(opened.wire)?,
            rendezvous_entry: opened.rendezvous_entry,
            port: opened.port,
        })
    }
}

impl Medium for ShortcutMedium {
    type Wire = ShortcutWire;

    fn listen(&self, options: &Options) -> io::Result<OpenedWire<ShortcutWire>> {
        self.over(UdpMedium.listen(options)?)
    }

    fn connect(
        &self,
        line: &[u8],
        options: &Options,
    ) -> io::Result<(OpenedWire<ShortcutWire>, Address)> {
        let (opened, peer) = UdpMedium.connect(line, options)?;
        let opened = self.over(opened)?;
        if let (Some(handle), Address::Socket(peer)) = (opened.wire.handle(), peer) {
            handle.offer_to(peer);
        }
        Ok((opened, peer))
    }

    fn sockets(wire: &ShortcutWire) -> Vec<BorrowedFd<'_>> {
        UdpMedium::sockets(wire.udp())
    }

    fn shortcut(wire: &ShortcutWire) -> Option<ShortcutHandle> {
        wire.handle()
    }

    fn restrict_to_peer(wire: &ShortcutWire, peer: Address) -> io::Result<()> {
        UdpMedium::restrict_to_peer(wire.udp(), peer)
    }

    fn disable_receive_timeout(wire: &mut ShortcutWire) -> io::Result<()> {
        UdpMedium::disable_receive_timeout(wire.udp_mut())
    }

    fn splice(wire: &mut ShortcutWire, wanted: bool) -> io::Result<&'static str> {
        match wire.handle() {
            None => UdpMedium::splice(wire.udp_mut(), wanted),
            Some(_) if wanted => Ok("off: with a shortcut"),
            Some(_) => Ok("off"),
        }
    }

    fn segmentation(
        wire: &mut ShortcutWire,
        wanted: bool,
        packet_len: usize,
    ) -> io::Result<String> {
        UdpMedium::segmentation(wire.udp_mut(), wanted, packet_len)
    }
}
