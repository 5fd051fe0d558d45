//! Whole lists of the processor, read page by page.

use processor_client::objects::{HasId, ListPage};
use processor_client::{ListFilter, ProcessorError};

/// The maximum number of pages read from one list, with 100 objects each.
const PAGES_MAX: usize = 1_000;

/// A list of what was made at this time (seconds since 1970) or later, after the object with this
/// id.
pub(super) const fn listing(from: i64, after: Option<&str>) -> ListFilter<'_> {
    ListFilter {
        customer: None,
        subscription: None,
        payment_intent: None,
        invoice: None,
        status: None,
        created_from: Some(from),
        after,
        limit: None,
    }
}

/// All pages of a list, oldest object first.
pub(super) async fn all<T, F, R>(mut page: F) -> Result<Vec<T>, ProcessorError>
where
    T: HasId,
    F: FnMut(Option<String>) -> R,
    R: Future<Output = Result<ListPage<T>, ProcessorError>>,
{
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let read = page(after.take()).await?;
        after = read.next().map(str::to_owned);
        found.extend(read.data);
        if after.is_none() {
            break;
        }
    }
    // The processor lists the newest first.
    found.reverse();
    Ok(found)
}
