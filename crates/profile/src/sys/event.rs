//! Perf events of a process and the threads it starts later.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `struct perf_event_attr` up to `sample_max_stack` (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period_or_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const CPU_CYCLES: u64 = 0;
const CPU_CLOCK: u64 = 0;

const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;

const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FREQUENCY: u64 = 1 << 10;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;

/// Octets of user stack per sample, more than the measuring loops use.
const STACK_OCTETS: u32 = 8192;

/// Most kernel frames of a sample.
const FRAMES_MAX: u16 = 127;

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const FLAG_CLOEXEC: libc::c_ulong = 8;

/// Registers for unwinding, as a mask of `<asm/perf_regs.h>`: frame, stack and instruction pointer,
/// on ARM also the link register.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

/// Kind of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventKind {
    /// Samples by the cycle counter, with this frequency per second.
    Cycles(u64),
    /// Samples by the CPU clock, with this period, ns.
    Clock(u64),
    /// Counts the tracepoint with this ID.
    Tracepoint(u64),
}

/// An event, closed on drop.
#[derive(Debug)]
pub(crate) struct Event {
    descriptor: OwnedFd,
}

impl Event {
    /// Opens an event of `process` on one processor or on all, disabled at first.
    pub(crate) fn open(kind: EventKind, process: u32, cpu: Option<u32>) -> io::Result<Event> {
        let attributes = attributes(kind);
        let process = process as libc::pid_t;
        let cpu = cpu.map_or(-1, |cpu| cpu as libc::c_int);
        // SAFETY: the attributes are alive and say their own size; the kernel only reads them.
        let raw = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                process,
                cpu,
                -1,
                FLAG_CLOEXEC,
            )
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, owned from here on.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw as i32) };
        Ok(Event { descriptor })
    }

    /// Enables it in all threads.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.control(IOC_ENABLE)
    }

    /// Disables it.
    pub(crate) fn disable(&self) -> io::Result<()> {
        self.control(IOC_DISABLE)
    }

    /// Its count over all threads, ended ones included.
    pub(crate) fn count(&self) -> io::Result<u64> {
        let mut octets = [0; 8];
        rustix::io::read(&self.descriptor, &mut octets)?;
        Ok(u64::from_ne_bytes(octets))
    }

    fn control(&self, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: these requests take a number and no pointer.
        let result = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), request as _, 0) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn attributes(kind: EventKind) -> Attributes {
    let common = Attributes {
        size: mem::size_of::<Attributes>() as u32,
        flags: DISABLED | INHERIT | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let sampled = Attributes {
        sample_type: SAMPLE_IP
            | SAMPLE_TID
            | SAMPLE_PERIOD
            | SAMPLE_CALLCHAIN
            | SAMPLE_REGS_USER
            | SAMPLE_STACK_USER,
        flags: common.flags | EXCLUDE_CALLCHAIN_USER,
        // The reader polls, so no wake-ups are needed.
        wakeup: u32::MAX,
        sample_regs_user: REGISTERS,
        sample_stack_user: STACK_OCTETS,
        sample_max_stack: FRAMES_MAX,
        ..common
    };
    match kind {
        EventKind::Cycles(per_s) => Attributes {
            kind: TYPE_HARDWARE,
            config: CPU_CYCLES,
            period_or_frequency: per_s,
            flags: sampled.flags | FREQUENCY,
            ..sampled
        },
        EventKind::Clock(period_ns) => Attributes {
            kind: TYPE_SOFTWARE,
            config: CPU_CLOCK,
            period_or_frequency: period_ns,
            ..sampled
        },
        EventKind::Tracepoint(number) => Attributes {
            kind: TYPE_TRACEPOINT,
            config: number,
            ..common
        },
    }
}
