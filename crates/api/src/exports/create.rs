//! Requesting an export: everything is checked before any credits are held, and invalid fields cost
//! nothing.

use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use catalog::dataset::Dataset;
use domain::account::{AccountState, CreatorId};
use domain::dataset::DatasetName;
use domain::export::{ExportCredits, ExportFormat, ExportState};
use domain::field_error::FieldErrorKind;
use domain::id::ExportId;
use domain::platform::Platform;
use domain::window::DateWindow;
use failures::AccountProblem;
use failures::ExportProblem;
use failures::Failure;
use failures::FieldProblem;
use failures::{NotStored, UnknownOutcome};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use runtime::sealing::DataKey;
use sha2::{Digest as _, Sha256};
use store::accounts::Account;
use store::exports::{self, Export, ExportActivity, ExportCreation, NewExport};
use store::idempotency::ExistingRequest;
use web::auth::{self, AuthenticatedCustomer, KeyCaller};
use web::created::CreatedResource;
use web::error::{ApiError, HarmlessFailure};
use web::extract::{self, Path};
use web::fields::{self, FieldProblems, GoodFields, RequestBody};
use web::idempotency::{self, ResponseSeal};
use web::metered_headers;
use web::trial;

use super::columns;
use super::record::{ExportOut, Sight};
use crate::ApiState;

/// Words by which media archives are requested.
const ARCHIVES: [&str; 4] = ["media", "media_archive", "media_zip", "media-archive"];

/// An export to be created.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportIn {
    /// A dataset of the account's platform; `GET /v1/exports/datasets` lists them.
    #[schema(schema_with = web::words::dataset)]
    dataset: DatasetName,
    /// The format of the file; `csv` when absent.
    #[schema(schema_with = web::words::optional_export_format)]
    fmt: Option<ExportFormat>,
    /// Whether the file starts with a byte order mark, by which some spreadsheets recognize UTF-8.
    /// Only with `csv`; false when absent.
    #[serde(default)]
    #[schema(default = false)]
    csv_bom: bool,
    #[schema(schema_with = columns::chosen_columns)]
    columns: Option<Vec<String>>,
    /// The maximum number of rows in the file, at least 1; no maximum when absent.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    max_rows: Option<i64>,
    /// Parameters of the dataset: `chat_id`, the fan's account id, for `chat_messages`.
    #[schema(value_type = Option<std::collections::BTreeMap<String, serde_json::Value>>)]
    params: Option<serde_json::Map<String, serde_json::Value>>,
    /// Only rows from this UTC day, or from this time (with its zone), onwards.
    #[schema(format = "date-or-date-time")]
    start_date: Option<String>,
    /// Only rows up to this UTC day (inclusive), or before this time (with its zone; exclusive).
    #[schema(format = "date-or-date-time")]
    end_date: Option<String>,
}

impl RequestBody for ExportIn {}

/// The request, checked.
struct Wish {
    dataset: DatasetName,
    format: ExportFormat,
    csv_bom: bool,
    columns: Option<Vec<String>>,
    max_rows: Option<i64>,
    params: String,
    start_date: Option<String>,
    end_date: Option<String>,
}

/// Requests an export of a list of the account. 10 credits are held, charged when the file is
/// finished, and released if the export fails or is cancelled before its first page.
#[utoipa::path(
    post, path = "/v1/{account}/exports", tag = "exports", request_body = ExportIn,
    params(
        ("account" = String, Path, description = "its creator_id"),
        ("Idempotency-Key" = Option<String>, Header, description = "repeating the request with the same key creates only one export"),
        ("X-Max-Cost" = Option<String>, Header, description = "the most credits that the request may cost; one that costs more is refused with 412"),
        ("X-Tag" = Option<String>, Header, description = "what the request is for, for `GET /v1/billing/usage/breakdown?by=tag`: 1 to 64 letters, digits, `.`, `_`, `:`, `/` or `-`, starting with a letter or a digit"),
    ),
    responses(
        (status = 201, description = "the export is waiting for a worker", body = ExportOut,
            headers(("Location" = String, description = "where the export is shown"))),
    )
)]
pub(super) async fn create_export(State(api): State<ApiState>, request: Request) -> Response {
    let (mut parts, incoming) = request.into_parts();
    match create(&api, &mut parts, incoming).await {
        Ok(response) => response,
        Err(refusal) => refused(&api, &parts, refusal).await,
    }
}

