//! A packet socket for one port.

use crate::frame::{EtherAddress, FrameHeader, HEADER_LEN, PAYLOAD_MAX, SUBHEADER_LEN};
use crate::packet::{self, OutgoingFrames, PacketSocketOptions};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index in the kernel.
    pub index: u32,
    /// Its hardware address; zeros on the loopback.
    pub hardware: [u8; 6],
    /// Its MTU: octets of the largest packet without the Ethernet header.
    pub mtu: usize,
}

impl Interface {
    /// Looks up the interface called `name` in this network namespace.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none.
    pub fn find(name: &str) -> io::Result<Interface> {
        sys::interface(name)
    }

    /// The name of the interface that has this address, in the calling thread's network namespace.
    pub fn name_with_address(address: IpAddr) -> Option<String> {
        sys::interface_with_address(address)
    }

    /// User bytes of the largest frame behind a [`FrameHeader`].
    pub fn payload_max(&self) -> usize {
        self.mtu.saturating_sub(SUBHEADER_LEN).min(PAYLOAD_MAX)
    }
}

/// A packet socket for the frames of one EtherType to one port.
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
    /// `PermissionDenied` without CAP_NET_RAW.
    pub fn open(interface: Interface, ethertype: u16, port: u16) -> io::Result<EtherSocket> {
        let opening = PacketSocketOptions {
            ethertype,
            port: Some(port),
            source: None,
            outgoing: OutgoingFrames::Received,
            timestamped: false,
            receive_buffer: None,
            nonblocking: false,
        };
        let (socket, _) = packet::open(&interface, &opening)?;
        Ok(EtherSocket::over(socket, interface, ethertype, port))
    }

    /// The same over a socket that [`packet::open`] has opened, perhaps in another process, for frames of this
    /// EtherType to this port.
    pub fn over(socket: OwnedFd, interface: Interface, ethertype: u16, port: u16) -> EtherSocket {
        EtherSocket {
            socket,
            interface,
            ethertype,
            port,
        }
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

    /// Its hardware address and port.
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

    /// The header of frames to `to`; [`send`](EtherSocket::send) fills in the length.
    pub fn header(&self, to: EtherAddress) -> FrameHeader {
        FrameHeader {
            to,
            from: self.address(),
            ethertype: self.ethertype,
            len: 0,
        }
    }

    /// Sends `bytes` behind `header`, whose length it sets. With `block` it waits for room, up to
    /// the socket's timeout.
    ///
    /// # Errors
    ///
    /// EMSGSIZE beyond the largest frame, ENOBUFS when the interface's queue is full.
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

    /// Receives one frame: returns its header and puts the user's bytes into `buffer`, truncated to
    /// its length. With `block` it waits, up to the socket's timeout.
    ///
    /// None for a frame whose length field exceeds the frame; it is dropped.
    ///
    /// # Errors
    ///
    /// EAGAIN when no frame is waiting.
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
        // With MSG_TRUNC the kernel returns the frame's length, truncated or not.
        let arrived = got.bytes.checked_sub(HEADER_LEN);
        Ok(arrived.and_then(|arrived| FrameHeader::parse(&front, arrived)))
    }
}

impl AsFd for EtherSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
