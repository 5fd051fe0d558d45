//! Connections that end without a response.

use super::kind::{FaultEffect, FaultKind};
use crate::script::{ConnectionEnd, SocketReply, SocketScript, WireReply};

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
        |_| Ok(Box::new(ConnectionFault::Refused)),
    )
    .not_carried_out(),
    FaultKind::plain("closed", "the connection is closed instead of a response", |_| {
        Ok(Box::new(ConnectionFault::Closed))
    }),
    FaultKind::plain("reset", "the connection is reset instead of a response", |_| {
        Ok(Box::new(ConnectionFault::Reset))
    }),
];

impl FaultEffect for ConnectionFault {
    fn spoil(&self, _reply: WireReply, _path: &str) -> SocketReply {
        SocketReply::Script(self.script())
    }

    fn refuses_connections(&self) -> bool {
        *self == Self::Refused
    }
}

impl ConnectionFault {
    fn script(self) -> SocketScript {
        SocketScript::nothing(match self {
            Self::Refused | Self::Closed => ConnectionEnd::Close,
            Self::Reset => ConnectionEnd::Reset,
        })
    }
}
