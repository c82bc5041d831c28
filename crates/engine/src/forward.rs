//! Wrappers forward methods by their signatures; those of a contract by their names.

/// Methods of a trait that a wrapper forwards to what it wraps, each by its signature: traits of contracts have no default bodies, so
/// that none is forgotten.
///
/// ```
/// trait Counter {
///     fn count(&self) -> u32;
///     fn add(&mut self, number: u32);
/// }
/// struct Wrapped(Box<dyn Counter>);
/// impl Counter for Wrapped {
///     engine::forward! { self.0;
///         fn count(&self) -> u32;
///         fn add(&mut self, number: u32);
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($to:expr;) => {};
    ($to:expr; $(#[$meta:meta])* fn $name:ident(&mut $me:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?; $($rest:tt)*) => {
        $(#[$meta])*
        fn $name(&mut $me $(, $argument: $type)*) $(-> $result)? {
            $to.$name($($argument),*)
        }
        $crate::forward! { $to; $($rest)* }
    };
    ($to:expr; $(#[$meta:meta])* fn $name:ident(&$me:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?; $($rest:tt)*) => {
        $(#[$meta])*
        fn $name(&$me $(, $argument: $type)*) $(-> $result)? {
            $to.$name($($argument),*)
        }
        $crate::forward! { $to; $($rest)* }
    };
}

/// Methods of a [`Protocol`](crate::Protocol) that a wrapper forwards, by their names.
///
/// ```
/// struct Wrapped<P>(P);
/// impl<P: engine::Protocol> engine::Protocol for Wrapped<P> {
///     engine::forward_protocol! { self => self.0;
///         properties handle_packet handle_timeout handle_path_error
///         poll_transmit poll_event poll_timeout counters
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_protocol {
    ($me:ident => $to:expr; $($method:ident)*) => { $($crate::forward_protocol! { @$method $me $to })* };
    (@properties $me:ident $to:expr) => { $crate::forward! { $to; fn properties(&$me) -> $crate::Properties; } };
    (@handle_packet $me:ident $to:expr) => {
        $crate::forward! { $to;
            fn handle_packet(&mut $me, now: $crate::Instant, packet: $crate::Received<'_>, deliveries: &mut $crate::Deliveries);
        }
    };
    (@handle_timeout $me:ident $to:expr) => { $crate::forward! { $to; fn handle_timeout(&mut $me, now: $crate::Instant); } };
    (@handle_path_error $me:ident $to:expr) => {
        $crate::forward! { $to; fn handle_path_error(&mut $me, now: $crate::Instant, fault: $crate::PathFault<'_>); }
    };
    (@poll_transmit $me:ident $to:expr) => { $crate::forward! { $to; fn poll_transmit(&mut $me, now: $crate::Instant, batch: &mut $crate::Batch); } };
    (@poll_event $me:ident $to:expr) => { $crate::forward! { $to; fn poll_event(&mut $me) -> Option<$crate::Event>; } };
    (@poll_timeout $me:ident $to:expr) => { $crate::forward! { $to; fn poll_timeout(&$me) -> Option<$crate::Instant>; } };
    (@counters $me:ident $to:expr) => { $crate::forward! { $to; fn counters(&$me) -> $crate::Counters; } };
}

/// The same of [`Associations`](crate::Associations).
#[macro_export]
macro_rules! forward_associations {
    ($me:ident => $to:expr; $($method:ident)*) => { $($crate::forward_associations! { @$method $me $to })* };
    (@layout $me:ident $to:expr) => { $crate::forward! { $to; fn layout(&$me, id: Option<$crate::AssociationId>) -> $crate::Layout; } };
    (@connect $me:ident $to:expr) => {
        $crate::forward! { $to;
            fn connect(&mut $me, now: $crate::Instant, to: &[$crate::Address]) -> Result<$crate::AssociationId, $crate::CommandError>;
        }
    };
    (@listen $me:ident $to:expr) => { $crate::forward! { $to; fn listen(&mut $me, accept: bool); } };
    (@submit $me:ident $to:expr) => {
        $crate::forward! { $to;
            fn submit(&mut $me, now: $crate::Instant, id: $crate::AssociationId, end: u64, flags: $crate::SendFlags, note: &$crate::Note);
        }
    };
    (@submit_all $me:ident $to:expr) => {
        $crate::forward! { $to; fn submit_all(&mut $me, now: $crate::Instant, id: $crate::AssociationId, ends: &[u64]); }
    };
    (@consume $me:ident $to:expr) => { $crate::forward! { $to; fn consume(&mut $me, now: $crate::Instant, id: $crate::AssociationId, bytes: u64); } };
    (@close $me:ident $to:expr) => {
        $crate::forward! { $to; fn close(&mut $me, now: $crate::Instant, id: $crate::AssociationId, how: $crate::Close); }
    };
    (@status $me:ident $to:expr) => { $crate::forward! { $to; fn status(&$me, id: $crate::AssociationId) -> $crate::Status; } };
    (@receive_window $me:ident $to:expr) => { $crate::forward! { $to; fn receive_window(&$me) -> u64; } };
    (@set_receive_full $me:ident $to:expr) => { $crate::forward! { $to; fn set_receive_full(&mut $me, id: $crate::AssociationId, is_full: bool); } };
    (@set_path_mtu $me:ident $to:expr) => {
        $crate::forward! { $to; fn set_path_mtu(&mut $me, now: $crate::Instant, id: $crate::AssociationId, octets: usize); }
    };
    (@sort_by_priority $me:ident $to:expr) => { $crate::forward! { $to; fn sort_by_priority(&$me, ids: &mut [$crate::AssociationId]); } };
}
