//! The fixed words of the contract, generated from the enums of the domain, so that every value is
//! documented.

use catalog::column::{ColumnType, ColumnUnit};
use domain::account::{AccountState, InactiveReason, WantedState};
use domain::breakdown::BreakdownBy;
use domain::customer::TrialState;
use domain::invoice::InvoiceState;
use domain::key::KeyScope;
use domain::method::Method;
use domain::payment::{OrderChannel, OrderState};
use domain::sales::PartKind;
use domain::slot::SlotChangeKind;
use domain::subscription::SubscriptionStatus;
use domain::top_up::{TopUpState, TopUpWaitReason};
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, SchemaFormat, Type};

/// The platforms.
pub fn platform() -> Object {
    let values =
        domain::platform::Platform::all().into_iter().map(domain::platform::Platform::as_str);
    let mut schema = one_of("A platform.", values);
    // The check of fields accepts other names of a platform as well.
    schema.format = Some(SchemaFormat::Custom("platform".to_owned()));
    schema
}

/// A platform as a required parameter: one whose schema is a function counts as optional.
pub struct PlatformName;

impl utoipa::PartialSchema for PlatformName {
    fn schema() -> RefOr<Schema> {
        platform().into()
    }
}

impl utoipa::ToSchema for PlatformName {}

/// The datasets.
pub fn dataset() -> Object {
    let values = domain::dataset::DatasetName::ALL.iter().map(|dataset| dataset.as_str());
    one_of("A kind of rows.", values)
}

/// The scopes of a key.
pub fn key_scope() -> Object {
    let values = KeyScope::ALL.iter().map(|scope| scope.as_str());
    one_of("`read_only`: GET only; `full`: everything.", values)
}

/// A new scope of a key, or null to keep the current one.
pub fn optional_key_scope() -> Schema {
    let mut words: Vec<Value> = KeyScope::ALL.iter().map(|scope| json!(scope.as_str())).collect();
    words.push(Value::Null);
    of(json!({
        "type": ["string", "null"], "enum": words,
        "description": "Another scope: `read_only` (GET only) or `full` (everything). Left out or null, the scope stays.",
    }))
}

/// The accounts that a new key is limited to.
pub fn new_key_accounts() -> Schema {
    key_accounts(
        "The accounts the key is limited to: 1 to 100 connected accounts. Leave it out for a key that may use all.",
    )
}

/// The accounts that a changed key is limited to.
pub fn changed_key_accounts() -> Schema {
    key_accounts(
        "The accounts the key is limited to from now on: 1 to 100 connected accounts. Null lifts the limit; left out, \
         it stays as it is.",
    )
}

fn key_accounts(description: &str) -> Schema {
    of(json!({
        "type": ["array", "null"], "minItems": 1, "maxItems": 100, "description": description,
        "items": { "type": "string", "format": "creator-id", "minLength": 1, "maxLength": 64 },
    }))
}

/// The current activity of an export, or null.
pub fn export_phase() -> Schema {
    let mut words: Vec<_> =
        domain::export::ExportPhase::ALL.iter().map(|phase| json!(phase.as_str())).collect();
    words.push(Value::Null);
    of(json!({
        "type": ["string", "null"], "enum": words,
        "description": "`reading` the list, `checking` whether its head has changed in the meantime, or `writing` the file.",
    }))
}

/// The format of an export's file, or null for `csv`.
pub fn optional_export_format() -> Schema {
    let formats = domain::export::ExportFormat::ALL.iter().map(|format| json!(format.as_str()));
    let words: Vec<Value> = formats.chain([Value::Null]).collect();
    of(json!({
        "type": ["string", "null"], "enum": words,
        "description": "The format of the file; `csv` when absent. `zip` contains `data.csv` and `manifest.json`.",
    }))
}

/// The type of a column's cells.
pub fn column_type() -> Object {
    one_of(
        "`integer`: whole numbers; `number`: also others; `time`: `unit` says how they are written; `json`: lists, as JSON \
         text. Any cell may be empty.",
        ColumnType::ALL.into_iter().map(ColumnType::as_str),
    )
}

