//! A packet socket for one port.

use crate::frame::{EtherAddress, FrameHeader, HEADER_LEN, PAYLOAD_MAX, SUBHEADER_LEN};
use crate::packet::{self, OutgoingFrames, PacketSocketOptions};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it.
    pub index: u32,
    /// Its hardware address; zeros on the loopback.
    pub hardware: [u8; 6],
    /// Octets of its largest packet, the Ethernet header not counted.
    pub mtu: usize,
}

impl Interface {
    /// Looks up the interface called `name` in this network namespace.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none, or what the kernel says.
    pub fn find(name: &str) -> io::Result<Interface> {
        sys::interface(name)
    }

    /// User bytes of the largest frame.
    pub fn payload_max(&self) -> usize {
        self.mtu.saturating_sub(SUBHEADER_LEN).min(PAYLOAD_MAX)
    }
}

/// A packet socket that receives the frames of one type for one port.
#[derive(Debug)]
pub struct EtherSocket {
    socket: OwnedFd,
    interface: Interface,
    ethertype: u16,
    port: u16,
}

impl EtherSocket {
    /// Opens a socket on `interface` for `port`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` without CAP_NET_RAW, else what the kernel says.
    pub fn open(interface: Interface, ethertype: u16, port: u16) -> io::Result<EtherSocket> {
        let opening = PacketSocketOptions {
            ethertype,
            port: Some(port),
            outgoing: OutgoingFrames::Received,
            timestamped: false,
            receive_buffer: None,
            nonblocking: false,
        };
        let (socket, _) = packet::open(&interface, &opening)?;
        Ok(EtherSocket {
            socket,
            interface,
            ethertype,
            port,
        })
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors.
    pub fn try_clone(&self) -> io::Result<EtherSocket> {
        Ok(EtherSocket {
            socket: self.socket.try_clone()?,
            ..*self
        })
    }

    /// Where peers reach it.
    pub fn address(&self) -> EtherAddress {
        EtherAddress {
            hardware: self.interface.hardware,
            port: self.port,
        }
    }

    /// The interface it is on.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The header of frames to `to`, with the length to be filled in.
    pub fn header(&self, to: EtherAddress) -> FrameHeader {
        FrameHeader {
            to,
            from: self.address(),
            ethertype: self.ethertype,
            len: 0,
        }
    }

    /// Sends `bytes` behind `header`, whose length is set here; `block` waits for room as long as
    /// the socket's timeout says.
    ///
    /// # Errors
    ///
    /// EMSGSIZE beyond the largest frame, ENOBUFS when the interface's queue is full, else what the
    /// kernel says.
    #[inline]
    pub fn send(&self, header: &mut FrameHeader, bytes: &[u8], block: bool) -> Result<(), Errno> {
        if bytes.len() > self.interface.payload_max() {
            return Err(Errno::MSGSIZE);
        }
        header.len = bytes.len() as u16;
        let front = header.emit();
        let slices = [IoSlice::new(&front), IoSlice::new(bytes)];
        let flags = if block {
            SendFlags::empty()
        } else {
            SendFlags::DONTWAIT
        };
        sendmsg(
            &self.socket,
            &slices,
            &mut SendAncillaryBuffer::default(),
            flags,
        )?;
        Ok(())
    }

    /// Receives one frame: its header; the user's bytes are in `buffer`, cut off at its end.
    ///
    /// None is a frame that lies about its length, which is dropped.
    ///
    /// # Errors
    ///
    /// EAGAIN when nothing is there; `block` waits as long as the socket's timeout says.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], block: bool) -> Result<Option<FrameHeader>, Errno> {
        let mut front = [0; HEADER_LEN];
        let flags = if block {
            RecvFlags::TRUNC
        } else {
            RecvFlags::TRUNC | RecvFlags::DONTWAIT
        };
        let mut slices = [IoSliceMut::new(&mut front), IoSliceMut::new(buffer)];
        let mut control = RecvAncillaryBuffer::default();
        let got = recvmsg(&self.socket, &mut slices, &mut control, flags)?;
        // With TRUNC the kernel tells the frame's own length, cut off or not.
        let arrived = got.bytes.checked_sub(HEADER_LEN);
        Ok(arrived.and_then(|arrived| FrameHeader::parse(&front, arrived)))
    }
}

impl AsFd for EtherSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
