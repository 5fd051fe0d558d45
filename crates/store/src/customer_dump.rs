//! Everything that is stored about one customer, table by table and page by page. Secrets, hashes
//! of secrets and sealed values are not among the columns.

use domain::id::CustomerId;
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::sql::{SqlRow, SqlValue};
use crate::{Store, StoreError};

/// How a column's values are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DumpedKind {
    /// A text, which may be null.
    Text,
    /// A number, which may be null.
    Int,
    /// Microseconds since 1970, written as RFC 3339.
    Time,
    /// A text that contains JSON.
    Json,
}

use DumpedKind::{Int, Json, Text, Time};

/// A table with the columns that are handed out.
#[derive(Debug, Clone, Copy)]
pub struct DumpedTable {
    /// The name of its file, without the ending.
    pub name: &'static str,
    /// What it is read from; `$1` is the customer.
    source: &'static str,
    /// The columns, in the order of the file.
    columns: &'static [(&'static str, DumpedKind)],
    /// The columns that order the rows, all of them texts. They are unique together.
    key: &'static [&'static str],
}

/// A page of a table's rows, and where the next one begins.
#[derive(Debug, Clone, Default)]
pub struct DumpedPage {
    /// The rows, in the order of the key.
    pub rows: Vec<Map<String, Value>>,
    /// The key of the last row; none on the last page.
    pub next: Option<Vec<String>>,
}

impl DumpedTable {
    /// The names of the columns.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.columns.iter().map(|(name, _)| *name)
    }
}

/// Reads the next page of a table.
pub async fn page(
    store: &Store,
    table: &DumpedTable,
    (customer, after): (CustomerId, Option<&[String]>),
    limit: usize,
) -> Result<DumpedPage, StoreError> {
    let names: Vec<&str> = table.columns().collect();
    let keys = table.key.join(", ");
    let mut values: Vec<SqlValue<'_>> = vec![customer.into()];
    let mut condition = String::new();
    if let Some(after) = after {
        let places: Vec<String> = (2..2 + after.len()).map(|place| format!("${place}")).collect();
        condition = format!("where ({keys}) > ({})", places.join(", "));
        values.extend(after.iter().map(|text| SqlValue::from(text.as_str())));
    }
    let sql = format!(
        "select {}, {keys} from ({}) as dumped {condition} order by {keys} limit {limit}",
        names.join(", "),
        table.source
    );
    let found = store.inspect().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    let rows = found.iter().map(|row| written(table, row)).collect::<Result<Vec<_>, _>>()?;
    let last = found.last().filter(|_| found.len() >= limit);
    let next = last
        .map(|row| table.key.iter().map(|column| row.text(column)).collect::<Result<Vec<_>, _>>());
    Ok(DumpedPage { rows, next: next.transpose()? })
}

fn written(table: &DumpedTable, row: &SqlRow) -> Result<Map<String, Value>, StoreError> {
    let mut object = Map::new();
    for (name, kind) in table.columns {
        let value = match kind {
            Text => row.optional_text(name)?.map_or(Value::Null, Value::from),
            Int => row.optional_int(name)?.map_or(Value::Null, Value::from),
            Time => row
                .optional_time(name)?
                .map_or(Value::Null, |time: Timestamp| Value::from(time.to_rfc3339())),
            Json => row.optional_text(name)?.map_or(Value::Null, |text| {
                serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
            }),
        };
        object.insert((*name).to_owned(), value);
    }
    Ok(object)
}

/// The calls, which become a csv file.
pub const CALLS: DumpedTable = DumpedTable {
    name: "calls",
    source: "select * from calls where customer_id = $1",
    columns: &[
        ("id", Text),
        ("held_at", Time),
        ("key_id", Text),
        ("creator_id", Text),
        ("platform", Text),
        ("method", Text),
        ("path", Text),
        ("route", Text),
        ("status", Int),
        ("state", Text),
        ("outcome", Text),
        ("cost", Int),
        ("credits", Int),
        ("request_id", Text),
        ("resolved_at", Time),
        ("duration_ms", Int),
        ("upstream_ms", Int),
    ],
    key: &["id"],
};

