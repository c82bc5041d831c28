//! Wires around others forward methods by their names.

/// Methods of a [`Wire`](crate::Wire) that a wire around another forwards to it, by their names.
#[macro_export]
macro_rules! forward {
    ($me:ident => $to:expr; $($method:ident)*) => { $($crate::forward! { @$method $me $to })* };
    (@capabilities $me:ident $to:expr) => { engine::forward! { $to; fn capabilities(&$me) -> $crate::Capabilities; } };
    (@send $me:ident $to:expr) => {
        engine::forward! { $to;
            fn send(&mut $me, path: engine::Path, slices: &[std::io::IoSlice<'_>], segment_size: usize) -> std::io::Result<()>;
        }
    };
    (@send_by_reference $me:ident $to:expr) => {
        engine::forward! { $to;
            fn send_by_reference(&mut $me, path: engine::Path, slices: &[std::io::IoSlice<'_>], segment_size: usize) -> std::io::Result<$crate::Taken>;
        }
    };
    (@receive $me:ident $to:expr) => { engine::forward! { $to; fn receive(&mut $me, buffer: &mut [u8]) -> std::io::Result<$crate::Arrival>; } };
    (@poll_path_error $me:ident $to:expr) => { engine::forward! { $to; fn poll_path_error(&mut $me) -> Option<$crate::PathReport>; } };
    (@set_fragmentation $me:ident $to:expr) => { engine::forward! { $to; fn set_fragmentation(&mut $me, fragmentation: engine::Fragmentation); } };
    (@path_mtu $me:ident $to:expr) => { engine::forward! { $to; fn path_mtu(&mut $me, path: engine::Path) -> usize; } };
    (@unanswerable $me:ident $to:expr) => { engine::forward! { $to; fn unanswerable(&$me) -> u64; } };
    (@receive_drops $me:ident $to:expr) => { engine::forward! { $to; fn receive_drops(&$me) -> Option<u64>; } };
    (@set_packet_len $me:ident $to:expr) => { engine::forward! { $to; fn set_packet_len(&mut $me, packet_len: engine::PacketLen); } };
    (@descriptor $me:ident $to:expr) => { engine::forward! { $to; fn descriptor(&$me) -> Option<std::os::fd::BorrowedFd<'_>>; } };
    (@has_buffered $me:ident $to:expr) => { engine::forward! { $to; fn has_buffered(&$me) -> bool; } };
    (@may_wait $me:ident $to:expr) => { engine::forward! { $to; fn may_wait(&mut $me) -> bool; } };
    (@join $me:ident $to:expr) => { engine::forward! { $to; fn join(&mut $me, group: engine::Address) -> std::io::Result<()>; } };
    (@leave $me:ident $to:expr) => { engine::forward! { $to; fn leave(&mut $me, group: engine::Address) -> std::io::Result<()>; } };
    (@receiver $me:ident $to:expr) => { engine::forward! { $to; fn receiver(&$me) -> Option<Box<dyn $crate::Receiver>>; } };
}

/// What a wire answers of things it has not: `lacks! { references groups buffer drops receiver }`. One without references copies in
/// each send, one without a buffer shows all that is there by its descriptor, and one without drops counts none.
#[macro_export]
macro_rules! lacks {
    ($($what:ident)*) => { $($crate::lacks! { @$what })* };
    (@references) => {
        fn send_by_reference(&mut self, path: engine::Path, slices: &[std::io::IoSlice<'_>], segment_size: usize) -> std::io::Result<$crate::Taken> {
            self.send(path, slices, segment_size).map(|()| $crate::Taken::Copied)
        }
    };
    (@groups) => {
        fn join(&mut self, group: engine::Address) -> std::io::Result<()> {
            Err($crate::no_multicast(group))
        }

        fn leave(&mut self, group: engine::Address) -> std::io::Result<()> {
            Err($crate::no_multicast(group))
        }
    };
    (@buffer) => {
        fn has_buffered(&self) -> bool {
            false
        }

        fn may_wait(&mut self) -> bool {
            true
        }
    };
    (@drops) => {
        fn receive_drops(&self) -> Option<u64> {
            None
        }
    };
    (@receiver) => {
        fn receiver(&self) -> Option<Box<dyn $crate::Receiver>> {
            None
        }
    };
}
