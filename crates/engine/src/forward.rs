//! Wrappers forward methods by their signatures.

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
