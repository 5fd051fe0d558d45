//! Accounts: creator accounts that a customer connects, after the platform has confirmed them.

use accounts::connect::{self, AccountImport};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::account::{AccountState, CreatorId, InactiveReason, WantedState};
use domain::platform::Platform;
use domain::time::Timestamp;
use failures::AccountProblem;
use failures::Failure;
use http::StatusCode;
use runtime::audit::{self, AuditRecord};
use serde_json::json;
use store::account_switch::{AccountSwitch, SwitchOutcome};
use store::accounts::{Account, AccountRemoval};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::{Caller, FullCaller};
use web::created::CreatedResource;
use web::error::ApiError;
use web::extract::{Json, NoQuery, Path, Query};
use web::fields::{FieldProblems, GoodFields, RequestBody};
use web::page::PageQuery;

use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(import_account))
        .routes(routes!(list_accounts))
        .routes(routes!(get_account, delete_account, update_account))
}

/// A connected account. Its credentials are never shown.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AccountOut {
    /// The id chosen by the customer; `{account}` in paths.
    #[schema(value_type = String)]
    creator_id: CreatorId,
    #[schema(schema_with = web::words::platform)]
    platform: Platform,
    /// The platform's own id, if the platform reports one.
    platform_account_id: Option<String>,
    /// `active`, `inactive` or `reconnect_needed`.
    #[schema(schema_with = web::words::account_state)]
    state: AccountState,
    /// Why it is inactive: `no_free_slot` or `switched_off`; null otherwise.
    #[schema(schema_with = web::words::inactive_reason)]
    inactive_reason: Option<InactiveReason>,
    #[schema(value_type = String, format = DateTime)]
    connected_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
}

impl From<Account> for AccountOut {
    fn from(account: Account) -> Self {
        Self {
            inactive_reason: account.inactive_reason(),
            creator_id: account.creator_id,
            platform: account.platform,
            platform_account_id: Some(account.platform_account_id).filter(|id| !id.is_empty()),
            state: account.state,
            connected_at: account.connected_at,
            verified_at: account.verified_at,
        }
    }
}

/// A connected account, with warnings for its owner.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ImportedAccount {
    #[serde(flatten)]
    account: AccountOut,
    /// What was done but is probably not intended; usually empty.
    warnings: Vec<WarningOut>,
}

/// Something that is probably not intended.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct WarningOut {
    /// `connected_twice`: the same account of the platform is also connected under another id, and
    /// uses another slot.
    #[schema(schema_with = web::words::warning)]
    code: &'static str,
    /// What is wrong and what to do, as a sentence.
    detail: String,
    /// The other ids, as far as the caller may use them.
    #[schema(value_type = Vec<String>)]
    creator_ids: Vec<CreatorId>,
}

impl WarningOut {
    /// The same account is connected under other ids, of which the caller may see some.
    fn connected_twice(account: &Account, visible: Vec<CreatorId>) -> Self {
        let names: Vec<String> = visible.iter().map(|name| format!("`{name}`")).collect();
        let under = if names.is_empty() { "another name".to_owned() } else { names.join(" and ") };
        Self {
            code: web::words::CONNECTED_TWICE,
            detail: format!(
                "the account {} of {} is also connected under {under}; each name uses a slot, and \
                 `DELETE /v1/accounts/{{account}}` frees one",
                account.platform_account_id, account.platform,
            ),
            creator_ids: visible,
        }
    }
}

async fn warnings(
    api: &ApiState,
    caller: &Caller,
    account: &Account,
) -> Result<Vec<WarningOut>, ApiError> {
    let twins = store::accounts::twins(&api.store, caller.customer, account).await?;
    if twins.is_empty() {
        return Ok(Vec::new());
    }
    let visible = twins.into_iter().filter(|name| caller.may_use(name)).collect();
    Ok(vec![WarningOut::connected_twice(account, visible)])
}

