//! A creator's content: media, folders, posts, comments, stories, templates.

use super::series::Series;
use super::words::{COMMENT_LINES, FOLDER_NAMES, POST_LINES, TEMPLATES};
use super::{DAY_MS, HOUR_MS, MINUTE_MS, World, signed};

const MEDIUM: u64 = 40;
const POST: u64 = 41;
const COMMENT: u64 = 42;
const STORY: u64 = 43;

/// The number of media of a creator.
pub(crate) const MEDIA: u64 = 120;

const COMMENTS_MAX: u64 = 1000;
const POSTS: u64 = 60;
/// The time between two media, and between two posts.
const MEDIUM_STEP_MS: i64 = 3 * DAY_MS;
const POST_STEP_MS: i64 = 5 * DAY_MS;

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
    /// Unique among all comments of the creator; derived from the post and the position.
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
        let mut random = self.random(MEDIUM, index);
        let is_video = random.in_percent(30);
        Medium {
            is_video,
            bytes: random.between(200_000, if is_video { 90_000_000 } else { 6_000_000 }),
            width: if is_video { 1920 } else { 3024 },
            height: if is_video { 1080 } else { 4032 },
            seconds: if is_video { random.between(8, 900) } else { 0 },
            created_at_ms: self.time_ms(MEDIUM, index, MEDIUM_STEP_MS),
        }
    }

    /// One of the media that existed at this time, selected by `chosen`.
    pub(crate) fn medium_before(&self, at_ms: i64, chosen: u64) -> u64 {
        self.one_before(MEDIA, MEDIUM_STEP_MS, at_ms, chosen)
    }

    /// One of the posts that existed at this time, selected by `chosen`.
    pub(crate) fn post_before(&self, at_ms: i64, chosen: u64) -> u64 {
        self.one_before(POSTS, POST_STEP_MS, at_ms, chosen)
    }

    /// One of `count` things, created in steps of `step_ms`, that existed at this time; the oldest
    /// one if none did.
    fn one_before(&self, count: u64, step_ms: i64, at_ms: i64, chosen: u64) -> u64 {
        let steps = (self.end_ms - at_ms).max(0) / step_ms + 1;
        let youngest = steps.unsigned_abs().min(count - 1);
        youngest + chosen % (count - youngest)
    }

    /// The folders (albums, vault lists) of the media.
    pub(crate) fn folders(&self) -> Series {
        Series::all(self.unless_empty(FOLDER_NAMES.len() as u64))
    }

    /// The generated media of a folder: each is in one of the generated folders; a folder created
    /// while running has none of them.
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
        Series::all(self.unless_empty(POSTS))
    }

    /// The post with this index.
    pub(crate) fn post(&self, index: u64) -> Post {
        let mut random = self.random(POST, index);
        let posted_at_ms = self.time_ms(POST, index, POST_STEP_MS);
        let count = random.between(1, 4);
        let media = (0..count).map(|_| self.medium_before(posted_at_ms, random.draw())).collect();
        let readers = self.fans.saturating_sub(self.youngest_fan_at(posted_at_ms));
        Post {
            text: random.pick(POST_LINES),
            posted_at_ms,
            likes: random.below(400),
            comments: random.below(12).min(readers),
            price_cents: if random.in_percent(25) {
                signed(random.between(3, 40)) * 100
            } else {
                0
            },
            media,
            tips_cents: signed(random.below(20)) * 500,
        }
    }

    /// The comments on a post, newest first, by position.
    pub(crate) fn comments(&self, post: u64) -> Series {
        Series::all(self.post(post).comments)
    }

    /// The comment at this position of a post.
    pub(crate) fn comment(&self, post: u64, place: u64) -> Comment {
        let index = post * COMMENTS_MAX + place;
        let mut random = self.random(COMMENT, index);
        let Post { posted_at_ms, comments, .. } = self.post(post);
        let youngest = self.youngest_fan_at(posted_at_ms).min(self.fans.saturating_sub(1));
        let step_ms = (self.end_ms - posted_at_ms) / (signed(comments) + 1);
        let steps = signed(comments.saturating_sub(place));
        Comment {
            index,
            fan: youngest + random.below(self.fans - youngest),
            text: random.pick(COMMENT_LINES),
            written_at_ms: posted_at_ms + steps * step_ms.min(47 * MINUTE_MS),
            likes: random.below(30),
        }
    }

    /// The stories, newest first; those of the last day are running, the others archived.
    pub(crate) fn stories(&self) -> Series {
        Series::all(self.unless_empty(24))
    }

    /// The story with this index.
    pub(crate) fn story(&self, index: u64) -> Story {
        let mut random = self.random(STORY, index);
        let created_at_ms = self.time_ms(STORY, index, 2 * HOUR_MS);
        Story {
            medium: self.medium_before(created_at_ms, random.draw()),
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

/// The post and the position of a generated comment.
pub(crate) fn post_and_place(comment_index: u64) -> (u64, u64) {
    (comment_index / COMMENTS_MAX, comment_index % COMMENTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_refers_only_to_earlier_media_and_fans() {
        let world = World::new(1, 0, 240);
        for index in (0..world.posts().count()).filter_map(|place| world.posts().at(place)) {
            let post = world.post(index);
            for medium in &post.media {
                assert!(world.medium(*medium).created_at_ms < post.posted_at_ms, "post {index}");
            }
            let mut before_ms = world.end_ms;
            for place in 0..post.comments {
                let comment = world.comment(index, place);
                assert!((post.posted_at_ms..before_ms).contains(&comment.written_at_ms));
                before_ms = comment.written_at_ms;
                assert!(world.fan(comment.fan).subscribed_at_ms < comment.written_at_ms);
            }
        }
        for index in 0..world.stories().count() {
            let story = world.story(index);
            assert!(world.medium(story.medium).created_at_ms < story.created_at_ms);
        }
    }
}