/// A refusal costs nothing and stores nothing for its `Idempotency-Key`: a repetition is checked
/// again. After a failure on our side the export may have been stored; then the key prevents a
/// repetition from creating a second one.
async fn refused(api: &ApiState, parts: &Parts, refusal: ApiError) -> Response {
    let customer =
        parts.extensions.get::<AuthenticatedCustomer>().map(|AuthenticatedCustomer(it)| *it);
    let refusal = match customer {
        Some(customer) => trial::explained(&api.web, customer, refusal).await,
        None => refusal,
    };
    let balance = match (customer, &refusal) {
        (Some(customer), refusal) if !matches!(refusal, ApiError::Failure(Failure::Store(_))) => {
            let read = store::usage::balance(&api.store, customer).await;
            read.ok().flatten().map(|balance| balance.available)
        }
        _ => None,
    };
    let mut response = refusal.into_response();
    if matches!(web::idempotency_key::read(&parts.headers), Ok(Some(_))) {
        response.extensions_mut().insert(HarmlessFailure);
    }
    idempotency::put_free(response.headers_mut(), balance);
    response
}

async fn create(api: &ApiState, parts: &mut Parts, incoming: Body) -> Result<Response, ApiError> {
    let caller = KeyCaller::from_request_parts(parts, api).await?;
    let Path(named) = Path::<String>::from_request_parts(parts, api).await?;
    if !extract::is_json(&parts.headers) {
        return Err(ApiError::UnsupportedMediaType);
    }
    let key = web::idempotency_key::read(&parts.headers)?;
    metered_headers::check_cost(&parts.headers, api.config.credits.costs().export)?;
    if let Some(tag) = metered_headers::tag(&parts.headers)? {
        api.web.daily_tags.admit(caller.customer, &tag, api.clock.now())?;
    }
    let bytes_max = api.config.http.limits.json_body_bytes_max;
    let body = api.web.read_body(&parts.extensions, incoming, bytes_max).await?;
    let account = usable_account(api, &caller, &named).await?;
    let wanted = fields::read_body_with(&api.web, parts.uri.query(), &body, |fields, problems| {
        check(api, &account, fields, problems)
    })?;
    let wish = wish(api, &account, wanted)?;
    let now = api.clock.now();
    let mut new = new_export(api, &caller, &account, wish, parts)?;
    let shown = ExportOut::of(api, as_created(&new), Sight::Own);
    let location = format!("/v1/exports/{}", new.id);
    let record = CreatedResource { location, body: shown }.into_response();
    let (head, answer) = (record.headers().clone(), whole(record).await?);
    let data_key = api.exports.vault.find(account.credentials.data_key).await?;
    if let Some(key) = key {
        let own_type = parts.headers.get(header::CONTENT_TYPE);
        let same = idempotency::RequestIdentity {
            method: &parts.method,
            uri: &parts.uri,
            content_type: own_type.map_or(&[][..], HeaderValue::as_bytes),
            body_digest: Sha256::digest(&body).into(),
        };
        let place = ResponseSeal::of_customer(&data_key, caller.customer);
        let stored = idempotency::seal(&place, &api.random, (StatusCode::CREATED, &head, &answer));
        let who = idempotency::identity(
            account.platform,
            &account.platform_account_id,
            account.connected_at,
        );
        new.idempotency = stored.map(|stored| (same.claim(key, Some(who), now), stored));
    }
    let creation = exports::create(&api.store, &new).await?;
    let repeated = matches!(creation, ExportCreation::Repeated(_));
    let mut response = answered(api, &new, creation, (&data_key, head, answer))?;
    if repeated {
        let balance = store::usage::balance(&api.store, caller.customer).await?;
        idempotency::put_free(response.headers_mut(), balance.map(|balance| balance.available));
    }
    Ok(response)
}

/// The account, if the key may use it and it is in use.
async fn usable_account(
    api: &ApiState,
    caller: &KeyCaller,
    named: &str,
) -> Result<Account, ApiError> {
    let creator: CreatorId =
        named.parse().map_err(|_| ApiError::Failure(Failure::AccountNotFound))?;
    let allowed = &caller.key.allowed_accounts;
    if !allowed.is_empty() && !allowed.contains(&creator) {
        return Err(ApiError::Failure(Failure::AccountNotFound));
    }
    let found = store::accounts::find(&api.store, caller.customer, &creator).await?;
    let account = found.ok_or(ApiError::Failure(Failure::AccountNotFound))?;
    api.accounts.target(account.platform)?;
    match account.state {
        AccountState::Inactive => {
            let is_switched_off = account.switched_off_at.is_some();
            Err(AccountProblem::of_inactive(&creator, is_switched_off).into())
        }
        AccountState::Active | AccountState::ReconnectNeeded => Ok(account),
    }
}

