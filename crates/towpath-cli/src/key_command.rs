//! `towpath key`.

use crate::{CliError, EXIT_OK, print};
use agent::KeyFolder;
use agent::keys::{KeyError, PublicKey};
use clap::Subcommand;

/// A command about keys.
#[derive(Clone, Debug, Subcommand)]
#[command(
    after_help = "Keys lie in ~/.config/towpath, or where TOWPATH_KEYS says.

Examples:
  towpath key new
  towpath key show
  towpath key trust towpath-key-5f0c... lab2"
)]
pub enum KeyCommand {
    /// Make a key for this user on this host.
    #[command(after_help = "Examples:
  towpath key new")]
    New,
    /// Print the public half of the key, and the keys that are trusted.
    #[command(after_help = "Examples:
  towpath key show
  towpath key show --trusted")]
    Show {
        /// Print the keys that are trusted, with their names.
        #[arg(long)]
        trusted: bool,
    },
    /// Trust the key of another user or host.
    #[command(
        after_help = "Whoever has a key that is trusted may come in as a client, by whatever name. As an agent only a
key may answer that is trusted by the name of the host.

Examples:
  towpath key trust towpath-key-5f0c... lab2"
    )]
    Trust {
        /// What `towpath key show` prints there.
        key: String,
        /// An agent's host, as you give it to --to; a client may be called anything.
        #[arg(default_value = "anybody")]
        name: String,
    },
}

/// Runs the command.
///
/// # Errors
///
/// What the user must know.
pub fn run(command: &KeyCommand) -> Result<u8, CliError> {
    let keys = KeyFolder::default_location();
    match command {
        KeyCommand::New => {
            let made = keys.create().map_err(CliError::failed)?;
            print::line(made.public_key())?;
            print::note(format_args!("the key is in {}", keys.path().display()));
        }
        KeyCommand::Show { trusted: false } => {
            print::line(keys.identity().map_err(CliError::failed)?.public_key())?;
        }
        KeyCommand::Show { trusted: true } => {
            for one in keys.trusted().map_err(CliError::failed)? {
                print::line(format_args!("{} {}", one.name, one.key))?;
            }
        }
        KeyCommand::Trust { key, name } => trust(&keys, key, name)?,
    }
    Ok(EXIT_OK)
}

fn trust(keys: &KeyFolder, key: &str, name: &str) -> Result<(), CliError> {
    let key: PublicKey = key
        .parse()
        .map_err(|error: KeyError| CliError::usage(error.to_string()))?;
    let added = keys.trust(key, name).map_err(|error| match error {
        KeyError::Malformed(why) => CliError::usage(why),
        other => CliError::failed(other),
    })?;
    if !added {
        print::note("it was trusted already");
    }
    Ok(())
}
