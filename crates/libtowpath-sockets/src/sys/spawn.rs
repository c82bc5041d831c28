//! The interposed calls that start a program: what lies in streams of this process is given to the kernel before.
//! fork(2) runs handlers of its own (pthread_atfork(3)); these calls run none.

use super::divert::diverting;
use super::next::{self, next_symbol, unknown};
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

type Int = libc::c_int;
type Buffer = *mut c_void;
type Text = *const libc::c_char;
type Words = *const *const libc::c_char;

fn before_spawn() {
    if let Some(library) = diverting() {
        // SAFETY: no memory is passed.
        unsafe { (library.before_spawn)() };
    }
}

/// Defines calls that differ in nothing but their arguments.
macro_rules! spawning {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As the system's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> next::next_result!($($result)?) {
            before_spawn();
            // SAFETY: the caller's promise.
            unsafe { next::$name($($arg),*) }
        }
    )*};
}

spawning! {
    /// posix_spawn(3).
    posix_spawn(process: *mut libc::pid_t, path: Text, actions: Buffer, attributes: Buffer, words: Words, environment: Words);
    /// posix_spawnp(3).
    posix_spawnp(process: *mut libc::pid_t, path: Text, actions: Buffer, attributes: Buffer, words: Words, environment: Words);
    /// system(3).
    system(command: Text);
    /// popen(3).
    popen(command: Text, mode: Text) -> *mut libc::FILE;
    /// execve(2).
    execve(path: Text, words: Words, environment: Words);
    /// execv(3).
    execv(path: Text, words: Words);
    /// execvp(3).
    execvp(path: Text, words: Words);
    /// execvpe(3).
    execvpe(path: Text, words: Words, environment: Words);
    /// fexecve(3).
    fexecve(fd: Int, words: Words, environment: Words);
}

/// What runs before a call that goes on with its caller's registers and stack, and where it goes on.
macro_rules! before {
    ($name:ident, $text:literal) => {
        extern "C" fn $name() -> *mut c_void {
            static FOUND: AtomicPtr<c_void> = unknown();
            before_spawn();
            next_symbol(&FOUND, $text)
        }
    };
}

before!(before_vfork, c"vfork");
before!(before_execl, c"execl");
before!(before_execlp, c"execlp");
before!(before_execle, c"execle");

/// vfork(2): its child has the caller's stack, so that nothing of a function in between may lie there.
#[cfg(target_arch = "x86_64")]
// SAFETY: the stack is as it was when the system's call begins.
#[unsafe(naked)]
// SAFETY: the system's symbol of this name is reached through `next`.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> libc::pid_t {
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "jmp rax",
        before = sym before_vfork,
    )
}

/// As above: the link register is kept over the call.
#[cfg(target_arch = "aarch64")]
// SAFETY: the stack is as it was when the system's call begins.
#[unsafe(naked)]
// SAFETY: the system's symbol of this name is reached through `next`.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> libc::pid_t {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {before}",
        "ldp x29, x30, [sp], #16",
        "br x0",
        before = sym before_vfork,
    )
}

/// Defines calls with as many arguments as the caller likes: the registers that hold them are kept, and the system's call
/// finds them as they were.
macro_rules! with_any_arguments {
    ($($(#[$doc:meta])* $name:ident: $before:ident;)*) => {$(
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the stack and the registers with arguments are as they were when the system's call begins.
        #[unsafe(naked)]
        // SAFETY: the system's symbol of this name is reached through `next`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Int {
            std::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                before = sym $before,
            )
        }

        $(#[$doc])*
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the stack and the registers with arguments are as they were when the system's call begins.
        #[unsafe(naked)]
        // SAFETY: the system's symbol of this name is reached through `next`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Int {
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                before = sym $before,
            )
        }
    )*};
}

with_any_arguments! {
    /// execl(3).
    execl: before_execl;
    /// execlp(3).
    execlp: before_execlp;
    /// execle(3).
    execle: before_execle;
}
