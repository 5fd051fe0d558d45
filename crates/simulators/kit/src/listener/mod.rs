//! Sockets: a common port for everything, and a port for each simulator, which can be closed so
//! that only connections to that simulator are refused.

mod connection;
mod port;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::port::Port;
use crate::port_set::PortSet;
use crate::service::SimulatorService;

/// Listens on `address` for everything, and on a free port for each port name of the simulators,
/// until `stop` is cancelled. Returns the common address.
pub(crate) fn listen(
    service: &Arc<SimulatorService>,
    address: SocketAddr,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> io::Result<SocketAddr> {
    let common = Port::open(address)?;
    let found = common.handle().address;
    tasks.spawn(common.serve(Arc::clone(service), stop.clone()));
    let mut ports = Vec::new();
    for name in service.simulators.iter().flat_map(|simulator| simulator.port_names()) {
        let port = Port::open(SocketAddr::new(found.ip(), 0))?;
        ports.push((name, port.handle()));
        tasks.spawn(port.serve(Arc::clone(service), stop.clone()));
    }
    // A service listens only once.
    drop(service.ports.set(PortSet::new(ports)));
    Ok(found)
}
