//! A request as the routes get it.

use super::form::FormParams;
use super::object_store::ObjectStore;

/// The authenticated caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiCaller {
    /// The merchant's server.
    Server,
    /// A browser, which must know the client secret of what it requests.
    Browser,
}

/// A parsed request, and the store.
pub(crate) struct ApiCall<'a> {
    pub(crate) store: &'a mut ObjectStore,
    pub(crate) params: &'a FormParams,
    pub(crate) ids: Vec<String>,
    pub(crate) caller: ApiCaller,
    /// The version of the API in which it is asked.
    pub(crate) version: &'a str,
}

impl ApiCall<'_> {
    /// An id of the path.
    pub(crate) fn id(&self, place: usize) -> String {
        self.ids.get(place).cloned().unwrap_or_default()
    }
}
