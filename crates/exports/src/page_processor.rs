//! The computations of an export: pages are checked and stored, and the file is written on the way.
//! Nothing here waits for I/O from a platform, and it all runs on blocking threads.

use std::fs::File;
use std::io::Sink;

use storage::{OpenSegment, Storage, UnsentFrame, WorkFile};
use tabular::{
    DraftOutcome, FileColumns, FileLayout, FileRendering, SpoolReader, SpoolWriter, SpooledPages,
    TabularDraft,
};
use tokio::task::JoinHandle;

use super::failpoints::{self, Failpoint};
use super::job::{FinishedFile, Step, frames};
use super::pages::{FetchedPage, PageReader};

/// The number of bytes written before a flush to disk starts.
const FLUSH_BYTES: u64 = 32 * 1024 * 1024;

/// Checks and stores pages.
pub(super) struct PageProcessor {
    pub(super) reader: PageReader,
    pub(super) writer: SpoolWriter<Sink>,
    /// The segment that only this claim writes.
    pub(super) segment: OpenSegment,
}

impl PageProcessor {
    /// Checks a page and appends it to the segment. The returned frame, if any, must be sent before
    /// the page counts as stored.
    pub(super) fn keep(mut self, fetched: FetchedPage) -> Step<(Self, Option<UnsentFrame>)> {
        let page = self.reader.take(fetched)?;
        failpoints::reach_blocking(Failpoint::PageFetched);
        let number = self.writer.pages();
        let frame = self.writer.append(&page.point, page.rows.iter())?;
        let unsent = self.segment.append(number, frame)?;
        Ok((self, unsent))
    }
}

/// The file, while its rows arrive.
pub(super) struct FileDraft {
    work: WorkFile,
    draft: TabularDraft<File>,
    /// The number of bytes that are on disk or being flushed.
    flushed_bytes: u64,
    flush: Option<JoinHandle<()>>,
}

impl FileDraft {
    /// Starts an empty file with these columns and a maximum size in bytes.
    pub(super) fn begin(
        work: WorkFile,
        layout: FileLayout,
        columns: FileColumns,
        bytes_max: u64,
    ) -> Step<Self> {
        let draft =
            TabularDraft::new(layout, work.file().try_clone()?, bytes_max).with_columns(columns);
        Ok(Self { work, draft, flushed_bytes: 0, flush: None })
    }

    /// Adds the rows of the next page. From time to time a flush to disk is started, so that little
    /// is left to flush when the file is stored.
    pub(super) fn page(&mut self, text: &str, storage: &Storage) -> Step<()> {
        failpoints::reach_blocking(Failpoint::Rendering);
        self.draft.page(text)?;
        let bytes = self.work.file().metadata()?.len();
        let is_free = self.flush.as_ref().is_none_or(JoinHandle::is_finished);
        if is_free && bytes.saturating_sub(self.flushed_bytes) >= FLUSH_BYTES {
            self.flushed_bytes = bytes;
            self.flush = storage.flush_early(&self.work);
        }
        Ok(())
    }

    /// Completes the file: as it was written on the way, or rendered from the spool now.
    pub(super) fn finish(
        self,
        rendering: &FileRendering<'_>,
        spooled: &SpooledPages,
        segments: &[OpenSegment],
    ) -> Step<FinishedFile> {
        let Self { work, draft, .. } = self;
        let columns = match draft.finish(&rendering.facts, spooled)? {
            DraftOutcome::File(rendered) => return Ok(FinishedFile { work, rendered }),
            DraftOutcome::Columns(columns) => columns,
        };
        work.empty()?;
        let pages = SpoolReader::new(frames(segments)?)?;
        let rendered = tabular::render(rendering, spooled, &columns, pages, work.file())?;
        Ok(FinishedFile { work, rendered })
    }
}
