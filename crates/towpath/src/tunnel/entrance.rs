//! Where a tunnel accepts TCP connections, and which priority their associations have.

use super::{LISTENER_TOKEN, Tunnel, TunnelSource};
use rustix::event::epoll;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A listening address.
pub(super) struct Entrance {
    pub(super) listener: TcpListener,
    /// Priority of the associations of its connections; None for the endpoint's.
    sort: Option<u16>,
}

/// A connection and its client.
type Accepted = (TcpStream, SocketAddr);

impl Entrance {
    pub(super) fn bind(address: SocketAddr, sort: Option<u16>) -> io::Result<Entrance> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Entrance { listener, sort })
    }

    /// The next connection, and its priority; None without one.
    pub(super) fn accept(&self) -> Option<io::Result<(Accepted, Option<u16>)>> {
        match self.listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            other => Some(other.map(|accepted| (accepted, self.sort))),
        }
    }
}

impl Tunnel {
    /// Accepts TCP connections at `listen` too, whose associations have the priority `sort` among those of the
    /// endpoint: the lowest is served first. The bound address.
    ///
    /// # Errors
    ///
    /// `Unsupported` at an end that accepts no TCP connections, or why it cannot listen there.
    pub fn add_entrance(&mut self, listen: SocketAddr, sort: u16) -> io::Result<SocketAddr> {
        let TunnelSource::Tcp(entrances, _) = &mut self.source else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let entrance = Entrance::bind(listen, Some(sort))?;
        let at = entrance.listener.local_addr()?;
        let token = epoll::EventData::new_u64(LISTENER_TOKEN);
        epoll::add(
            &self.epoll,
            &entrance.listener,
            token,
            epoll::EventFlags::IN,
        )?;
        entrances.push(entrance);
        Ok(at)
    }

    /// The connections of a turn, each once: by priority, the lowest first, and those without one last.
    pub(super) fn in_turn(&self, mut todo: Vec<u64>) -> Vec<u64> {
        todo.sort_unstable();
        todo.dedup();
        if self.has_priorities {
            let sort = |token: &u64| self.connections.get(token)?.sort();
            sort_by_priority(&mut todo, sort);
        }
        todo
    }
}

/// Sorts tokens by the priority of each, which keeps the order of equal ones.
fn sort_by_priority(tokens: &mut [u64], sort: impl Fn(&u64) -> Option<u16>) {
    tokens.sort_by_key(|token| {
        let sort = sort(token);
        (sort.is_none(), sort)
    });
}

#[cfg(test)]
mod tests {
    use super::sort_by_priority;

    #[test]
    fn lowest_priority_value_is_served_first_and_none_last() {
        let sorts = [None, Some(9), Some(1), None, Some(9), Some(0)];
        let mut tokens: Vec<u64> = (0..6).collect();
        sort_by_priority(&mut tokens, |&token| sorts[token as usize]);
        assert_eq!(tokens, [5, 2, 1, 4, 0, 3]);
    }
}
