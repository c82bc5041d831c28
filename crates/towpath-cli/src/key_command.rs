//! `towpath key`.

use crate::{CliError, EXIT_OK, print};
use agent::KeyFolder;
use agent::keys::{KeyError, PublicKey};
use clap::Subcommand;

/// A command about keys.
#[derive(Clone, Debug, Subcommand)]
#[command(
    after_help = "Keys are in ~/.config/towpath, or in the folder named by TOWPATH_KEYS.

Examples:
  towpath key new
  towpath key show
  towpath key trust towpath-key-5f0c... lab2"
)]
pub enum KeyCommand {
    /// Create a key for this user on this host.
    #[command(after_help = "Examples:
  towpath key new")]
    New,
    /// Print the public key, or the trusted keys.
    #[command(after_help = "Examples:
  towpath key show
  towpath key show --trusted")]
    Show {
        /// Print the trusted keys with their names.
        #[arg(long)]
        trusted: bool,
    },
    /// Trust the key of another user or host.
    #[command(
        after_help = "A client may connect with any trusted key, under any name. An agent must have a key that is
trusted under the name of its host.

Examples:
  towpath key trust towpath-key-5f0c... lab2"
    )]
    Trust {
        /// The key that `towpath key show` prints there.
        key: String,
        /// Name of the agent's host as given to --to; any name for a client.
        #[arg(default_value = "anybody")]
        name: String,
    },
}

/// Runs the command.
pub fn run(command: &KeyCommand) -> Result<u8, CliError> {
    let keys = KeyFolder::default_location().map_err(CliError::failed)?;
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
        print::note("the key was already trusted");
    }
    Ok(())
}