/// An account to connect.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportIn {
    /// 1 to 64 letters, digits, `_`, `.` or `-`; unique for the customer.
    #[schema(value_type = String, min_length = 1, max_length = 64, format = "creator-id")]
    creator_id: CreatorId,
    #[schema(schema_with = web::words::platform)]
    platform: Platform,
    /// The fields that `GET /v1/platforms` lists for the platform.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    auth: serde_json::Map<String, serde_json::Value>,
    /// Whether the credentials may belong to a different account of the platform from the one
    /// connected under this `creator_id`. Without it such an import is refused (`other_identity`),
    /// and nothing changes.
    #[serde(default)]
    replace_identity: bool,
}

impl RequestBody for ImportIn {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        let platform = fields.parsed::<Platform>("platform");
        let auth = fields.value("auth").and_then(serde_json::Value::as_object);
        let (Some(platform), Some(auth)) = (platform, auth) else { return };
        let wrong = web.catalog.platform(platform).check_auth(auth).err().unwrap_or_default();
        for problem in wrong {
            problems.add(problem.into());
        }
    }
}

/// Verifies an account at its platform and connects it. A key that is limited to some accounts can
/// connect those, and ids that the customer has not used.
#[utoipa::path(
    post, path = "/v1/connect/import", tag = "accounts", request_body = ImportIn,
    responses(
        (status = 201, description = "connected", body = ImportedAccount,
            headers(("Location" = String, description = "where the account is shown"))),
        (status = 200, description = "connected again, credentials replaced", body = ImportedAccount),
    )
)]
async fn import_account(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    Json(import): Json<ImportIn>,
) -> Result<Response, ApiError> {
    let import = AccountImport {
        customer: caller.customer,
        actor: caller.actor(),
        authority: caller.authority(),
        creator: import.creator_id,
        platform: import.platform,
        auth: import.auth,
        replaces_identity: import.replace_identity,
    };
    let connected = connect::connect(&api.accounts, import).await?;
    let location = format!("/v1/accounts/{}", connected.account.creator_id);
    let warnings = warnings(&api, &caller, &connected.account).await?;
    let body = ImportedAccount { account: connected.account.into(), warnings };
    Ok(if connected.is_new {
        CreatedResource { location, body }.into_response()
    } else {
        axum::Json(body).into_response()
    })
}

type AccountParams = PageQuery<CreatorId>;

/// A page of a customer's accounts.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Accounts {
    accounts: Vec<AccountOut>,
    /// The `before` for the next page; null on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<CreatorId>,
}

/// Lists the accounts that the caller may use.
#[utoipa::path(
    get, path = "/v1/accounts", tag = "accounts", params(AccountParams),
    responses((status = 200, body = Accounts))
)]
async fn list_accounts(
    State(api): State<ApiState>,
    caller: Caller,
    Query(params): Query<AccountParams>,
) -> Result<axum::Json<Accounts>, ApiError> {
    let mut accounts = store::accounts::list(&api.store, caller.customer).await?;
    // They are in the order of their names, so a page goes on even if its last account is gone.
    let before = params.before();
    let is_next = |account: &Account| {
        before.as_ref().is_none_or(|last| account.creator_id.as_str() > last.as_str())
    };
    accounts.retain(|account| is_next(account) && caller.may_use(&account.creator_id));
    let page = params.page(accounts, |account| account.creator_id.clone());
    let shown = page.entries.into_iter().map(AccountOut::from).collect();
    Ok(axum::Json(Accounts { accounts: shown, next_before: page.next_before }))
}

/// Shows one account.
#[utoipa::path(
    get, path = "/v1/accounts/{account}", tag = "accounts",
    params(("account" = String, Path, description = "its creator_id")),
    responses(
        (status = 200, body = AccountOut),
    )
)]
async fn get_account(
    State(api): State<ApiState>,
    caller: Caller,
    Path(account): Path<String>,
    _: NoQuery,
) -> Result<axum::Json<AccountOut>, ApiError> {
    let creator: CreatorId =
        account.parse().map_err(|_| ApiError::Failure(Failure::AccountNotFound))?;
    find(&api, &caller, &creator).await.map(axum::Json)
}

async fn find(
    api: &ApiState,
    caller: &Caller,
    creator: &CreatorId,
) -> Result<AccountOut, ApiError> {
    if !caller.may_use(creator) {
        return Err(ApiError::Failure(Failure::AccountNotFound));
    }
    let account = store::accounts::find(&api.store, caller.customer, creator).await?;
    account.map(AccountOut::from).ok_or(ApiError::Failure(Failure::AccountNotFound))
}