/// Checks the request against what the account's platform offers; all problems are reported.
fn check(
    api: &ApiState,
    account: &Account,
    fields: &GoodFields<'_>,
    problems: &mut FieldProblems,
) -> Result<(), ApiError> {
    let catalog = api.catalog.platform(account.platform);
    let is_archive =
        |field: &&str| fields.sent_text(field).is_some_and(|word| ARCHIVES.contains(&word));
    if let Some(field) = ["dataset", "fmt"].into_iter().find(is_archive) {
        let why = catalog.media_archive();
        return Err(ExportProblem::MediaArchive { field, why }.into());
    }
    if let (Some(start), Some(end)) = (fields.text("start_date"), fields.text("end_date"))
        && let Err(problem) = DateWindow::parse(Some(start), Some(end))
    {
        problems.body(problem.field, problem.kind, problem.message);
    }
    let has_mark = fields.value("csv_bom").and_then(serde_json::Value::as_bool) == Some(true);
    let is_other = |format: ExportFormat| format != ExportFormat::Csv;
    if has_mark && fields.parsed::<ExportFormat>("fmt").is_some_and(is_other) {
        let message = "can only be true with `fmt: \"csv\"`";
        problems.body("csv_bom", FieldErrorKind::NotAllowed, message);
    }
    fields.check_names("columns", "column", ::exports::COLUMN_NAME_BYTES_MAX, problems);
    let Some(name) = fields.parsed::<DatasetName>("dataset") else { return Ok(()) };
    match catalog.dataset(name) {
        None => problems.add(not_offered(account.platform, catalog.datasets())),
        Some(dataset) => {
            let empty = serde_json::Map::new();
            let given = fields.value("params").and_then(serde_json::Value::as_object);
            check_params(dataset, given.unwrap_or(&empty), problems);
        }
    }
    Ok(())
}

/// The export to create, once every field is valid.
fn wish(api: &ApiState, account: &Account, wanted: ExportIn) -> Result<Wish, ApiError> {
    let catalog = api.catalog.platform(account.platform);
    let dataset = catalog.dataset(wanted.dataset);
    let dataset = dataset.ok_or_else(|| not_offered(account.platform, catalog.datasets()))?;
    check_scopes(dataset, account)?;
    Ok(Wish {
        dataset: dataset.name,
        format: wanted.fmt.unwrap_or(ExportFormat::Csv),
        csv_bom: wanted.csv_bom,
        columns: wanted.columns,
        max_rows: wanted.max_rows,
        params: kept_params(&wanted.params.unwrap_or_default()),
        start_date: wanted.start_date,
        end_date: wanted.end_date,
    })
}

fn not_offered(platform: Platform, datasets: &[Dataset]) -> FieldProblem {
    let names: Vec<&str> = datasets.iter().map(|dataset| dataset.name.as_str()).collect();
    let message = format!("must be a dataset of {platform}: {}", names.join(", "));
    FieldProblem::new("body", "dataset", FieldErrorKind::NotAllowed, message)
}

fn check_scopes(dataset: &Dataset, account: &Account) -> Result<(), ApiError> {
    let Some(granted) = &account.credentials.scopes else { return Ok(()) };
    let missing: Vec<String> =
        dataset.scopes.iter().filter(|scope| !granted.contains(scope)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(ApiError::Failure(Failure::MissingScope(missing))) }
}

/// Checks that the dataset's parameters are present, and no others.
fn check_params(
    dataset: &Dataset,
    given: &serde_json::Map<String, serde_json::Value>,
    problems: &mut FieldProblems,
) {
    let mut refuse = |name: &str, kind, message: String| {
        let mut problem = FieldProblem::new("body", "params", kind, message);
        problem.loc.push(name.to_owned());
        problems.add(problem);
    };
    let is_known = |name: &str| dataset.chat.is_some() && name == "chat_id";
    for unknown in given.keys().filter(|name| !is_known(name)) {
        let takes = if dataset.chat.is_some() { "chat_id" } else { "no parameters" };
        let message = format!("there is no such parameter; {} takes {takes}", dataset.name);
        refuse(&fields::short(unknown), FieldErrorKind::UnknownField, message);
    }
    let Some(chat) = &dataset.chat else { return };
    let message = format!("must be the fan's account id on the platform ({})", chat.form.as_str());
    match (given.get("chat_id"), given.get("chat_id").and_then(chat_id)) {
        (None, _) => {
            let absent = "is required: the fan's account id on the platform".to_owned();
            refuse("chat_id", FieldErrorKind::Missing, absent);
        }
        (Some(_), None) => refuse("chat_id", FieldErrorKind::WrongType, message),
        (Some(_), Some(id)) if !chat.form.fits(&id) => {
            refuse("chat_id", FieldErrorKind::BadFormat, message);
        }
        (Some(_), Some(_)) => {}
    }
}

/// An account id, sent as a string or as a number.
fn chat_id(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) if number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// The parameters as they are stored.
fn kept_params(given: &serde_json::Map<String, serde_json::Value>) -> String {
    match given.get("chat_id").and_then(chat_id) {
        Some(id) => serde_json::json!({ "chat_id": id }).to_string(),
        None => "{}".to_owned(),
    }
}

