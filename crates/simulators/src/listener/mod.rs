//! Sockets: a common port for everything, and a port of its own for each platform and the payment processor, which can be shut
//! so that connections to that platform alone are refused.

mod connection;
pub(crate) mod door;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::door::{Door, Handle};
use crate::faults::Faults;
use crate::running::PROCESSOR;
use crate::service::Service;

/// The platforms' own ports.
#[derive(Debug)]
pub(crate) struct Doors(Vec<(&'static str, Handle)>);

impl Doors {
    /// Where the platform with this name listens.
    pub(crate) fn address(&self, platform: &str) -> Option<SocketAddr> {
        let found = self.0.iter().find(|(name, _)| *name == platform);
        found.map(|(_, handle)| handle.address)
    }

    /// Shuts and opens the ports as the faults say; done when this returns.
    pub(crate) async fn follow(&self, faults: &Faults) {
        for (platform, handle) in &self.0 {
            handle.set_shut(faults.refuses(platform)).await;
        }
    }
}

/// Listens on `address` for everything and beside it on a free port for each platform, until told to
/// stop. Gives the common address.
pub(crate) fn listen(
    service: &Arc<Service>,
    address: SocketAddr,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> io::Result<SocketAddr> {
    let common = Door::open(address)?;
    let found = common.handle().address;
    tasks.spawn(common.serve(Arc::clone(service), stop.clone()));
    let mut doors = Vec::new();
    let platforms = service.mounts.iter().map(|mount| mount.platform.name());
    for name in platforms.chain([PROCESSOR]) {
        let door = Door::open(SocketAddr::new(found.ip(), 0))?;
        doors.push((name, door.handle()));
        tasks.spawn(door.serve(Arc::clone(service), stop.clone()));
    }
    // A service is listened for once.
    drop(service.doors.set(Doors(doors)));
    Ok(found)
}
