//! What is handed out of the tables that become csv files.

use super::DumpedKind::{Int, Text, Time};
use super::{DumpedOrder, DumpedTable};

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
        ("tag", Text),
    ],
    order: DumpedOrder::Instants,
};

/// The totals of calls that retention has summed up, which become a csv file.
pub const CALL_TOTALS: DumpedTable = DumpedTable {
    name: "call_totals",
    source: "
        select t.*, t.day * 86400000000 as day_at
        from call_totals t where t.customer_id = $1",
    columns: &[
        ("day_at", Time),
        ("key_id", Text),
        ("creator_id", Text),
        ("platform", Text),
        ("method", Text),
        ("route", Text),
        ("tag", Text),
        ("outcome", Text),
        ("calls", Int),
        ("credits", Int),
        ("ok", Int),
    ],
    order: DumpedOrder::DayThen(&[
        "key_id",
        "creator_id",
        "platform",
        "method",
        "route",
        "tag",
        "outcome",
    ]),
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
    order: DumpedOrder::Texts(&["id"]),
};
