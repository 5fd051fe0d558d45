//! Keys: the credentials of programs. A secret is shown once, when it is created.
//!
//! A key may be limited to some accounts, to a monthly budget of credits (UTC), or in time. A
//! limited key sees and changes no other key, so that it cannot widen its own rights.

use axum::extract::State;
use domain::account::CreatorId;
use domain::credits::Credits;
use domain::field_error::FieldErrorKind;
use domain::id::KeyId;
use domain::key::{KeyScope, KeySecret};
use domain::time::Timestamp;
use failures::Failure;
use failures::FieldProblem;
use http::StatusCode;
use identity::login;
use runtime::audit::{self, AuditRecord};
use serde_json::{Value, json};
use store::audit::AuditEntry;
use store::key_changes::{KeyChange, KeyChanging, LimitChange};
use store::key_list::ListedKey;
use store::keys::{ApiKey, KeyCreation, KeyRotation, NewKey, NewSecret};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::device::CallingDevice;
use web::auth::{Caller, FullCaller, UnrestrictedCaller};
use web::created::CreatedResource;
use web::error::ApiError;
use web::extract::{Json, NoQuery, OptionalJson, Path};
use web::fields::{FieldProblems, GoodFields, RequestBody};

use super::key_limits;
use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_keys, create_key))
        .routes(routes!(get_key, update_key, delete_key))
        .routes(routes!(rotate_key))
}

/// A key, without its secret.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct KeyOut {
    #[schema(value_type = String)]
    key_id: KeyId,
    name: String,
    /// The first characters of the secret.
    prefix: String,
    /// The last four characters of the secret.
    last_four: String,
    #[schema(schema_with = web::words::key_scope)]
    scope: KeyScope,
    /// The accounts it is limited to; null means no restriction.
    #[schema(value_type = Option<Vec<String>>)]
    accounts: Option<Vec<CreatorId>>,
    /// The credits that it may spend in a UTC month; null means all that the customer has.
    monthly_budget_credits: Option<i64>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    rotated_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl From<ApiKey> for KeyOut {
    fn from(key: ApiKey) -> Self {
        Self {
            key_id: key.id,
            name: key.name,
            prefix: key.shown_prefix,
            last_four: key.shown_suffix,
            scope: key.scope,
            accounts: Some(key.accounts).filter(|accounts| !accounts.is_empty()),
            monthly_budget_credits: key.monthly_budget.map(Credits::whole),
            created_at: key.created_at,
            rotated_at: key.rotated_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// A key and its usage.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ListedKeyOut {
    #[serde(flatten)]
    key: KeyOut,
    /// Credits that calls and exports of this UTC month have spent or hold; these count against the
    /// budget.
    used_this_month: i64,
    /// When it was last used; a use other than a call is recorded within a minute.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    /// Until when the secret before the last rotation is still accepted; null if none is.
    #[schema(value_type = Option<String>, format = DateTime)]
    old_secret_expires_at: Option<Timestamp>,
}

impl ListedKeyOut {
    fn new(listed: ListedKey, now: Timestamp) -> Self {
        Self {
            used_this_month: listed.used.whole(),
            last_used_at: listed.last_used_at,
            old_secret_expires_at: listed.old_secret_valid_until.filter(|until| *until > now),
            key: listed.key.into(),
        }
    }
}

/// The keys of a customer.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Keys {
    keys: Vec<ListedKeyOut>,
    /// When the next UTC month begins and every budget resets.
    #[schema(value_type = String, format = DateTime)]
    budgets_reset_at: Timestamp,
}

/// Lists the customer's keys with their usage, including the hundred most recently revoked. A
/// limited key sees itself only.
#[utoipa::path(get, path = "/v1/auth/keys", tag = "auth", responses((status = 200, body = Keys)))]
async fn list_keys(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<Keys>, ApiError> {
    let now = api.clock.now();
    let today = now.day();
    let listed = store::key_list::list(&api.store, caller.customer, today).await?;
    let only = caller.key().filter(|key| key.is_limited).map(|key| key.id);
    let keys = listed.into_iter().filter(|one| only.is_none_or(|only| only == one.key.id));
    Ok(axum::Json(Keys {
        keys: keys.map(|one| ListedKeyOut::new(one, now)).collect(),
        budgets_reset_at: today.next_month_start().start(),
    }))
}

/// Shows one key with its usage, without its secret. A limited key can request only itself.
#[utoipa::path(
    get, path = "/v1/auth/keys/{key_id}", tag = "auth",
    params(("key_id" = String, Path, description = "the key")),
    responses(
        (status = 200, body = ListedKeyOut),
        (status = 404, description = "there is no key with that id"),
    )
)]
async fn get_key(
    State(api): State<ApiState>,
    caller: Caller,
    Path(key): Path<KeyId>,
    _: NoQuery,
) -> Result<axum::Json<ListedKeyOut>, ApiError> {
    caller.refuse_other_keys(key)?;
    let now = api.clock.now();
    let listed = store::key_list::find(&api.store, caller.customer, key, now.day()).await?;
    Ok(axum::Json(ListedKeyOut::new(listed.ok_or(NO_KEY)?, now)))
}

