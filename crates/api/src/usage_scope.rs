//! Whose spending a response shows: that of all of a customer's keys, or of one key.
//!
//! A limited key sees its own. A session, or a key without limits, can choose.

use domain::field_error::FieldErrorKind;
use domain::id::{CustomerId, KeyId};
use failures::Failure;
use failures::FieldProblem;
use store::usage::UsageOf;
use utoipa::openapi::schema::Object;
use web::auth::Caller;
use web::error::ApiError;

use crate::ApiState;

const NO_KEY: ApiError = ApiError::Failure(Failure::NotFound(
    "there is no key with the id `key_id`; `GET /v1/auth/keys` lists yours",
));

/// Whose spending to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsageScope {
    /// That of all keys.
    Customer,
    /// That of one key.
    Key,
}

impl UsageScope {
    const ALL: [&str; 2] = ["customer", "key"];

    /// The scope of a response that shows this key, or all.
    pub(crate) const fn of_key(shown: Option<KeyId>) -> Self {
        if shown.is_some() { Self::Key } else { Self::Customer }
    }
}

/// Its schema in the contract.
pub(crate) fn described() -> Object {
    web::words::one_of(
        "`customer`: of all keys. `key`: of one key, `key_id`.",
        UsageScope::ALL.into_iter(),
    )
}

/// The parameters of a request that choose it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The parameter `scope`.
    pub scope: Option<UsageScope>,
    /// The parameter `key_id`.
    pub key_id: Option<KeyId>,
}

impl Wanted {
    /// Whose spending the caller sees. Without a choice that is `default`; a session sees all of
    /// the customer's by default, and a limited key always its own.
    pub(crate) async fn by(
        self,
        api: &ApiState,
        caller: &Caller,
        default: UsageScope,
    ) -> Result<UsageOf, ApiError> {
        let named = self.named()?;
        if let Some(key) = named {
            caller.refuse_other_keys(key)?;
            refuse_unknown(api, caller.customer, key).await?;
        }
        let own = caller.key();
        let default = match own {
            None => UsageScope::Customer,
            Some(key) if key.is_limited => UsageScope::Key,
            Some(_) => default,
        };
        let key = match (self.scope, named) {
            (_, Some(key)) => Some(key),
            (Some(UsageScope::Customer), None) => {
                caller.refuse_limited()?;
                None
            }
            (Some(UsageScope::Key), None) => Some(own.map(|key| key.id).ok_or_else(unnamed)?),
            (None, None) => own.filter(|_| default == UsageScope::Key).map(|key| key.id),
        };
        // A key that requests itself sees its usage for the accounts that it may use now.
        let only_allowed = key.is_some() && own.map(|own| own.id) == key;
        Ok(UsageOf { customer: caller.customer, key, only_allowed })
    }

    /// Whose spending of this customer staff see.
    pub(crate) async fn of(
        self,
        api: &ApiState,
        customer: CustomerId,
    ) -> Result<UsageOf, ApiError> {
        let key = self.named()?;
        if let Some(key) = key {
            refuse_unknown(api, customer, key).await?;
        }
        if self.scope == Some(UsageScope::Key) && key.is_none() {
            return Err(unnamed());
        }
        Ok(UsageOf { customer, key, only_allowed: false })
    }

    /// The named key; naming one implies the scope `key`.
    fn named(self) -> Result<Option<KeyId>, ApiError> {
        if self.key_id.is_some() && self.scope == Some(UsageScope::Customer) {
            let message = "names one key, but `scope=customer` requests all";
            return Err(wrong(FieldErrorKind::NotAllowed, message));
        }
        Ok(self.key_id)
    }
}

/// Another customer's key is reported as missing; a deleted key keeps its usage.
async fn refuse_unknown(api: &ApiState, customer: CustomerId, key: KeyId) -> Result<(), ApiError> {
    let found = store::keys::find(&api.store, customer, key).await?;
    found.map(drop).ok_or(NO_KEY)
}

fn unnamed() -> ApiError {
    wrong(
        FieldErrorKind::Missing,
        "is required with `scope=key`, because this request is not made with a key",
    )
}

fn wrong(kind: FieldErrorKind, message: &str) -> ApiError {
    FieldProblem::new("query", "key_id", kind, message).into()
}
