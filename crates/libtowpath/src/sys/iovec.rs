//! Arrays of buffers (iovec) that C passes.

use super::errno::os_error;
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

/// The iovec array of a msghdr. POSIX has EMSGSIZE for too many parts there, and EINVAL for a total
/// length beyond SSIZE_MAX.
///
/// # Safety
///
/// `parts` points to `count` parts.
pub(super) unsafe fn iovecs<'a>(
    parts: *const libc::iovec,
    count: usize,
) -> io::Result<&'a [libc::iovec]> {
    if parts.is_null() || count == 0 {
        return Ok(&[]);
    }
    if count > IOV_MAX {
        return Err(os_error(libc::EMSGSIZE));
    }
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    match total_len(parts) <= isize::MAX as usize {
        true => Ok(parts),
        false => Err(os_error(libc::EINVAL)),
    }
}

/// The iovec array of readv(2) and writev(2), for which POSIX has EINVAL for too many parts or a
/// negative number of them.
///
/// # Safety
///
/// `parts` points to `count` parts.
pub(super) unsafe fn counted_iovecs<'a>(
    parts: *const libc::iovec,
    count: libc::c_int,
) -> io::Result<&'a [libc::iovec]> {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count) if count <= IOV_MAX => unsafe { iovecs(parts, count) },
        _ => Err(os_error(libc::EINVAL)),
    }
}

/// Octets of all parts.
pub(super) fn total_len(parts: &[libc::iovec]) -> usize {
    let lens = parts.iter().map(|part| part.iov_len);
    lens.fold(0, usize::saturating_add)
}

/// A place for the last two of [`IOV_MAX`] parts, so that with the header in front there are no more
/// than the kernel takes.
pub(super) struct JoinedParts {
    pub(super) octets: Vec<u8>,
    pub(super) last: [libc::iovec; 2],
}

impl JoinedParts {
    /// Joins the last two of `parts` if there are [`IOV_MAX`]; else None. No datagram has more than
    /// `octets_max`. Errors: EFAULT when one of them is nowhere.
    pub(super) fn new(parts: &[libc::iovec], octets_max: usize) -> io::Result<Option<JoinedParts>> {
        let Some(&last) = parts.last_chunk::<2>().filter(|_| parts.len() == IOV_MAX) else {
            return Ok(None);
        };
        let is_nowhere = |part: &libc::iovec| part.iov_base.is_null() && part.iov_len > 0;
        if last.iter().any(is_nowhere) {
            return Err(os_error(libc::EFAULT));
        }
        let octets = vec![0; total_len(&last).min(octets_max)];
        Ok(Some(JoinedParts { octets, last }))
    }

    /// `parts` with the joined one in place of the last two.
    pub(super) fn replace(&mut self, parts: &[libc::iovec]) -> Vec<libc::iovec> {
        let mut fewer = parts[..parts.len() - 2].to_vec();
        fewer.extend(single_iovec(
            self.octets.as_mut_ptr().cast(),
            self.octets.len(),
        ));
        fewer
    }

    /// Copies what was received into the two parts; `len` octets of the datagram belong here.
    ///
    /// # Safety
    ///
    /// The last two parts may be written to.
    pub(super) unsafe fn scatter(&self, len: usize) {
        let mut rest = &self.octets[..len.min(self.octets.len())];
        for part in &self.last {
            let (these, others) = rest.split_at(part.iov_len.min(rest.len()));
            if !these.is_empty() {
                // SAFETY: the caller's promise; the octets are this object's own and do not overlap.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        these.as_ptr(),
                        part.iov_base.cast(),
                        these.len(),
                    );
                }
            }
            rest = others;
        }
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
            return Err(os_error(libc::EFAULT));
        }
        if part.iov_len > isize::MAX as usize {
            return Err(os_error(libc::EINVAL));
        }
        // SAFETY: the caller's promise; the length is one that a slice may have.
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
