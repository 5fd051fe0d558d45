//! Reads a spool: whole frames in order, up to the first that is torn or damaged.

use std::collections::VecDeque;
use std::io::Read;

use super::SpooledPages;
use super::frame::{FrameHeader, SpoolFrame};

/// Reads the frames of all segments in order. A segment needs a buffer of its own only if small
/// reads are expensive.
#[derive(Debug)]
pub struct SpoolReader<R> {
    segments: VecDeque<PeekedSegment<R>>,
    frame: SpoolFrame,
    place: SpoolPosition,
    spooled: SpooledPages,
}

/// How far a spool is valid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolPosition {
    /// The segment of the last valid frame, counted from 0 in the order in which segments were
    /// passed.
    pub segment: usize,
    /// The end of that frame in the segment, in bytes; anything after it is ignored.
    pub bytes: u64,
}

/// A segment whose next header has been read already.
#[derive(Debug)]
struct PeekedSegment<R> {
    index: usize,
    from: R,
    next: Option<FrameHeader>,
    bytes: u64,
}

impl<R: Read> SpoolReader<R> {
    /// Opens a spool of these segments, in the order in which they were started.
    pub fn new(segments: impl IntoIterator<Item = R>) -> std::io::Result<Self> {
        let mut opened = VecDeque::new();
        for (index, mut from) in segments.into_iter().enumerate() {
            let next = FrameHeader::read(&mut from)?;
            // A segment without even a first header is ignored.
            if next.is_some() {
                opened.push_back(PeekedSegment { index, from, next, bytes: 0 });
            }
        }
        Ok(Self {
            segments: opened,
            frame: SpoolFrame::default(),
            place: SpoolPosition::default(),
            spooled: SpooledPages::default(),
        })
    }

    /// The next page; `None` if there is no whole one that follows the page before.
    pub fn next_frame(&mut self) -> std::io::Result<Option<&SpoolFrame>> {
        let wanted = self.spooled.pages;
        // The writer of a later segment that starts at this page or before it has found this page
        // unusable in earlier segments.
        while self.segments.iter().skip(1).any(|later| later.begins_by(wanted)) {
            self.segments.pop_front();
        }
        let Some(segment) = self.segments.front_mut() else { return Ok(None) };
        if !segment.read(wanted, &mut self.frame)? {
            // A page after a gap is never returned, even if the next one is requested again.
            self.segments.clear();
            return Ok(None);
        }
        self.place = SpoolPosition { segment: segment.index, bytes: segment.bytes };
        self.spooled.pages += 1;
        self.spooled.rows += u64::from(self.frame.row_count());
        self.spooled.text_bytes += self.frame.text().len() as u64;
        self.spooled.resume_point.clear();
        self.spooled.resume_point.extend_from_slice(self.frame.resume_point());
        Ok(Some(&self.frame))
    }

    /// How far the returned frames reach.
    pub const fn place(&self) -> SpoolPosition {
        self.place
    }

    /// What the returned frames contain.
    pub const fn spooled(&self) -> &SpooledPages {
        &self.spooled
    }

    /// Ends reading and returns what the returned frames contain.
    pub fn into_spooled(self) -> SpooledPages {
        self.spooled
    }
}

impl<R: Read> PeekedSegment<R> {
    fn begins_by(&self, page: u64) -> bool {
        // Later segments have not been read yet, so their next header is their first.
        self.next.is_some_and(|header| header.page <= page)
    }

    /// Reads the page with that number. `false`: it is not here, or is torn or damaged.
    fn read(&mut self, page: u64, frame: &mut SpoolFrame) -> std::io::Result<bool> {
        let Some(header) = self.next.take().filter(|header| header.page == page) else {
            return Ok(false);
        };
        if !frame.read_body(&header, &mut self.from)? {
            return Ok(false);
        }
        self.bytes += header.frame_bytes();
        self.next = FrameHeader::read(&mut self.from)?;
        Ok(true)
    }
}
