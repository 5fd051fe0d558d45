//! Exports: what can be exported, the exports themselves, and their files.

pub(crate) mod columns;
mod create;
pub(crate) mod datasets;
mod download;
mod jobs;
mod lists;
mod record;

use utoipa_axum::router::OpenApiRouter;

use crate::ApiState;

/// The routes of exports.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().merge(datasets::router()).merge(jobs::router()).merge(download::router())
}
