//! Lists whose rows come, go and move on demand, between any two pages: what platforms' lists do by
//! themselves.

use serde_json::{Value, json};

use crate::host::PlatformHost;
use crate::platform::MovableList;

/// One change of a list. Places are counted from the front, from 0; one behind the end is the end.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListChange {
    /// The platform whose list it is.
    pub(crate) platform: String,
    list: MovableList,
    /// Whose messages they are: the place of the chat among the generated ones.
    #[serde(default)]
    chat: u64,
    /// The number of the creator; the demo account without it.
    #[serde(default)]
    creator: usize,
    r#do: ListAction,
    /// The place of the row.
    at: usize,
    /// Where it moves.
    to: Option<usize>,
    /// How many rows go.
    #[serde(default = "one")]
    rows: usize,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum ListAction {
    /// A row that was removed comes again; if there is none, a new subscriber, among subscribers.
    Add,
    /// Rows go.
    Remove,
    /// A row goes from one place to another.
    Move,
}

const fn one() -> usize {
    1
}

/// Changes the list; gives how many rows it has now, or why it was not changed.
pub(crate) fn change(host: &PlatformHost, change: &ListChange) -> Result<Value, &'static str> {
    let list = (change.list, change.chat);
    let rows = host.arrange(change.creator, list, |series, rows| {
        let at = change.at;
        match change.r#do {
            ListAction::Add => {
                let mut missing = (0..series.count()).filter_map(|place| series.at(place));
                let back = missing.find(|index| !rows.contains(index));
                // Of one number more than there are rows, at least one is free.
                let mut free = series.end()..=series.end().saturating_add(rows.len() as u64);
                let new = free.find(|index| !rows.contains(index));
                let is_new = change.list == MovableList::Subscribers;
                let index = back.or_else(|| new.filter(|_| is_new));
                rows.insert(
                    at.min(rows.len()),
                    index.ok_or("there is no row that could be added")?,
                );
            }
            ListAction::Remove => {
                let from = at.min(rows.len());
                rows.drain(from..from.saturating_add(change.rows).min(rows.len()));
            }
            ListAction::Move => {
                let to = change.to.ok_or("a move needs the place to which the row goes: `to`")?;
                if at >= rows.len() {
                    return Err("there is no row at this place");
                }
                let row = rows.remove(at);
                rows.insert(to.min(rows.len()), row);
            }
        }
        Ok(())
    })?;
    Ok(json!({"rows": rows}))
}
