//! The conversation with one fan: searched for in the platform's list of conversations, within a
//! maximum number of pages.

use std::sync::Arc;

use catalog::Dataset;
use catalog::dataset::{ChatLookup, DatasetLocation};
use domain::platform::Platform;
use domain::window::DateWindow;

use super::fault::PageFault;
use super::fetch::PageRequest;
use super::next_page::NextPage;
use super::scan;
use super::taken::TakenPage;
use super::walk::{ListPaging, ListWalk};
use super::wanted_list::{WantedList, paged};
use crate::ExportsState;

/// The maximum number of pages of the list that are searched (specification 4.1, rule 5).
pub(super) const LOOKUP_PAGES_MAX: u64 = 20;

/// The list that is searched.
pub(super) struct SearchedList<'a> {
    pub(super) exports: &'a ExportsState,
    pub(super) wanted: &'a WantedList,
    pub(super) platform: Platform,
    pub(super) list: &'a Arc<Dataset>,
    pub(super) place: &'a DatasetLocation,
    pub(super) fields: &'a ChatLookup,
}

impl SearchedList<'_> {
    /// The platform's id of the conversation with this fan. The list is read without overlapping
    /// pages, because only a few are searched.
    pub(super) async fn find(&self, fan: &str) -> Result<String, PageFault> {
        let Self { exports, wanted, platform, list, place, .. } = *self;
        let mut walk = ListWalk::new(ListPaging { overlap: 0, ..paged(list) });
        for number in 1..=LOOKUP_PAGES_MAX {
            let request = PageRequest {
                exports,
                wanted,
                platform,
                place,
                paging: &list.paging,
                next: &walk.stand.next,
                number,
                fan: None,
            };
            let check = |page: &TakenPage| walk.check(&page.sheet(), number, false).map(|_| ());
            let Some(page) = request.taken(list, DateWindow::default(), check).await? else {
                walk.is_lost()?;
                continue;
            };
            for row in page.rows.iter() {
                if let Some(chat) = self.chat_of(row, fan, number)? {
                    return Ok(chat);
                }
            }
            walk.take(&page.sheet(), number, false)?;
            if walk.stand.next == NextPage::Last || walk.is_at_end() {
                break;
            }
        }
        let seen = walk.rows();
        let message = format!(
            "there is no conversation with the account {fan} among the {seen} newest conversations"
        );
        Err(PageFault::last("chat_not_found", message))
    }

    /// The conversation of a row, if it is with this fan.
    fn chat_of(&self, row: &str, fan: &str, number: u64) -> Result<Option<String>, PageFault> {
        let signs = [Some(&self.fields.fan), Some(&self.fields.chat)];
        let found = scan::scan(row, &signs).ok().filter(|found| !found.is_twice);
        let found = found.ok_or_else(|| {
            PageFault::malformed(number, "a field of a conversation appears twice")
        })?;
        let [of, chat, ..] = found.values;
        if of.and_then(scan::plain).as_deref() != Some(fan) {
            return Ok(None);
        }
        let chat = chat.and_then(scan::plain).filter(|chat| !chat.is_empty());
        let problem = || PageFault::malformed(number, "a conversation has no id");
        chat.map(|chat| Some(chat.into_owned())).ok_or_else(problem)
    }
}
