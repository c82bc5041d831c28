//! Typed readings of the host. Every value may be missing.

pub(crate) mod clock;
mod cpu;
mod kernel;
mod load;
mod network;

pub(crate) use clock::Clock;
pub(crate) use cpu::Cpu;
pub(crate) use kernel::Kernel;
pub(crate) use load::Load;
pub(crate) use network::Network;

use crate::kernel_files::KernelFiles;

/// Readings of the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    pub(crate) cpu: Cpu,
    pub(crate) kernel: Kernel,
    pub(crate) clock: Clock,
    pub(crate) network: Network,
    pub(crate) load: Load,
}

impl Survey {
    /// Reads this host, in about an eighth of a second.
    pub(crate) fn take() -> Survey {
        Survey::of(&KernelFiles::system())
    }

    /// Reads a tree of files. Other values come from system calls, only when the tree is that of
    /// the running system.
    pub(crate) fn of(files: &KernelFiles) -> Survey {
        Survey {
            cpu: Cpu::of(files),
            kernel: Kernel::of(files),
            clock: Clock::of(files),
            network: Network::of(files),
            load: Load::of(files),
        }
    }
}

#[cfg(test)]
mod tests;
