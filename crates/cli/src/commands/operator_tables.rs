//! The operator's results for people: one line for each thing, in columns.

use std::fmt::Display;

use ::operators::{
    CallView, CustomerErasure, CustomerLine, CustomerMatch, CustomerProfile, DisputeLine,
    OperatorOutcome, OrderRefund, SuspensionView, UnmatchedLine, UnmatchedResult,
};

use super::liability;
use crate::output::say_line;

/// Prints a result.
pub(crate) fn print(done: &OperatorOutcome) -> anyhow::Result<()> {
    match done {
        OperatorOutcome::Customers { customers, next_cursor } => {
            list(customers)?;
            match next_cursor {
                Some(cursor) => say_line!("more with --cursor {cursor}"),
                None => Ok(()),
            }
        }
        OperatorOutcome::CustomersFound { matches } => found(matches),
        OperatorOutcome::Customer(profile) => show(profile),
        OperatorOutcome::Suspension(suspension) => suspended(suspension),
        OperatorOutcome::SessionsEnded { customer_id, ended } => {
            say_line!("{customer_id} is signed out of every browser; sessions ended: {ended}")
        }
        OperatorOutcome::CustomerErased(erasure) => erased(erasure),
        OperatorOutcome::Calls { calls } => calls.iter().try_for_each(call),
        OperatorOutcome::OrderRefunded(refund) => refunded(refund),
        OperatorOutcome::Liability(report) => liability::print(report),
        OperatorOutcome::Disputes { disputes } => list_disputes(disputes),
        OperatorOutcome::Unmatched { payments } => unmatched(payments),
        OperatorOutcome::UnmatchedSettled(settled) => settlement(settled),
    }
}

/// Prints rows of cells, each column as wide as its widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> anyhow::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, wide)| format!("{cell:wide$}"));
        say_line!("{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// A part of a profile: its name, and its rows or a dash.
fn part(name: &str, rows: &[Vec<String>]) -> anyhow::Result<()> {
    say_line!("\n{name}")?;
    if rows.is_empty() {
        return say_line!("  -");
    }
    let indented: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            if let Some(first) = row.first_mut() {
                first.insert_str(0, "  ");
            }
            row
        })
        .collect();
    table(&indented)
}

fn shown<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn list(customers: &[CustomerLine]) -> anyhow::Result<()> {
    if customers.is_empty() {
        return say_line!("no customer matches");
    }
    let row = |customer: &CustomerLine| {
        vec![
            customer.customer_id.to_string(),
            customer.email.clone(),
            customer.state.to_string(),
            customer.plan.clone().unwrap_or_else(|| "-".to_owned()),
            format!("balance {}", customer.balance),
            format!("debt {}", customer.debt),
            format!("since {}", customer.created_at),
        ]
    };
    table(&customers.iter().map(row).collect::<Vec<_>>())
}

fn found(matches: &[CustomerMatch]) -> anyhow::Result<()> {
    if matches.is_empty() {
        return say_line!("nothing matches");
    }
    let row = |found: &CustomerMatch| {
        vec![
            found.customer_id.to_string(),
            found.email.clone(),
            found.state.to_string(),
            format!("{} {}", found.matched, found.value),
        ]
    };
    table(&matches.iter().map(row).collect::<Vec<_>>())
}

fn show(profile: &CustomerProfile) -> anyhow::Result<()> {
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let mut facts = vec![
        line("customer", profile.customer_id.to_string()),
        line("email", profile.email.clone()),
        line("name", profile.name.clone()),
        line("state", profile.state.to_string()),
        line("registered", profile.created_at.to_string()),
        line("email confirmed", shown(profile.email_confirmed_at)),
    ];
    if let Some(since) = profile.suspended_at {
        let reason = profile.suspended_reason.as_deref().unwrap_or_default();
        facts.push(line("suspended", format!("{since}: {reason}")));
    }
    facts.extend([
        line(
            "credits",
            format!(
                "{} available, {} held, {} spent, {} owed",
                profile.balance, profile.held, profile.spent, profile.debt
            ),
        ),
        line("plan", format!("{} ({})", shown(profile.plan.as_ref()), profile.subscription)),
        line("period ends", shown(profile.period_end)),
        line("card", shown(profile.card.as_ref())),
        line("processor", shown(profile.processor_customer.as_ref())),
        line("support access", shown(profile.support_access_until)),
    ]);
    if !profile.permissions.is_empty() {
        let words = profile.permissions.iter().map(ToString::to_string).collect::<Vec<_>>();
        facts.push(line("permissions", words.join(", ")));
    }
    table(&facts)?;
    show_credits(profile)?;
    show_access(profile)?;
    show_history(profile)
}

fn show_credits(profile: &CustomerProfile) -> anyhow::Result<()> {
    let lots = profile.lots.iter().map(|lot| {
        vec![
            lot.source.clone(),
            format!("{} of {}", lot.left, lot.granted),
            format!("until {}", shown(lot.expires_at)),
            lot.reference.clone().unwrap_or_default(),
        ]
    });
    part("lots", &lots.collect::<Vec<_>>())?;
    let slots = profile.slots.iter().map(|slot| {
        vec![
            slot.platform.to_string(),
            format!("{} of {} active", slot.active, slot.limit),
            format!("{} connected", slot.connected),
        ]
    });
    part("slots", &slots.collect::<Vec<_>>())
}

