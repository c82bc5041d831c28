//! Processes that are executed instruction by instruction (ptrace), and killed between two.

use std::os::raw::c_int;
use std::process::Child;
use std::ptr::null_mut;

/// The thread of a child that steps, stopped.
pub(crate) struct Stepped {
    child: Child,
    thread: libc::pid_t,
}

/// Where a step has led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the next instruction.
    Made,
    /// To the stop that the child asked for.
    Stop,
}

/// In the child: lets the parent's thread that started it step this one.
pub(crate) fn let_parent_step() -> bool {
    // SAFETY: TRACEME takes no pointer.
    unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) == 0 }
}

/// In the child: stops this thread.
pub(crate) fn stop() {
    // SAFETY: raise takes no pointer.
    let raised = unsafe { libc::raise(libc::SIGSTOP) };
    assert_eq!(raised, 0);
}

impl Stepped {
    /// Waits until `thread` of `child`, which lets its parent step it, has stopped.
    pub(crate) fn new(child: Child, thread: libc::pid_t) -> Stepped {
        let stepped = Stepped { child, thread };
        assert_eq!(stepped.stopped_by(), Some(libc::SIGSTOP));
        stepped
    }

    /// Executes the next instruction.
    pub(crate) fn step(&mut self) -> Step {
        // SAFETY: the pointers are no addresses here: none, and no signal.
        let stepped = unsafe {
            libc::ptrace(
                libc::PTRACE_SINGLESTEP,
                self.thread,
                null_mut::<u8>(),
                null_mut::<u8>(),
            )
        };
        assert_eq!(stepped, 0, "{}", std::io::Error::last_os_error());
        match self.stopped_by() {
            Some(libc::SIGTRAP) => Step::Made,
            Some(libc::SIGSTOP) => Step::Stop,
            other => panic!("stopped by {other:?}"),
        }
    }

    /// The signal that stopped the thread; None when it has ended.
    fn stopped_by(&self) -> Option<c_int> {
        let mut status = 0;
        // SAFETY: the kernel writes the status, which outlives the call.
        let waited = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL) };
        let has_stopped = waited == self.thread && libc::WIFSTOPPED(status);
        has_stopped.then(|| libc::WSTOPSIG(status))
    }

    /// Kills the process before its next instruction, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is stopped");
        // A thread that is traced is waited for by itself, and before its process.
        while self.stopped_by().is_some() {}
        self.child.wait().expect("it is a child");
    }
}