/// The new state of an account.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct AccountChanges {
    #[schema(schema_with = web::words::wanted_state)]
    state: WantedState,
}

impl RequestBody for AccountChanges {}

/// Switches an account off or on. While it is off it keeps its credentials, is `inactive` and has
/// no slot; its calls are refused, and a running export fails without cost. Its slot goes to the
/// oldest account that waits for one. It stays off even if a slot is free or it is imported again.
/// Switching it on needs a free slot (409 `no_free_slot`). Setting the current state changes
/// nothing.
#[utoipa::path(
    patch, path = "/v1/accounts/{account}", tag = "accounts", request_body = AccountChanges,
    params(("account" = String, Path, description = "its creator_id")),
    responses(
        (status = 200, description = "the account as it is now", body = AccountOut),
    )
)]
async fn update_account(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    Path(account): Path<String>,
    Json(wanted): Json<AccountChanges>,
) -> Result<axum::Json<AccountOut>, ApiError> {
    let creator: CreatorId =
        account.parse().map_err(|_| ApiError::Failure(Failure::AccountNotFound))?;
    let on = wanted.state == WantedState::Active;
    let (customer, actor) = (caller.customer, caller.actor());
    let action = if on { audit::ACCOUNT_SWITCHED_ON } else { audit::ACCOUNT_SWITCHED_OFF };
    let details = json!({"creator_id": creator});
    let record = AuditRecord { customer, actor: actor.clone(), action, details };
    let entry = record.now(&api.clock, &api.random);
    let note = audit::noting_activated(&api.clock, &api.random, customer, &actor);
    let switch = AccountSwitch {
        customer,
        authority: caller.authority(),
        creator_id: &creator,
        on,
        allowances: &api.allowances,
        entry: &entry,
        note: &note,
    };
    match store::account_switch::switch(&api.store, &switch).await? {
        SwitchOutcome::Done { account: switched, changed, shifts } => {
            if changed {
                api.cached.forget_account(customer, &creator);
            }
            for shift in &shifts {
                api.cached.forget_account(customer, &shift.creator_id);
            }
            Ok(axum::Json((*switched).into()))
        }
        SwitchOutcome::NoFreeSlot { platform, limit, accounts } => {
            let is_limited = caller.refuse_limited().is_err();
            Err(AccountProblem::NoFreeSlot { platform, limit, accounts, is_limited }.into())
        }
        SwitchOutcome::NoAccount => Err(ApiError::Failure(Failure::AccountNotFound)),
    }
}

/// Disconnects an account and deletes its credentials. Its calls stay in the log. Its slot goes to
/// the oldest inactive account on the platform.
#[utoipa::path(
    delete, path = "/v1/accounts/{account}", tag = "accounts",
    params(("account" = String, Path, description = "its creator_id")),
    responses(
        (status = 204, description = "disconnected"),
    )
)]
async fn delete_account(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    Path(account): Path<String>,
    _: NoQuery,
) -> Result<StatusCode, ApiError> {
    let creator: CreatorId =
        account.parse().map_err(|_| ApiError::Failure(Failure::AccountNotFound))?;
    if !caller.may_use(&creator) {
        return Err(ApiError::Failure(Failure::AccountNotFound));
    }
    let record = AuditRecord {
        customer: caller.customer,
        actor: caller.actor(),
        action: audit::ACCOUNT_DELETED,
        details: json!({"creator_id": creator}),
    };
    let entry = record.now(&api.clock, &api.random);
    let customer = caller.customer;
    let removal = AccountRemoval {
        customer,
        authority: caller.authority(),
        creator_id: &creator,
        allowances: &api.allowances,
    };
    let note = audit::noting_activated(&api.clock, &api.random, customer, &entry.actor);
    let deleted = store::accounts::delete(&api.store, &removal, &entry, &note).await?;
    api.cached.forget_account(customer, &creator);
    let shifts = deleted.ok_or(ApiError::Failure(Failure::AccountNotFound))?;
    for shift in &shifts {
        api.cached.forget_account(customer, &shift.creator_id);
    }
    Ok(StatusCode::NO_CONTENT)
}
