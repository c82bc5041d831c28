//! t_optmgmt.

use super::errors::return_to_c;
use super::structures::TOptMgmt;
use super::{all_fitted, required};
use crate::table;
use libc::c_int;
use xti::TliError;
use xti::tpi::{OptionsAction, parse_options, write_options};

/// t_optmgmt: sets, checks or reads options of one level.
///
/// # Safety
///
/// Both are structures with their buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_optmgmt(
    fd: c_int,
    request: *const TOptMgmt,
    answer: *mut TOptMgmt,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let request = unsafe { required(request.cast_mut()) }?;
        let action = OptionsAction::from_number(request.flags as u32);
        let action = action.ok_or(TliError::BadFlag)?;
        // SAFETY: the caller's promise.
        let options = parse_options(unsafe { request.opt.octets() });
        let options = options.ok_or(TliError::BadOption)?;
        let (options, worst) = endpoint.now(|xti| xti.manage_options(&options, action))?;
        // SAFETY: the caller's promise.
        let answer = unsafe { required(answer) }?;
        answer.flags = worst as i32;
        // SAFETY: the caller's promise.
        all_fitted(&[unsafe { answer.opt.put(&write_options(&options)) }])
    })
}