/// The unit of a column's values, or the format of its times; null for others.
pub fn column_unit() -> Schema {
    let units = ColumnUnit::ALL.into_iter().map(|unit| json!(unit.as_str()));
    let words: Vec<Value> = units.chain([Value::Null]).collect();
    of(json!({
        "type": ["string", "null"], "enum": words,
        "description": "Money: `mills` (thousandths of a US dollar), `cents`, `dollars`, or `minor_units` (hundredths of the \
            currency in the row). Times: `rfc3339`, `unix_seconds`, `unix_millis`. Lengths of time: `days`. Null where there \
            is none.",
    }))
}

/// A schema given as JSON.
pub fn of(schema: Value) -> Schema {
    serde_json::from_value(schema).unwrap_or_default()
}

/// The states of an account.
pub fn account_state() -> Object {
    let values = AccountState::ALL.iter().map(|state| state.as_str());
    one_of(
        "`inactive`: calls are refused, `inactive_reason` says why. `reconnect_needed`: the platform refused the \
         credentials; a new import fixes it.",
        values,
    )
}

/// The states that a customer can set.
pub fn wanted_state() -> Object {
    let values = WantedState::ALL.iter().map(|state| state.as_str());
    one_of("`inactive` switches the account off, `active` switches it on.", values)
}

/// Why an account is inactive, or null.
pub fn inactive_reason() -> Schema {
    let reasons = InactiveReason::ALL.iter().map(|reason| json!(reason.as_str()));
    let words: Vec<Value> = reasons.chain([Value::Null]).collect();
    of(json!({
        "type": ["string", "null"], "enum": words,
        "description": "Why the account is inactive; null while it is not. `no_free_slot`: over the plan's limit; it becomes \
            active automatically when a slot is free. `switched_off`: by `PATCH /v1/accounts/{account}`, until it is switched on.",
    }))
}

/// The states of a trial.
pub fn trial_state() -> Object {
    let values = TrialState::ALL.iter().map(|state| state.as_str());
    one_of("`pending` until the email address is confirmed.", values)
}

/// The sources of granted credits.
pub fn lot_source() -> Object {
    let values = domain::lots::LotSource::ALL.iter().map(|source| source.as_str());
    one_of("`balance` is credits from before lots were introduced.", values)
}

/// The methods of native calls.
pub fn method() -> Object {
    one_of("The method of a native call.", Method::ALL.iter().map(|method| method.as_str()))
}

/// The methods of native calls, or null.
pub fn optional_method() -> Schema {
    or_null("The method of a native call.", Method::ALL.iter().map(|method| method.as_str()))
}

/// The platforms, or null.
pub fn optional_platform() -> Schema {
    let platforms = domain::platform::Platform::all().into_iter();
    or_null("A platform.", platforms.map(domain::platform::Platform::as_str))
}

/// The datasets, or null.
pub fn optional_dataset() -> Schema {
    let datasets = domain::dataset::DatasetName::ALL.iter().map(|dataset| dataset.as_str());
    or_null("Of an export: a dataset of the account's platform.", datasets)
}

/// What spending is grouped by.
pub fn breakdown_by() -> Object {
    let values = BreakdownBy::ALL.iter().map(|by| by.as_str());
    one_of("What spending is grouped by; `account` when absent.", values)
}

/// What metered work is charged as.
pub fn charge_kind() -> Object {
    one_of("What it is charged as.", ["read", "write", "export"].into_iter())
}

fn or_null(description: &str, values: impl Iterator<Item = &'static str>) -> Schema {
    let words: Vec<Value> = values.map(|word| json!(word)).chain([Value::Null]).collect();
    of(json!({ "type": ["string", "null"], "enum": words, "description": description }))
}

/// The classes that the call log can be filtered by.
pub fn status_class() -> Object {
    let values = ["2xx", "3xx", "4xx", "5xx", "ok", "error"];
    one_of("By status; `ok` is 2xx and 3xx, `error` everything else.", values.into_iter())
}

