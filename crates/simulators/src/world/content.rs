//! What a creator shows: media, folders, posts, comments, stories, templates.

use super::series::Series;
use super::words::{COMMENT_LINES, FOLDER_NAMES, POST_LINES, TEMPLATES};
use super::{DAY_MS, HOUR_MS, MINUTE_MS, World, signed};

const MEDIUM: u64 = 40;
const POST: u64 = 41;
const COMMENT: u64 = 42;
const STORY: u64 = 43;

/// How many media a creator has.
pub(crate) const MEDIA: u64 = 120;

const COMMENTS_MAX: u64 = 1000;

/// A picture or a video.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    pub(crate) is_video: bool,
    pub(crate) bytes: u64,
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// 0 for pictures.
    pub(crate) seconds: u64,
    pub(crate) created_at_ms: i64,
}

/// A post on the creator's page.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) text: &'static str,
    pub(crate) posted_at_ms: i64,
    pub(crate) likes: u64,
    pub(crate) comments: u64,
    pub(crate) price_cents: i64,
    pub(crate) media: Vec<u64>,
    pub(crate) tips_cents: i64,
}

/// A comment of a fan under a post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment {
    /// Unique among all comments of the creator; made of the post and the place.
    pub(crate) index: u64,
    pub(crate) fan: u64,
    pub(crate) text: &'static str,
    pub(crate) written_at_ms: i64,
    pub(crate) likes: u64,
}

/// A story: one medium for a day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) medium: u64,
    pub(crate) created_at_ms: i64,
    pub(crate) expires_at_ms: i64,
    /// Which fans have seen it.
    pub(crate) viewers: Series,
}

impl World {
    /// All media, newest first.
    pub(crate) fn media(&self) -> Series {
        Series::all(self.unless_empty(MEDIA))
    }

    /// The medium with this index.
    pub(crate) fn medium(&self, index: u64) -> Medium {
        let mut dice = self.dice(MEDIUM, index);
        let is_video = dice.chance(30);
        Medium {
            is_video,
            bytes: dice.between(200_000, if is_video { 90_000_000 } else { 6_000_000 }),
            width: if is_video { 1920 } else { 3024 },
            height: if is_video { 1080 } else { 4032 },
            seconds: if is_video { dice.between(8, 900) } else { 0 },
            created_at_ms: self.time_ms(MEDIUM, index, 3 * DAY_MS),
        }
    }

    /// The folders (albums, vault lists) of the media.
    pub(crate) fn folders(&self) -> Series {
        Series::all(self.unless_empty(FOLDER_NAMES.len() as u64))
    }

    /// The generated media of a folder: each lies in one of the generated folders, and in a folder
    /// that was made while running there are none of them.
    pub(crate) fn folder_media(&self, folder: u64) -> Series {
        let keep: &'static [u64] = match folder {
            0 => &[0],
            1 => &[1],
            2 => &[2],
            3 => &[3],
            _ => return Series::all(0),
        };
        Series::of(self.media().count(), 4, keep)
    }

    /// All posts, newest first.
    pub(crate) fn posts(&self) -> Series {
        Series::all(self.unless_empty(60))
    }

    /// The post with this index.
    pub(crate) fn post(&self, index: u64) -> Post {
        let mut dice = self.dice(POST, index);
        let media = (0..dice.between(1, 4)).map(|_| dice.below(MEDIA)).collect();
        Post {
            text: dice.pick(POST_LINES),
            posted_at_ms: self.time_ms(POST, index, 5 * DAY_MS),
            likes: dice.below(400),
            comments: dice.below(12).min(self.fans),
            price_cents: if dice.chance(25) { signed(dice.between(3, 40)) * 100 } else { 0 },
            media,
            tips_cents: signed(dice.below(20)) * 500,
        }
    }

    /// The comments under a post, newest first, by place.
    pub(crate) fn comments(&self, post: u64) -> Series {
        Series::all(self.post(post).comments)
    }

    /// The comment at this place under a post.
    pub(crate) fn comment(&self, post: u64, place: u64) -> Comment {
        let index = post * COMMENTS_MAX + place;
        let mut dice = self.dice(COMMENT, index);
        let after = self.post(post).posted_at_ms;
        let comments = self.post(post).comments;
        Comment {
            index,
            fan: dice.below(self.fans),
            text: dice.pick(COMMENT_LINES),
            written_at_ms: after + signed(comments.saturating_sub(place)) * 47 * MINUTE_MS,
            likes: dice.below(30),
        }
    }

    /// The stories, newest first; those of the last day are running, the others archived.
    pub(crate) fn stories(&self) -> Series {
        Series::all(self.unless_empty(24))
    }

    /// The story with this index.
    pub(crate) fn story(&self, index: u64) -> Story {
        let mut dice = self.dice(STORY, index);
        let created_at_ms = self.time_ms(STORY, index, 2 * HOUR_MS);
        Story {
            medium: dice.below(MEDIA),
            created_at_ms,
            expires_at_ms: created_at_ms + DAY_MS,
            viewers: Series::of(self.fans, 4, &[0, 3]),
        }
    }

    /// Saved message texts.
    pub(crate) fn templates(&self) -> Series {
        Series::all(self.unless_empty(TEMPLATES.len() as u64))
    }
}

/// The name of a folder.
pub(crate) fn folder_name(index: u64) -> &'static str {
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    FOLDER_NAMES.get(at).copied().unwrap_or("Folder")
}

/// The text of a saved message.
pub(crate) fn template(index: u64) -> &'static str {
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    TEMPLATES.get(at).copied().unwrap_or("Thank you!")
}

/// The post and the place of a generated comment.
pub(crate) fn post_and_place(comment_index: u64) -> (u64, u64) {
    (comment_index / COMMENTS_MAX, comment_index % COMMENTS_MAX)
}
