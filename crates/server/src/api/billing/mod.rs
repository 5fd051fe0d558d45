//! Billing: the balance and the ledger, what can be bought, and how it is paid.
//!
//! A handler unpacks, calls one flow of `billing` and answers.

mod overview;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// Every route below `/v1/billing` but those of usage.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(overview::router())
}
