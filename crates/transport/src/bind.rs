//! Sockets: one for each core on one address, among which the kernel distributes new connections.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted; the kernel may lower the number.
const BACKLOG: i32 = 4096;

/// Bytes that the kernel buffers for a peer beyond those on the wire. It is small, so that a peer
/// that stops reading is noticed after this much instead of after the megabytes that the kernel
/// would buffer, and so that a slow but honest peer shows progress often.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Binds `cores` sockets to `listen`. With port 0, the first socket gets a free port and the others
/// share it.
pub(crate) fn bind(listen: SocketAddr, cores: usize) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    let shared = cores > 1;
    if shared && listen.port() != 0 {
        refuse_used(listen)?;
    }
    let first = open(listen, shared)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..cores {
        sockets.push(open(address, shared)?);
    }
    Ok((address, sockets))
}

/// Sockets that share a port would silently share it with another instance of this program too, so
/// this first tries to bind an exclusive socket.
fn refuse_used(listen: SocketAddr) -> io::Result<()> {
    socket(listen, false).map(drop)
}

fn open(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = socket(address, shared)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Lets a restarted service bind the port while old connections are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit both options.
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY_PORT: &str = "127.0.0.1:0";

    #[test]
    fn all_cores_share_the_port_of_the_first_socket() {
        let (address, sockets) = bind(ANY_PORT.parse().unwrap(), 3).unwrap();

        assert_ne!(address.port(), 0);
        assert_eq!(sockets.len(), 3);
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
    }

    #[test]
    fn a_second_server_on_the_same_port_is_refused_however_many_cores_either_has() {
        for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let (address, _sockets) = bind(ANY_PORT.parse().unwrap(), first).unwrap();

            let error = bind(address, second).unwrap_err();

            assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{first} and {second} cores");
        }
    }
}
