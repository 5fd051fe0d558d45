//! The simulated platforms. A platform defines who may call, its routes, and the format of its
//! responses and refusals; everything else (log, journal, state, routing) is the same for all
//! platforms and is in [`crate::host`].

use http::{HeaderMap, Method};
use serde_json::Value;

use crate::answer::{Answer, Refusal};
use crate::overlay::Overlay;
use crate::routes::{PlatformRoute, Routes};
use crate::world::World;
use crate::world::series::Series;

/// The number of creators of each platform.
pub(crate) const CREATORS: usize = 4;

/// The number of the creator with an empty account.
pub(crate) const EMPTY_CREATOR: usize = 3;

/// A creator account that a gateway can connect, with its credentials.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DemoAccount {
    /// `platform_alpha` … `platform_delta`.
    pub platform: &'static str,
    /// A name to connect it under, such as `demo_alpha`.
    pub creator_id: &'static str,
    /// The `auth` object of the connect request; its fields differ by platform.
    pub auth: Value,
}

/// A request before its sender is authenticated.
pub(crate) struct IncomingRequest<'a> {
    pub(crate) method: &'a Method,
    /// Path and query as sent, with the base path of the platform (such as `/api/v1/`), without
    /// the prefix that the simulators add (`/platform_beta`).
    pub(crate) path_and_query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) now_ms: i64,
}

impl IncomingRequest<'_> {
    /// A header that was sent exactly once and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }
}

/// Everything written on a platform.
#[derive(Debug, Default)]
pub(crate) struct PlatformState {
    /// By number of the creator.
    pub(crate) creators: [Overlay; CREATORS],
    /// State that belongs to no creator, such as issued tokens.
    pub(crate) shared: Overlay,
}

/// A list whose rows can be moved on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MovableList {
    Subscribers,
    Chats,
    Following,
    /// The messages of one chat.
    ChatMessages,
}

/// One platform.
pub(crate) trait Platform: Send + Sync {
    /// `platform_alpha` … `platform_delta`; also its path prefix.
    fn name(&self) -> &'static str;

    /// The path before the routes, `/` or such as `/api/v1/`.
    fn base(&self) -> &'static str {
        "/"
    }

    /// All routes.
    fn routes(&self) -> Routes;

    /// The accounts, one for each creator number, the sandbox's demo account first.
    fn accounts(&self) -> Vec<DemoAccount>;

    /// The number of the creator whose credentials the request carries.
    fn authenticate(
        &self,
        request: &IncomingRequest<'_>,
        state: &PlatformState,
    ) -> Result<usize, Refusal>;

    /// Whether this creator's credentials allow the route.
    fn authorize(
        &self,
        _request: &IncomingRequest<'_>,
        _state: &PlatformState,
        _route: &PlatformRoute,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// The rows of a list that can be moved on demand: the table, and its content before any
    /// change. `fan` identifies the chat of messages.
    fn list(&self, world: &World, list: MovableList, fan: u64) -> Option<(String, Series)>;

    /// The response as the platform sends it, for platforms that wrap it in an envelope.
    fn dress(&self, answer: Answer) -> Answer {
        answer
    }

    /// The refusal in the platform's error format.
    fn refuse(&self, refusal: &Refusal) -> Answer;
}
