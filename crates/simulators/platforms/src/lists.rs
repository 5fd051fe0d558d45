//! Lists whose rows appear, disappear and move on demand, between any two pages, as rows of real
//! platforms' lists do by themselves.

use serde_json::{Value, json};

use crate::host::PlatformHost;
use crate::platform::MovableList;

/// One change of a list. Positions are counted from 0 at the front; one beyond the end means the
/// end.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListChange {
    /// The platform of the list.
    pub(crate) platform: String,
    list: MovableList,
    /// The chat of the messages: its position among the generated chats.
    #[serde(default)]
    chat: u64,
    /// The number of the creator; by default the demo account.
    #[serde(default)]
    creator: usize,
    r#do: ListAction,
    /// The position of the row.
    at: usize,
    /// The position to which it moves.
    to: Option<usize>,
    /// The number of rows to remove.
    #[serde(default = "one")]
    rows: usize,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum ListAction {
    /// A removed row comes back; if there is none and the list is of subscribers, a new subscriber.
    Add,
    /// Rows are removed.
    Remove,
    /// A row moves to another position.
    Move,
}

const fn one() -> usize {
    1
}

/// Changes the list; returns its number of rows, or why it was not changed.
pub(crate) fn change(host: &PlatformHost, change: &ListChange) -> Result<Value, &'static str> {
    let rows = host.arrange(change.creator, change.list, change.chat, |series, rows| {
        let at = change.at;
        match change.r#do {
            ListAction::Add => {
                let mut missing = (0..series.count()).filter_map(|place| series.at(place));
                let back = missing.find(|index| !rows.contains(index));
                // In a range with one number more than there are rows, at least one is free.
                let mut free = series.end()..=series.end().saturating_add(rows.len() as u64);
                let new = free.find(|index| !rows.contains(index));
                let is_new = change.list == MovableList::Subscribers;
                let index = back.or_else(|| new.filter(|_| is_new));
                rows.insert(at.min(rows.len()), index.ok_or("no row can be added")?);
            }
            ListAction::Remove => {
                let from = at.min(rows.len());
                rows.drain(from..from.saturating_add(change.rows).min(rows.len()));
            }
            ListAction::Move => {
                let to = change.to.ok_or("a move needs the new position of the row: `to`")?;
                if at >= rows.len() {
                    return Err("there is no row at this position");
                }
                let row = rows.remove(at);
                rows.insert(to.min(rows.len()), row);
            }
        }
        Ok(())
    })?;
    Ok(json!({"rows": rows}))
}
