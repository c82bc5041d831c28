//! Arrays of iovec (readv(2)) that C programs pass.

use std::io;

/// Entries of an iovec array at most (UIO_MAXIOV).
const IOV_MAX: usize = 1024;

/// One buffer as an iovec.
pub(super) fn single_iovec(octets: *const libc::c_void, len: libc::size_t) -> [libc::iovec; 1] {
    [libc::iovec {
        iov_base: octets.cast_mut(),
        iov_len: len,
    }]
}

/// The iovec array that C passed.
///
/// # Safety
///
/// `parts` points to `count` parts.
pub(super) unsafe fn iovecs<'a>(
    parts: *const libc::iovec,
    count: usize,
) -> io::Result<&'a [libc::iovec]> {
    match (parts.is_null() || count == 0, count <= IOV_MAX) {
        (true, _) => Ok(&[]),
        // SAFETY: the caller's promise.
        (_, true) => Ok(unsafe { std::slice::from_raw_parts(parts, count) }),
        _ => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
    }
}

/// Copies the bytes of an iovec array.
///
/// # Safety
///
/// All `parts` may be read.
pub(super) unsafe fn gather(parts: &[libc::iovec]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // POSIX allows a NULL base with length 0, which is no valid slice.
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        if part.iov_base.is_null() {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        // SAFETY: the caller's promise.
        let octets =
            unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
        bytes.extend_from_slice(octets);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn gather_skips_empty_parts_with_null_base() {
        let octets = *b"abc";
        let [whole] = single_iovec(octets.as_ptr().cast(), octets.len());
        let [empty] = single_iovec(null(), 0);
        // SAFETY: the parts are empty or describe a live array.
        let bytes = unsafe { gather(&[empty, whole, empty]) };
        assert_eq!(bytes.expect("readable parts"), octets);
        let [bad] = single_iovec(null(), 1);
        // SAFETY: a NULL part with a length is refused before it is read.
        let error = unsafe { gather(&[bad]) }.expect_err("EFAULT");
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