fn show_access(profile: &CustomerProfile) -> anyhow::Result<()> {
    let keys = profile.keys.iter().map(|key| {
        let state = key.revoked_at.map_or_else(
            || format!("last used {}", shown(key.last_used_at)),
            |revoked| format!("revoked {revoked}"),
        );
        vec![
            key.key_id.to_string(),
            format!("{}…", key.prefix),
            key.scope.clone(),
            format!("{} this month", key.used),
            state,
            key.name.clone(),
        ]
    });
    part("keys", &keys.collect::<Vec<_>>())?;
    let accounts = profile.accounts.iter().map(|account| {
        vec![
            account.creator_id.to_string(),
            account.platform.to_string(),
            account.state.clone(),
            format!("since {}", account.connected_at),
        ]
    });
    part("accounts", &accounts.collect::<Vec<_>>())
}

fn show_history(profile: &CustomerProfile) -> anyhow::Result<()> {
    let orders = profile.orders.iter().map(|order| {
        vec![
            order.order_id.to_string(),
            order.state.clone(),
            order.channel.clone(),
            order.pack_id.clone(),
            money(order.amount_cents, &order.currency),
            order.created_at.to_string(),
            returned(order.returned_cents, &order.currency),
        ]
    });
    part("orders", &orders.collect::<Vec<_>>())?;
    show_money(profile)?;
    let notices = profile.notices.iter().map(|notice| {
        vec![
            notice.invoice_id.clone(),
            format!("attempt {}", notice.attempt),
            notice.told_at.to_string(),
        ]
    });
    part("failed payments", &notices.collect::<Vec<_>>())?;
    let calls = profile.calls.iter().map(|call| {
        vec![
            call.at.to_string(),
            call.request_id.clone(),
            call.account.to_string(),
            call.route.clone(),
            shown(call.status),
            call.outcome.clone().unwrap_or_else(|| "running".to_owned()),
            format!("{} credits", shown(call.credits)),
        ]
    });
    part("last calls", &calls.collect::<Vec<_>>())
}

/// Invoices, refunds and disputes.
fn show_money(profile: &CustomerProfile) -> anyhow::Result<()> {
    let invoices = profile.invoices.iter().map(|invoice| {
        vec![
            invoice.invoice_id.clone(),
            invoice.number.clone(),
            invoice.state.clone(),
            invoice.reason.clone(),
            money(invoice.amount_cents, &invoice.currency),
            invoice.created_at.to_string(),
            returned(invoice.returned_cents, &invoice.currency),
        ]
    });
    part("invoices", &invoices.collect::<Vec<_>>())?;
    let reversals = profile.reversals.iter().map(|reversal| {
        vec![
            reversal.reversal_id.clone(),
            reversal.kind.clone(),
            reversal.state.clone(),
            money(reversal.amount_cents, &reversal.currency),
            reversal.created_at.to_string(),
            reversal.order_id.map_or_else(|| reversal.payment.clone(), |order| order.to_string()),
        ]
    });
    part("refunds and disputes", &reversals.collect::<Vec<_>>())?;
    if profile.disputes.is_empty() {
        return Ok(());
    }
    say_line!("\nwhat banks say")?;
    profile.disputes.iter().try_for_each(|dispute| show_dispute(dispute, "  "))
}

fn list_disputes(disputes: &[DisputeLine]) -> anyhow::Result<()> {
    if disputes.is_empty() {
        return say_line!("no dispute or warning waits for anybody");
    }
    disputes.iter().try_for_each(|dispute| show_dispute(dispute, ""))
}

/// A dispute in two lines: what it is, and what to do.
fn show_dispute(dispute: &DisputeLine, indent: &str) -> anyhow::Result<()> {
    let bought = match (dispute.order_id, &dispute.invoice_id) {
        (Some(order), _) => order.to_string(),
        (None, Some(invoice)) => invoice.clone(),
        (None, None) => shown(dispute.payment.as_ref()),
    };
    let is_asked = matches!(dispute.stage.as_str(), "inquiry" | "open");
    let due = dispute.due_by.filter(|_| is_asked).map(|at| format!("  evidence by {at}"));
    say_line!(
        "{indent}{}  {} ({})  {}  {}  {}  {bought}  since {}{}",
        dispute.dispute_id,
        dispute.stage,
        dispute.status,
        money(dispute.amount_cents, &dispute.currency),
        dispute.reason,
        shown(dispute.customer_id),
        dispute.opened_at,
        due.unwrap_or_default()
    )?;
    say_line!("{indent}    next: {}", dispute.next)
}

/// What has gone back of a payment, in words; nothing if none has.
fn returned(cents: i64, currency: &str) -> String {
    if cents == 0 { String::new() } else { format!("{} returned", money(cents, currency)) }
}

fn money(cents: i64, currency: &str) -> String {
    format!("{}.{:02} {}", cents / 100, cents % 100, currency.to_uppercase())
}