/// A key to be created.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyIn {
    /// The name of the key; 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100, format = "line")]
    name: String,
    /// `full` or `read_only`.
    #[schema(schema_with = web::words::key_scope)]
    scope: KeyScope,
    /// The accounts it is limited to, 1 to 100 connected ones; null or absent means no restriction.
    #[schema(schema_with = web::words::new_key_accounts)]
    accounts: Option<Vec<CreatorId>>,
    /// The credits that it may spend in a UTC month, 0 or more; all that the customer has when
    /// absent.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    monthly_budget_credits: Option<i64>,
    /// When it stops being accepted, in the future (RFC 3339 with a zone); never when absent.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// With a session: the customer's password, as a confirmation. Ignored with a key.
    #[schema(max_length = 128, format = Password)]
    current_password: Option<String>,
}

impl RequestBody for KeyIn {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        key_limits::check_expiry(fields, web.clock.now(), problems);
    }
}

/// A key with its secret.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct CreatedKey {
    #[serde(flatten)]
    key: KeyOut,
    /// The secret. It is shown only in this response.
    api_key: String,
    /// After a rotation with a grace period: until when the old secret is still accepted; null if
    /// none is.
    #[schema(value_type = Option<String>, format = DateTime)]
    old_secret_expires_at: Option<Timestamp>,
}

/// Creates a key. Its secret is shown only in this response. A session must send
/// `current_password`, because a key outlives the session that made it.
#[utoipa::path(
    post, path = "/v1/auth/keys", tag = "auth", request_body = KeyIn,
    responses(
        (status = 201, body = CreatedKey,
            headers(("Location" = String, description = "where the key is shown, without its secret"))),
    )
)]
async fn create_key(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    device: CallingDevice,
    Json(new): Json<KeyIn>,
) -> Result<CreatedResource<CreatedKey>, ApiError> {
    confirm_person(&api, &caller, &device, new.current_password).await?;
    let now = api.clock.now();
    let secret = KeySecret::generate(|bound| api.random.below(bound));
    let key = NewKey {
        id: KeyId::new(now, api.random.bytes()),
        name: new.name,
        secret: NewSecret::of(&secret),
        scope: new.scope,
        accounts: new.accounts.unwrap_or_default(),
        monthly_budget: new.monthly_budget_credits.map(Credits::from_whole),
        expires_at: new.expires_at,
    };
    let entry = entry(&api, &caller, audit::KEY_CREATED, key_limits::described(&key));
    let count_max = api.config.keys.count_max;
    match store::keys::create(&api.store, caller.customer, &key, count_max, &entry).await? {
        KeyCreation::Created => {}
        KeyCreation::TooMany => return Err(ApiError::Failure(Failure::TooManyKeys(count_max))),
        KeyCreation::NoAccount(account) => return Err(key_limits::no_account(&account)),
    }
    let stored = store::keys::find(&api.store, caller.customer, key.id).await?;
    let created = CreatedKey {
        key: stored.ok_or(NO_KEY)?.into(),
        api_key: secret.expose().to_owned(),
        old_secret_expires_at: None,
    };
    Ok(CreatedResource { location: format!("/v1/auth/keys/{}", key.id), body: created })
}

/// The changes to a key. An absent field stays as it is; null removes a limit.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyPatch {
    /// The name of the key; 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100, format = "line")]
    name: Option<String>,
    /// The accounts it is limited to, 1 to 100 connected ones; null means no restriction.
    #[serde(default, deserialize_with = "key_limits::limit_change")]
    #[schema(schema_with = web::words::changed_key_accounts)]
    accounts: LimitChange<Vec<CreatorId>>,
    /// The credits that it may spend in a UTC month, 0 or more; null means all that the customer
    /// has.
    #[serde(default, deserialize_with = "key_limits::limit_change")]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64, value_type = Option<i64>)]
    monthly_budget_credits: LimitChange<i64>,
    /// When it stops being accepted, in the future (RFC 3339 with a zone); null means never.
    #[serde(default, deserialize_with = "key_limits::limit_change")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: LimitChange<Timestamp>,
}

impl RequestBody for KeyPatch {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        key_limits::check_expiry(fields, web.clock.now(), problems);
    }
}

/// Changes the name or the limits of a key from now on. To change its scope, rotate it.
#[utoipa::path(
    patch, path = "/v1/auth/keys/{key_id}", tag = "auth", request_body = Option<KeyPatch>,
    params(("key_id" = String, Path, description = "the key")),
    responses(
        (status = 200, body = KeyOut),
    )
)]
async fn update_key(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    Path(key): Path<KeyId>,
    OptionalJson(patch): OptionalJson<KeyPatch>,
) -> Result<axum::Json<KeyOut>, ApiError> {
    let change = KeyChange {
        key,
        customer: caller.customer,
        name: patch.name,
        accounts: patch.accounts,
        monthly_budget: patch.monthly_budget_credits.map(Credits::from_whole),
        expires_at: patch.expires_at,
    };
    let entry = entry(&api, &caller, audit::KEY_CHANGED, key_limits::described_change(&change));
    let changed = store::key_changes::change(&api.store, &change, &entry).await?;
    api.cached.forget_keys_of(caller.customer);
    match changed {
        KeyChanging::Changed(changed) => Ok(axum::Json(changed.into())),
        KeyChanging::NotFound => Err(NO_KEY),
        KeyChanging::NoAccount(account) => Err(key_limits::no_account(&account)),
    }
}