fn new_export(
    api: &ApiState,
    caller: &KeyCaller,
    account: &Account,
    wish: Wish,
    parts: &Parts,
) -> Result<NewExport, ApiError> {
    let now = api.clock.now();
    Ok(NewExport {
        id: ExportId::new(now, api.random.bytes()),
        customer: caller.customer,
        key: caller.key.id,
        key_hash: auth::key_hash(parts)?,
        account: account.creator_id.clone(),
        platform: account.platform,
        dataset: wish.dataset,
        format: wish.format,
        csv_bom: wish.csv_bom,
        columns: wish.columns,
        params: wish.params,
        start_date: wish.start_date,
        end_date: wish.end_date,
        max_rows: wish.max_rows,
        cost: api.config.credits.costs().export,
        created_at: now,
        pending_max: api.config.exports.pending_max,
        tag: metered_headers::tag(&parts.headers)?,
        idempotency: None,
    })
}

/// The export as it will be once it is stored.
fn as_created(new: &NewExport) -> Export {
    Export {
        id: new.id,
        customer: new.customer,
        key: new.key,
        account: new.account.clone(),
        platform: new.platform,
        dataset: new.dataset,
        format: new.format,
        csv_bom: new.csv_bom,
        columns: new.columns.clone(),
        params: new.params.clone(),
        start_date: new.start_date.clone(),
        end_date: new.end_date.clone(),
        max_rows: new.max_rows,
        cost: new.cost,
        credits: ExportCredits::Held,
        state: ExportState::Pending,
        attempt: 0,
        pages: 0,
        rows_read: 0,
        worked_micros: 0,
        doing: ExportActivity::default(),
        output: None,
        error: None,
        created_at: new.created_at,
        started_at: None,
        finished_at: None,
        expires_at: None,
        lease_token: 0,
        removal: None,
    }
}

async fn whole(record: Response) -> Result<Bytes, ApiError> {
    // The record is in memory, and a few hundred bytes long.
    let read = axum::body::to_bytes(record.into_body(), usize::MAX).await;
    read.map_err(|error| {
        ApiError::Failure(Failure::Internal(format!(
            "the body of a response could not be read: {error}"
        )))
    })
}

/// The response to a creation.
fn answered(
    api: &ApiState,
    new: &NewExport,
    creation: ExportCreation,
    (data_key, head, answer): (&DataKey, HeaderMap, Bytes),
) -> Result<Response, ApiError> {
    Err(match creation {
        ExportCreation::Created { balance } => {
            api.exports.signal.notify_one();
            let mut response = (StatusCode::CREATED, head, answer).into_response();
            let headers = response.headers_mut();
            headers.insert("x-credits-cost", HeaderValue::from(new.cost.whole()));
            headers.insert("x-credits-balance", HeaderValue::from(balance.whole()));
            return Ok(response);
        }
        ExportCreation::Repeated(ExistingRequest::Replay(stored)) => {
            let place = ResponseSeal::of_customer(data_key, new.customer);
            let (status, headers, body) = idempotency::open(&place, &stored)?;
            let mut response = (status, headers, body).into_response();
            idempotency::mark_replayed(response.headers_mut());
            return Ok(response);
        }
        ExportCreation::Repeated(ExistingRequest::Running) => {
            ApiError::Failure(Failure::IdempotencyInProgress)
        }
        ExportCreation::Repeated(ExistingRequest::OutcomeUnknown { call }) => {
            ApiError::Failure(Failure::OutcomeUnknown(UnknownOutcome::repeated(call)))
        }
        ExportCreation::Repeated(ExistingRequest::NotStored { call }) => {
            ApiError::Failure(Failure::AnswerNotStored(NotStored(Some(call))))
        }
        ExportCreation::Repeated(ExistingRequest::OtherRequest) => {
            ApiError::Failure(Failure::IdempotencyMismatch)
        }
        ExportCreation::KeyRefused => ApiError::Failure(Failure::InvalidKey),
        ExportCreation::KeyReadOnly => ApiError::Failure(Failure::ReadOnlyKey),
        ExportCreation::NoAccount => ApiError::Failure(Failure::AccountNotFound),
        ExportCreation::AccountInactive { is_switched_off } => {
            AccountProblem::of_inactive(&new.account, is_switched_off).into()
        }
        ExportCreation::TooManyPending => ExportProblem::TooMany(new.pending_max).into(),
        ExportCreation::BudgetExhausted { budget, used, resets_at } => {
            let (key, cost) = (new.key, new.cost);
            ApiError::Failure(Failure::KeyBudgetExhausted { key, budget, used, cost, resets_at })
        }
        ExportCreation::Insufficient { balance } => {
            ApiError::Failure(Failure::InsufficientCredits { balance, cost: new.cost })
        }
    })
}
