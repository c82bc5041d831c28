//! Structures of `xti.h`.

use libc::{c_int, c_uint, c_void, size_t};

/// `struct netbuf`.
#[repr(C)]
pub struct NetBuf {
    /// Octets of the buffer.
    pub maxlen: c_uint,
    /// Octets that are used.
    pub len: c_uint,
    /// The buffer.
    pub buf: *mut c_void,
}

/// `struct t_bind`.
#[repr(C)]
pub struct TBind {
    /// The address.
    pub addr: NetBuf,
    /// Connections that may wait.
    pub qlen: c_uint,
}

/// `struct t_call`.
#[repr(C)]
pub struct TCall {
    /// The address.
    pub addr: NetBuf,
    /// Options.
    pub opt: NetBuf,
    /// Data of the user.
    pub udata: NetBuf,
    /// Which connection.
    pub sequence: c_int,
}

/// `struct t_discon`.
#[repr(C)]
pub struct TDiscon {
    /// Data of the user.
    pub udata: NetBuf,
    /// Why: the system's number.
    pub reason: c_int,
    /// Which connection.
    pub sequence: c_int,
}

/// `struct t_unitdata`.
#[repr(C)]
pub struct TUnitData {
    /// The address.
    pub addr: NetBuf,
    /// Options.
    pub opt: NetBuf,
    /// Data of the user.
    pub udata: NetBuf,
}

/// `struct t_uderr`.
#[repr(C)]
pub struct TUdErr {
    /// The address.
    pub addr: NetBuf,
    /// Options.
    pub opt: NetBuf,
    /// Why: the system's number.
    pub error: i32,
}

/// `struct t_optmgmt`.
#[repr(C)]
pub struct TOptMgmt {
    /// Options.
    pub opt: NetBuf,
    /// What is asked, and the worst answer.
    pub flags: i32,
}

/// `struct t_info`.
#[repr(C)]
pub struct TInfo {
    /// Octets of an address.
    pub addr: i32,
    /// Octets of options.
    pub options: i32,
    /// Octets of a message.
    pub tsdu: i32,
    /// Octets of an expedited message.
    pub etsdu: i32,
    /// Octets of data with a connect.
    pub connect: i32,
    /// Octets of data with a disconnect.
    pub discon: i32,
    /// Kind of service.
    pub servtype: i32,
    /// What else the provider can.
    pub flags: i32,
}

/// `struct t_iovec`.
#[repr(C)]
pub struct TIoVec {
    /// The buffer.
    pub iov_base: *mut c_void,
    /// Its octets.
    pub iov_len: size_t,
}

impl NetBuf {
    /// What the program has put into the buffer.
    ///
    /// # Safety
    ///
    /// `buf` is null or has `len` octets, which nobody changes meanwhile.
    pub(super) unsafe fn octets(&self) -> &[u8] {
        if self.buf.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.buf.cast(), self.len as usize) }
    }

    /// Puts octets into the buffer; false when they do not fit (TBUFOVFLW). With a `maxlen` of 0 the program does
    /// not want them.
    ///
    /// # Safety
    ///
    /// `buf` is null or has room for `maxlen` octets.
    pub(super) unsafe fn put(&mut self, octets: &[u8]) -> bool {
        self.len = 0;
        if self.maxlen == 0 || self.buf.is_null() {
            return true;
        }
        if octets.len() > self.maxlen as usize {
            return false;
        }
        // SAFETY: the caller's promise; the octets are the library's own.
        unsafe { std::ptr::copy_nonoverlapping(octets.as_ptr(), self.buf.cast(), octets.len()) };
        self.len = octets.len() as c_uint;
        true
    }

    /// The whole buffer, to receive into.
    ///
    /// # Safety
    ///
    /// `buf` is null or has room for `maxlen` initialised octets, which nobody else uses meanwhile.
    pub(super) unsafe fn room(&mut self) -> &mut [u8] {
        if self.buf.is_null() || self.maxlen == 0 {
            return &mut [];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.buf.cast(), self.maxlen as usize) }
    }
}
