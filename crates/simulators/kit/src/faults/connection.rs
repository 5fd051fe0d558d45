//! Connections that end without a response.

use super::catalogue::{Fault, FaultKind};
use crate::script::{ConnectionEnd, SocketScript};

/// What happens to the connection before a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFault {
    /// The port is shut; see [`crate::listener::port`].
    Refused,
    Closed,
    Reset,
}

pub(super) const KINDS: [FaultKind; 3] = [
    FaultKind::plain(
        "refused",
        "the platform's own port refuses connections and cuts open ones until the fault is \
         removed; on the common port its requests are closed on, and are not on the log",
        |_| Ok(Fault::Connection(ConnectionFault::Refused)),
    )
    .not_carried_out(),
    FaultKind::plain("closed", "the connection is closed instead of a response", |_| {
        Ok(Fault::Connection(ConnectionFault::Closed))
    }),
    FaultKind::plain("reset", "the connection is reset instead of a response", |_| {
        Ok(Fault::Connection(ConnectionFault::Reset))
    }),
];

impl ConnectionFault {
    pub(super) fn script(self) -> SocketScript {
        SocketScript::nothing(match self {
            Self::Refused | Self::Closed => ConnectionEnd::Close,
            Self::Reset => ConnectionEnd::Reset,
        })
    }
}