/// The states of an order.
pub fn order_state() -> Object {
    let values = OrderState::ALL.iter().map(|state| state.as_str());
    one_of(
        "`pending` until it is known whether it is paid; money that arrives late still makes it `paid`. `refunded`: \
         all of the money was refunded.",
        values,
    )
}

/// The states of an invoice.
pub fn invoice_state() -> Object {
    let values = InvoiceState::ALL.iter().map(|state| state.as_str());
    one_of(
        "`open` until it is paid, `void` if it was taken back, `uncollectible` if it is not expected to be paid.",
        values,
    )
}

/// What a line of an invoice is for.
pub fn invoice_line_kind() -> Object {
    one_of("What the line is for.", PartKind::ALL.iter().map(|kind| kind.as_str()))
}

/// The same account of a platform is connected under two names.
pub const CONNECTED_TWICE: &str = "connected_twice";

/// The warnings of an import.
pub fn warning() -> Object {
    one_of("Something that is probably not intended.", [CONNECTED_TWICE].into_iter())
}

/// The kinds of ledger lines.
pub fn ledger_kind() -> Object {
    one_of(
        "`usage` and `export` sum up what calls and exports of one UTC day were charged; the others are single entries.",
        domain::ledger::KINDS.into_iter(),
    )
}

/// How an order is paid.
pub fn order_channel() -> Object {
    let values = OrderChannel::ALL.iter().map(|channel| channel.as_str());
    one_of("On the processor's page, with one click, or by automatic top-up.", values)
}

/// The states of an order's payment.
pub fn payment_standing() -> Object {
    let values = ["requires_action", "processing", "paid", "over"];
    one_of("What the payment of an order waits for, or how it ended.", values.into_iter())
}

/// The kinds of changes of slots or of the plan.
pub fn slot_change_kind() -> Object {
    let values = SlotChangeKind::ALL.iter().map(|kind| kind.as_str());
    one_of("The kind of change.", values)
}

/// The states of a subscription.
pub fn subscription_status() -> Object {
    let values = SubscriptionStatus::ALL.iter().map(|status| status.as_str());
    one_of("The status at the payment processor; `none` if there never was a subscription.", values)
}

/// The formats of an export's file.
pub fn export_format() -> Object {
    let values = domain::export::ExportFormat::ALL.iter().map(|format| format.as_str());
    one_of("`zip` contains `data.csv` and `manifest.json`.", values)
}

/// The states of an export, as its customer sees them.
pub fn export_state() -> Object {
    let all = domain::export::ExportState::ALL.iter().map(|state| state.as_str());
    one_of(
        "`expired`: the file is gone; `removal` says why. `deleted`: the export was removed; it is only in the list of \
         `GET /v1/exports?status=deleted`.",
        all,
    )
}

/// Why the file of an export, or the export, was removed.
pub fn export_removal() -> Object {
    one_of(
        "`retention`: the retention of the file has ended. `file_missing`: it disappeared from the storage before that. \
         `removed_by_customer`, `removed_by_support`: who removed the export.",
        domain::export::ExportRemoval::ALL.iter().map(|reason| reason.as_str()),
    )
}

/// Why automatic top-up waits, or null.
pub fn top_up_wait() -> Schema {
    let reasons = TopUpWaitReason::ALL.iter().map(|reason| json!(reason.as_str()));
    let words: Vec<Value> = reasons.chain([Value::Null]).collect();
    of(json!({
        "type": ["string", "null"], "enum": words,
        "description": "Why nothing is bought although the balance is below the threshold; null otherwise. `daily_cap`: another \
            pack does not fit under the cap. `pack_not_sold`: the chosen pack is no longer sold. `declined`: the last charge was \
            declined. `failed_often`: too many charges failed within a day.",
    }))
}

/// The states of an open automatic charge.
pub fn top_up_state() -> Object {
    let open = TopUpState::ALL.iter().filter(|state| state.is_open());
    one_of(
        "`claimed`: in progress. `requires_action`: the bank requires the customer to confirm, and no other charge is made \
         until then.",
        open.map(|state| state.as_str()),
    )
}

/// A closed list of words.
pub fn one_of(description: &str, values: impl Iterator<Item = &'static str>) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .enum_values(Some(values))
        .build()
}
