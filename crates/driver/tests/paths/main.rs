//! Paths through the pumps: errors of one path, groups joined and left at any time.

mod company;
mod errors;
mod groups;
mod hundred_peers;
mod many;
mod panics;
mod postman;

use std::time::{Duration, Instant};

/// How long a test waits for what must come.
const LIMIT: Duration = Duration::from_secs(10);

/// What `look` sees once it is there.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}
