//! Datasets: which lists of which platform can be exported, in which formats, and with which
//! parameters.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use catalog::Dataset;
use domain::dataset::DatasetName;
use domain::export::ExportFormat;
use domain::platform::Platform;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::extract::Query;
use web::fields::RequestQuery;

use super::columns::ColumnOut;
use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_datasets))
}

/// Which datasets to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DatasetParams {
    /// Only those of this platform; all platforms when absent.
    #[param(schema_with = web::words::platform)]
    platform: Option<Platform>,
}

impl RequestQuery for DatasetParams {}

/// What can be exported.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Datasets {
    datasets: Vec<DatasetOut>,
    /// Why there are no media archives, by platform: `unavailable`, `disabled` or `not_offered`.
    media_archive: BTreeMap<&'static str, &'static str>,
}

/// A list of a platform that can be exported.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct DatasetOut {
    #[schema(schema_with = web::words::platform)]
    platform: Platform,
    #[schema(schema_with = web::words::dataset)]
    dataset: DatasetName,
    description: String,
    /// The possible values of `fmt`.
    formats: Vec<&'static str>,
    /// The fields of `params`.
    params: Vec<ParameterOut>,
    fields: FieldsOut,
    /// The columns of its files, in order, present even without rows. If rows have other fields,
    /// columns for these follow. Empty if an operator's catalogue declares none.
    columns: Vec<ColumnOut>,
    /// OAuth scopes that the account's token needs (`platform_delta`).
    scopes: Vec<String>,
    /// Why there is no media archive.
    media_archive: &'static str,
}

/// A field of `params`.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ParameterOut {
    name: &'static str,
    required: bool,
    /// `digits`, or `word`: letters, digits, `-` and `_`.
    form: &'static str,
    description: &'static str,
}

/// The fields that every row has, as JSON pointers.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct FieldsOut {
    /// The field that identifies a row.
    id: String,
    /// The field that `start_date` and `end_date` are compared with.
    time: String,
    /// `rfc3339`, `unix_seconds` or `unix_millis`.
    time_unit: &'static str,
    /// Whether rows may lack a time; such rows are in no window.
    time_optional: bool,
}

/// Lists what can be exported: the datasets of each platform, their formats and parameters.
#[utoipa::path(
    get, path = "/v1/exports/datasets", tag = "exports", params(DatasetParams),
    responses((status = 200, body = Datasets))
)]
async fn list_datasets(
    State(api): State<ApiState>,
    _caller: Caller,
    Query(params): Query<DatasetParams>,
) -> Json<Datasets> {
    let platforms = params.platform.map_or_else(Platform::all, |only| vec![only]);
    let catalogs = || platforms.iter().map(|platform| (*platform, api.catalog.platform(*platform)));
    let datasets = catalogs().flat_map(|(platform, catalog)| {
        let archive = catalog.media_archive().as_str();
        catalog.datasets().iter().map(move |dataset| DatasetOut::of(platform, dataset, archive))
    });
    let archives =
        catalogs().map(|(platform, catalog)| (platform.as_str(), catalog.media_archive().as_str()));
    Json(Datasets { datasets: datasets.collect(), media_archive: archives.collect() })
}

impl DatasetOut {
    fn of(platform: Platform, dataset: &Dataset, media_archive: &'static str) -> Self {
        let params = dataset.chat.iter().map(|chat| ParameterOut {
            name: "chat_id",
            required: true,
            form: chat.form.as_str(),
            description: "the fan's account id on the platform, not the id of the conversation",
        });
        Self {
            platform,
            dataset: dataset.name,
            description: dataset.description.clone(),
            formats: ExportFormat::ALL.iter().map(|format| format.as_str()).collect(),
            params: params.collect(),
            fields: FieldsOut {
                id: dataset.id.to_string(),
                time: dataset.time.field.to_string(),
                time_unit: dataset.time.unit.as_str(),
                time_optional: dataset.time.optional,
            },
            columns: dataset.columns.iter().map(ColumnOut::from).collect(),
            scopes: dataset.scopes.clone(),
            media_archive,
        }
    }
}
