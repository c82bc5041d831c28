//! Socket addresses in the kernel's form.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A sockaddr with its length.
pub struct RawAddress {
    /// Room for any address; the first `len` octets are used.
    pub storage: libc::sockaddr_storage,
    /// Octets used.
    pub len: libc::socklen_t,
}

impl RawAddress {
    /// Room for an address that the kernel fills in.
    pub fn zeroed() -> RawAddress {
        // SAFETY: sockaddr_storage is plain data for which all zeros is a value.
        let storage = unsafe { mem::zeroed() };
        RawAddress {
            storage,
            len: mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    /// An Internet address.
    pub fn new(address: SocketAddr) -> RawAddress {
        let mut raw = RawAddress::zeroed();
        match address {
            SocketAddr::V4(v4) => raw.write(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => raw.write(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            }),
        }
        raw
    }

    fn write<T: Copy>(&mut self, value: T) {
        const { assert!(mem::size_of::<T>() <= mem::size_of::<libc::sockaddr_storage>()) };
        // SAFETY: the storage is larger than T and aligned for every socket address.
        unsafe { (&raw mut self.storage).cast::<T>().write(value) };
        self.len = mem::size_of::<T>() as libc::socklen_t;
    }

    /// The address, if it is an Internet one.
    pub fn to_socket(&self) -> Option<SocketAddr> {
        match i32::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that a sockaddr_in lies in the storage.
                let v4 = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that a sockaddr_in6 lies in the storage.
                let v6 = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}