fn suspended(done: &SuspensionView) -> anyhow::Result<()> {
    let customer = done.customer_id;
    let words = match (done.dry_run, done.applied) {
        (true, true) => "would be",
        (true, false) => "is already, and would stay",
        (false, true) => "is now",
        (false, false) => "was before, nothing changed:",
    };
    say_line!("{customer} {words} {}", done.state)?;
    match &done.cancelled_subscription {
        Some(id) if done.dry_run => {
            say_line!("its subscription {id} would end immediately; this cannot be undone")
        }
        Some(id) => say_line!("its subscription {id} has ended"),
        None => Ok(()),
    }
}

fn erased(done: &CustomerErasure) -> anyhow::Result<()> {
    let customer = done.customer_id;
    if !done.applied {
        return say_line!("{customer} was erased before: nothing changed");
    }
    let (what, rows) =
        if done.dry_run { ("would be erased", "would go") } else { ("is erased", "went") };
    say_line!("{customer} {what}; the ledger stays as it is. Of each table {rows}:")?;
    let tables = done.tables.iter();
    let lines = tables.map(|erased| vec![format!("  {}", erased.table), erased.rows.to_string()]);
    table(&lines.collect::<Vec<_>>())?;
    let (credits, cents) = (done.forfeited_credits, done.forfeited_cents);
    if (credits, cents) != (0, 0) {
        let lost = if done.dry_run { "would be lost" } else { "are lost" };
        let dollars = format!("{}.{:02}", cents / 100, cents % 100);
        say_line!(
            "{credits} paid credits and ${dollars} of credit at the payment processor {lost}"
        )?;
    }
    for payer in &done.processor_customers {
        say_line!("{payer} is deleted at the payment processor by a job")?;
    }
    Ok(())
}

fn call(call: &CallView) -> anyhow::Result<()> {
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let mut facts = vec![
        line("call", call.call_id.to_string()),
        line("request", call.request_id.clone()),
        line("customer", call.customer_id.to_string()),
        line("key", call.key_id.to_string()),
        line("account", format!("{} on {}", call.account, call.platform)),
        line("route", call.route.clone()),
        line("path", format!("{} {}", call.method, call.path)),
        line("began", call.held_at.to_string()),
        line("ended", shown(call.resolved_at)),
        line(
            "took",
            format!("{} ms, the platform {} ms", shown(call.duration_ms), shown(call.upstream_ms)),
        ),
        line("status", shown(call.status)),
        line("outcome", format!("{} ({})", shown(call.outcome.as_ref()), call.state)),
        line("credits", format!("{} of {}", shown(call.credits), call.cost)),
        line("node", format!("{}, start {}", call.node, call.epoch)),
    ];
    if call.has_idempotency_key {
        facts.push(line("repeatable", "it has an Idempotency-Key".to_owned()));
    }
    for entry in &call.ledger {
        let after = shown(entry.balance_after);
        facts.push(line(
            "ledger",
            format!("{}: {} credits, balance {after}", entry.line, entry.amount),
        ));
    }
    table(&facts)
}

fn refunded(done: &OrderRefund) -> anyhow::Result<()> {
    let (order, customer) = (done.order_id, done.customer_id);
    let amount = money(done.amount_cents, &done.currency);
    if !done.applied {
        say_line!("{order} of {customer} was refunded before: no money was sent")?;
    } else if done.dry_run {
        say_line!("{amount} of {order} would go back to {customer}; this cannot be undone")?;
    } else {
        say_line!(
            "{amount} of {order} goes back to {customer}, refund {}",
            shown(done.refund_id.as_ref())
        )?;
    }
    let (are, stay) = if done.dry_run { ("would be", "would stay") } else { ("are", "stay") };
    say_line!(
        "{} credits {are} taken back, {} of the order {stay} with the customer",
        done.credits_taken,
        done.credits_kept
    )?;
    for lot in &done.lots {
        say_line!("lot {}: {:+}", lot.lot_id, lot.credits)?;
    }
    say_line!(
        "the balance {} {}, the debt {}",
        if done.dry_run { "would be" } else { "is" },
        done.balance,
        done.debt
    )
}

fn unmatched(payments: &[UnmatchedLine]) -> anyhow::Result<()> {
    if payments.is_empty() {
        return say_line!("no payment waits for a decision");
    }
    let row = |payment: &UnmatchedLine| {
        let settled = payment.settlement.as_ref().map(|text| format!("settled: {text}"));
        vec![
            payment.first_at.to_string(),
            payment.object.clone(),
            payment.reason.clone(),
            settled.unwrap_or_else(|| payment.details.clone()),
        ]
    };
    table(&payments.iter().map(row).collect::<Vec<_>>())
}

fn settlement(done: &UnmatchedResult) -> anyhow::Result<()> {
    let object = &done.object;
    match (done.applied, done.dry_run) {
        (false, _) => say_line!("{object} was settled so before: nothing changed"),
        (true, true) => say_line!("{object} would be settled: {}", done.settlement),
        (true, false) => say_line!("{object} is settled: {}", done.settlement),
    }
}