const NO_KEY: ApiError = ApiError::Failure(Failure::NotFound("there is no key with that id"));

/// The audit record of a change to a key.
fn entry(api: &ApiState, caller: &Caller, action: &'static str, details: Value) -> AuditEntry {
    let record = AuditRecord { customer: caller.customer, actor: caller.actor(), action, details };
    record.now(&api.clock, &api.random)
}

/// Revokes a key permanently. Once this response is sent, every node refuses it. A limited key can
/// revoke only itself.
#[utoipa::path(
    delete, path = "/v1/auth/keys/{key_id}", tag = "auth",
    params(("key_id" = String, Path, description = "the key")),
    responses(
        (status = 204, description = "revoked"),
    )
)]
async fn delete_key(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    Path(key): Path<KeyId>,
    _: NoQuery,
) -> Result<StatusCode, ApiError> {
    caller.refuse_other_keys(key)?;
    let entry = entry(&api, &caller, audit::KEY_DELETED, json!({"key_id": key}));
    let revoked = store::keys::revoke(&api.store, caller.customer, key, &entry).await?;
    api.cached.forget_keys_of(caller.customer);
    if revoked { Ok(StatusCode::NO_CONTENT) } else { Err(NO_KEY) }
}

/// A rotation: which key, and how long its old secret is still accepted.
#[derive(serde::Deserialize, utoipa::ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RotationIn {
    /// The key; the calling key when absent. Required with a session.
    #[schema(value_type = Option<String>, format = "key-id")]
    key_id: Option<KeyId>,
    /// With a session: the customer's password, as a confirmation. Ignored with a key.
    #[schema(max_length = 128, format = Password)]
    current_password: Option<String>,
    /// The new scope; unchanged when absent.
    #[schema(schema_with = web::words::optional_key_scope)]
    scope: Option<KeyScope>,
    /// How many seconds the old secret is still accepted: 0 (the default) to 604800.
    #[schema(minimum = 0, maximum = 604_800)]
    expires_old_in_s: i64,
}

impl RequestBody for RotationIn {}

/// Replaces the secret of a key; the new one is shown only in this response. With
/// `expires_old_in_s: 0` the old secret stops working immediately. A limited key can rotate only
/// itself.
#[utoipa::path(
    post, path = "/v1/auth/keys/rotate", tag = "auth", request_body = Option<RotationIn>,
    responses(
        (status = 200, body = CreatedKey),
    )
)]
async fn rotate_key(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    device: CallingDevice,
    OptionalJson(rotation): OptionalJson<RotationIn>,
) -> Result<axum::Json<CreatedKey>, ApiError> {
    let calling = caller.key().map(|key| key.id);
    let key = rotation.key_id.or(calling).ok_or_else(|| needed_with_session("key_id"))?;
    caller.refuse_other_keys(key)?;
    confirm_person(&api, &caller, &device, rotation.current_password).await?;
    let secret = KeySecret::generate(|bound| api.random.below(bound));
    let now = api.clock.now();
    let grace = rotation.expires_old_in_s;
    let change = KeyRotation {
        key,
        customer: caller.customer,
        secret: NewSecret::of(&secret),
        scope: rotation.scope,
        at: now,
        old_valid_until: (grace > 0).then(|| now.plus_seconds(grace)),
    };
    let entry = entry(&api, &caller, audit::KEY_ROTATED, rotated_details(&change));
    let rotated = store::keys::rotate(&api.store, &change, &entry).await?;
    api.cached.forget_keys_of(caller.customer);
    let rotated = rotated.ok_or(NO_KEY)?;
    Ok(axum::Json(CreatedKey {
        key: rotated.into(),
        api_key: secret.expose().to_owned(),
        old_secret_expires_at: change.old_valid_until,
    }))
}

fn rotated_details(change: &KeyRotation) -> Value {
    let mut details = json!({"key_id": change.key});
    if let Some(fields) = details.as_object_mut() {
        fields.extend(change.scope.map(|scope| ("scope".to_owned(), json!(scope))));
        fields.extend(
            change.old_valid_until.map(|at| ("old_secret_expires_at".to_owned(), json!(at))),
        );
    }
    details
}

/// Asks a person with a session for the password again; a program with a key has none.
async fn confirm_person(
    api: &ApiState,
    caller: &Caller,
    device: &CallingDevice,
    password: Option<String>,
) -> Result<(), ApiError> {
    if caller.key().is_none() {
        let password = password.ok_or_else(|| needed_with_session("current_password"))?;
        login::confirm(&api.identity, caller.customer, password, device).await?;
    }
    Ok(())
}

fn needed_with_session(field: &str) -> FieldProblem {
    FieldProblem::new("body", field, FieldErrorKind::Missing, "is required with a session")
}
