//! Connections that come to nothing.

use super::catalogue::{Fault, Kind};
use crate::script::{ConnectionEnd, SocketScript};

/// What happens to the connection before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Nobody listens; see [`crate::listener::port`].
    Refused,
    Closed,
    Reset,
}

pub(super) const KINDS: [Kind; 3] = [
    Kind::plain(
        "refused",
        "the platform's own port refuses connections and cuts open ones until the fault is \
         removed; on the common port its requests are closed on, and are not on the log",
        |_| Ok(Fault::Connection(Connection::Refused)),
    )
    .not_carried_out(),
    Kind::plain("closed", "the connection is closed in order instead of an answer", |_| {
        Ok(Fault::Connection(Connection::Closed))
    }),
    Kind::plain("reset", "the connection is reset instead of an answer", |_| {
        Ok(Fault::Connection(Connection::Reset))
    }),
];

impl Connection {
    pub(super) fn script(self) -> SocketScript {
        SocketScript::nothing(match self {
            Self::Refused | Self::Closed => ConnectionEnd::Close,
            Self::Reset => ConnectionEnd::Reset,
        })
    }
}
