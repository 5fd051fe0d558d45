//! Exports: what can be exported.

pub(crate) mod datasets;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// The routes of exports.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(datasets::router())
}
