//! What killed programs have left: control groups, folders of loads, sockets.

use crate::args::Command;

/// Removes what killed programs of this user have left, before a command that could leave as much.
/// What cannot be removed now, because processes still end, the next command meets again.
pub(crate) fn remove_before(command: &Command) {
    let leaves_something = matches!(
        command,
        Command::Race(_)
            | Command::Gate(_)
            | Command::Profile(_)
            | Command::Testbed(_)
            | Command::Agent(_)
            | Command::Forward(_)
            | Command::Cp(_)
            | Command::Xtp(_)
            | Command::Vmtp(_)
            | Command::Blocks(_)
    );
    if leaves_something {
        testbed::remove_leftovers();
        towpath::xtp::contexts::remove_stale_sockets();
        crate::testbed_command::remove_stale_sockets();
    }
}