/// The ledger, which becomes a csv file.
pub const LEDGER: DumpedTable = DumpedTable {
    name: "ledger",
    source: "select * from ledger where customer_id = $1",
    columns: &[
        ("id", Text),
        ("at", Time),
        ("kind", Text),
        ("amount", Int),
        ("balance_after", Int),
        ("debt_after", Int),
        ("source", Text),
        ("reference", Text),
        ("lot_id", Text),
    ],
    key: &["id"],
};

/// Everything else, in the order of the archive.
pub const TABLES: &[DumpedTable] = &[
    DumpedTable {
        name: "customer",
        source: "
            select c.*, b.granted, b.removed, b.spent, b.held, b.available, b.debt
            from customers c join customer_credits b on b.customer_id = c.id where c.id = $1",
        columns: &[
            ("id", Text),
            ("email", Text),
            ("name", Text),
            ("email_verified_at", Time),
            ("trial_state", Text),
            ("created_at", Time),
            ("disabled_at", Time),
            ("suspended_at", Time),
            ("suspended_reason", Text),
            ("erased_at", Time),
            ("granted", Int),
            ("removed", Int),
            ("spent", Int),
            ("held", Int),
            ("available", Int),
            ("debt", Int),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "keys",
        source: "select * from keys where customer_id = $1",
        columns: &[
            ("id", Text),
            ("name", Text),
            ("shown_prefix", Text),
            ("shown_suffix", Text),
            ("scope", Text),
            ("monthly_budget", Int),
            ("created_at", Time),
            ("rotated_at", Time),
            ("last_used_at", Time),
            ("expires_at", Time),
            ("revoked_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "key_accounts",
        source: "
            select a.* from key_accounts a join keys k on k.id = a.key_id where k.customer_id = $1",
        columns: &[("key_id", Text), ("creator_id", Text)],
        key: &["key_id", "creator_id"],
    },
    DumpedTable {
        name: "accounts",
        source: "select * from accounts where customer_id = $1",
        columns: &[
            ("creator_id", Text),
            ("platform", Text),
            ("platform_account_id", Text),
            ("state", Text),
            ("scopes", Json),
            ("token_expires_at", Time),
            ("connected_at", Time),
            ("verified_at", Time),
            ("switched_off_at", Time),
        ],
        key: &["creator_id"],
    },
    DumpedTable {
        name: "sessions",
        source: "select * from sessions where customer_id = $1",
        columns: &[
            ("id", Text),
            ("user_agent", Text),
            ("network", Text),
            ("created_at", Time),
            ("last_used_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "login_networks",
        source: "select * from login_networks where customer_id = $1",
        columns: &[("network", Text), ("last_login_at", Time)],
        key: &["network"],
    },
    DumpedTable {
        name: "emailed_links",
        source: "
            select m.*, m.purpose || ' ' || cast(m.created_at as text) || ' ' || m.hash as place
            from mail_links m where m.customer_id = $1",
        columns: &[
            ("purpose", Text),
            ("email", Text),
            ("created_at", Time),
            ("expires_at", Time),
            ("used_at", Time),
        ],
        key: &["place"],
    },
    DumpedTable {
        name: "email_changes",
        source: "select * from email_changes where customer_id = $1",
        columns: &[("email", Text), ("requested_at", Time)],
        key: &["email"],
    },
    DumpedTable {
        name: "permissions",
        source: "select * from staff_permissions where customer_id = $1",
        columns: &[("permission", Text), ("granted_at", Time)],
        key: &["permission"],
    },
    DumpedTable {
        name: "support_access",
        source: "select * from support_access where customer_id = $1",
        columns: &[("enabled_at", Time), ("expires_at", Time), ("ended_at", Time)],
        key: &["customer_id"],
    },
    DumpedTable {
        name: "audit",
        source: "select * from audit where customer_id = $1",
        columns: &[
            ("id", Text),
            ("at", Time),
            ("actor", Text),
            ("action", Text),
            ("details", Json),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "lots",
        source: "select * from lots where customer_id = $1",
        columns: &[
            ("id", Text),
            ("source", Text),
            ("reference", Text),
            ("granted", Int),
            ("credits_left", Int),
            ("spent", Int),
            ("expired", Int),
            ("taken", Int),
            ("expires_at", Time),
            ("granted_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "orders",
        source: "select * from orders where customer_id = $1",
        columns: &[
            ("id", Text),
            ("channel", Text),
            ("pack_id", Text),
            ("packs", Int),
            ("credits", Int),
            ("amount_cents", Int),
            ("currency", Text),
            ("state", Text),
            ("payment_id", Text),
            ("failure", Text),
            ("created_at", Time),
            ("closed_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "sales",
        source: "select * from sales where customer_id = $1",
        columns: &[
            ("id", Text),
            ("source", Text),
            ("order_id", Text),
            ("subscription_id", Text),
            ("number", Text),
            ("amount_cents", Int),
            ("tax_cents", Int),
            ("currency", Text),
            ("sold_at", Time),
            ("reversed_cents", Int),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "reversals",
        source: "select * from reversals where customer_id = $1",
        columns: &[
            ("id", Text),
            ("kind", Text),
            ("payment_id", Text),
            ("amount_cents", Int),
            ("state", Text),
            ("created_at", Time),
            ("changed_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "subscription",
        source: "select * from subscriptions where customer_id = $1",
        columns: &[
            ("subscription_id", Text),
            ("status", Text),
            ("period_start", Time),
            ("period_end", Time),
            ("cancels_at", Time),
            ("synced_at", Time),
        ],
        key: &["customer_id"],
    },
    DumpedTable {
        name: "subscription_items",
        source: "select * from subscription_items where customer_id = $1",
        columns: &[
            ("item_id", Text),
            ("kind", Text),
            ("plan_id", Text),
            ("platform", Text),
            ("quantity", Int),
            ("price_id", Text),
        ],
        key: &["item_id"],
    },
    DumpedTable {
        name: "subscription_changes",
        source: "select * from slot_changes where customer_id = $1",
        columns: &[
            ("id", Text),
            ("kind", Text),
            ("state", Text),
            ("failure", Text),
            ("charged_cents", Int),
            ("created_at", Time),
            ("closed_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "processor_customers",
        source: "select * from processor_customers where customer_id = $1",
        columns: &[("processor_customer_id", Text), ("created_at", Time), ("deleted_at", Time)],
        key: &["processor_customer_id"],
    },
    DumpedTable {
        name: "card",
        source: "select * from cards where customer_id = $1",
        columns: &[
            ("brand", Text),
            ("last4", Text),
            ("exp_month", Int),
            ("exp_year", Int),
            ("saved_at", Time),
        ],
        key: &["customer_id"],
    },
    DumpedTable {
        name: "notice_choices",
        source: "select * from notice_choices where customer_id = $1",
        columns: &[
            ("kind", Text),
            ("is_on", Int),
            ("threshold_credits", Int),
            ("changed_at", Time),
        ],
        key: &["kind"],
    },
    DumpedTable {
        name: "sent_notices",
        source: "select * from sent_notices where customer_id = $1",
        columns: &[("kind", Text), ("subject", Text), ("sent_at", Time)],
        key: &["kind", "subject"],
    },
    DumpedTable {
        name: "automatic_top_up",
        source: "select * from top_up_settings where customer_id = $1",
        columns: &[
            ("enabled", Int),
            ("threshold_credits", Int),
            ("pack_id", Text),
            ("daily_cap_cents", Int),
            ("stopped_reason", Text),
            ("changed_at", Time),
        ],
        key: &["customer_id"],
    },
    DumpedTable {
        name: "exports",
        source: "select * from export_jobs where customer_id = $1",
        columns: &[
            ("id", Text),
            ("creator_id", Text),
            ("platform", Text),
            ("dataset", Text),
            ("format", Text),
            ("params", Json),
            ("start_date", Text),
            ("end_date", Text),
            ("state", Text),
            ("cost", Int),
            ("credit_state", Text),
            ("rows", Int),
            ("bytes", Int),
            ("created_at", Time),
            ("finished_at", Time),
            ("expires_at", Time),
        ],
        key: &["id"],
    },
    DumpedTable {
        name: "usage_by_day",
        source: "
            select u.*, u.key_id || ' ' || cast(u.day as text) as place
            from usage_by_day u where u.customer_id = $1",
        columns: &[
            ("key_id", Text),
            ("day", Int),
            ("calls", Int),
            ("credits", Int),
            ("ok", Int),
            ("errors", Int),
        ],
        key: &["place"],
    },
];
