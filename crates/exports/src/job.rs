//! One export, from the pages of earlier attempts to the published file.
//!
//! Pages are read one at a time and stored in a segment of the spool that only this claim writes;
//! no page causes a write to the database. A page is requested only after all earlier ones are
//! stored, so a claim that ends loses one page at most. While it is being fetched, the file takes
//! the rows of the previous page. After the last page the file is finished, or rendered from the
//! spool in one pass if it could not be written on the way. It is stored under a name of this
//! claim, and published by one guarded update.

use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::dataset::DatasetName;
use domain::export::ExportPhase;
use domain::window::DateWindow;
use failures::Failure;
use runtime::metrics;
use storage::{
    ObjectName, OpenSegment, PutOutcome, SegmentReader, StorageError, WorkFile, is_full,
};
use store::exports::{self, Export, ExportFailure, ExportLease, ExportOutput, ExportPublication};
use tabular::{
    FileFormat, FileLayout, FileRendering, ManifestFacts, RenderedFile, SpoolReader, SpoolWriter,
    SpooledPages, TabularError,
};

use super::columns;
use super::failpoints::{self, Failpoint};
use super::job_progress::{JobProgress, WorkEnding};
use super::page_processor::{FileDraft, PageProcessor};
use super::pages::{
    BROKEN_RESUME_POINT, PageFault, PageReader, PageRemedy, ReadLimits, WantedList,
};
use super::place;
use crate::ExportsState;

/// Why an attempt ends without a file.
pub(super) enum JobHalt {
    /// Another attempt would fail the same way.
    Final(ExportFailure),
    /// Another attempt may succeed.
    Passing(ExportFailure),
    /// It continues when the platform accepts credentials again, or the storage has space again.
    Waiting(ExportFailure),
}

pub(super) type Step<T> = Result<T, JobHalt>;

/// One claim of one export.
struct ExportJob<'a> {
    exports: &'a ExportsState,
    lease: ExportLease,
    export: Export,
    shared: &'a Arc<JobProgress>,
}

/// The pages that are stored.
struct KeptPages {
    /// In the order of the claims that wrote them.
    segments: Vec<OpenSegment>,
    spooled: SpooledPages,
    drafting: FileDraft,
}

/// An export with the pages that earlier claims stored.
struct RestoredExport {
    reader: PageReader,
    kept: KeptPages,
}

/// A complete file that is not stored yet.
pub(super) struct FinishedFile {
    pub(super) work: WorkFile,
    pub(super) rendered: RenderedFile,
}

/// Runs an export to its end.
pub(super) async fn run(
    exports: &ExportsState,
    lease: ExportLease,
    export: Export,
    shared: &Arc<JobProgress>,
) -> WorkEnding {
    let job = ExportJob { exports, lease, export, shared };
    match job.work().await {
        Ok(true) => WorkEnding::Published,
        Ok(false) => WorkEnding::Lost,
        Err(JobHalt::Final(failure)) => WorkEnding::Failed(failure),
        Err(JobHalt::Passing(failure)) => WorkEnding::Later(failure),
        Err(JobHalt::Waiting(failure)) => WorkEnding::Waiting(failure),
    }
}

impl ExportJob<'_> {
    /// False if the lease was lost before the file could be published.
    async fn work(&self) -> Step<bool> {
        let reader = PageReader::new(self.exports, self.wanted()?).await?;
        let RestoredExport { reader, kept } = self.restore(reader).await?;
        failpoints::reach(Failpoint::Restored).await;
        let kept = self.read(reader, kept).await?;
        failpoints::reach(Failpoint::ListRead).await;
        self.shared.does(ExportPhase::Writing, None);
        let finished = self.render(kept).await?;
        failpoints::reach(Failpoint::Rendered).await;
        self.publish(finished).await
    }

    fn wanted(&self) -> Step<WantedList> {
        let (export, settings) = (&self.export, &self.exports.config.exports);
        let window = DateWindow::parse(export.start_date.as_deref(), export.end_date.as_deref())
            .map_err(|problem| lasting("broken_job", problem.message))?;
        let params: serde_json::Value = serde_json::from_str(&export.params).unwrap_or_default();
        let ends_at = (export.dataset == DatasetName::ChatMessages).then(|| {
            let end = self.exports.clock.now().plus_seconds(settings.conversation_s);
            // The time of earlier attempts counts; time between attempts does not.
            end.plus_micros(export.worked_micros.saturating_neg())
        });
        Ok(WantedList {
            customer: export.customer,
            account: export.account.clone(),
            dataset: export.dataset,
            chat_id: params.get("chat_id").and_then(|id| id.as_str()).map(str::to_owned),
            window,
            max_rows: export.max_rows.and_then(|rows| u64::try_from(rows).ok()),
            limits: ReadLimits {
                rows_max: settings.rows_max,
                pages_max: settings.pages_max,
                ends_at,
            },
            label: export.id.to_string(),
            waits: self.shared.waits.clone(),
        })
    }

    /// Restores the complete pages that earlier claims stored.
    async fn restore(&self, mut reader: PageReader) -> Step<RestoredExport> {
        let mut segments = Vec::new();
        for token in 1..self.lease.token {
            let name = place::segment(self.lease.export, token)?;
            segments.extend(self.exports.storage.segment(&name).await?);
        }
        let mut drafting = self.drafting()?;
        if segments.is_empty() {
            let kept = KeptPages { segments, spooled: SpooledPages::default(), drafting };
            return Ok(RestoredExport { reader, kept });
        }
        let (shared, storage) = (Arc::clone(self.shared), Arc::clone(&self.exports.storage));
        let frames = frames(&segments)?;
        let restoring = blocking(move || {
            let mut frames = SpoolReader::new(frames)?;
            while let Some(frame) = frames.next_frame()? {
                if shared.is_halted.load(Ordering::SeqCst) {
                    return Err(TabularError::Stopped.into());
                }
                match reader.restore(frame.resume_point(), frame.rows()) {
                    Err(fault) if fault.code == BROKEN_RESUME_POINT => return Ok(None),
                    restored => restored?,
                }
                drafting.page(frame.text(), &storage)?;
            }
            Ok(Some((reader, drafting, frames.into_spooled())))
        });
        let Some((restored, begun, spooled)) = restoring.await? else {
            return self.begin_anew().await;
        };
        self.note(&spooled);
        let kept = KeptPages { segments, spooled, drafting: begun };
        Ok(RestoredExport { reader: restored, kept })
    }

    /// Starts again from the first page, because the pages of earlier claims cannot be read, for
    /// instance those of another version. Their segments are deleted with the export.
    async fn begin_anew(&self) -> Step<RestoredExport> {
        let export = self.export.id.to_string();
        tracing::warn!(
            export,
            "the stored pages of an export cannot be read; starting again from the first page"
        );
        metrics::export_begun_anew();
        let reader = PageReader::new(self.exports, self.wanted()?).await?;
        let (spooled, drafting) = (SpooledPages::default(), self.drafting()?);
        Ok(RestoredExport { reader, kept: KeptPages { segments: Vec::new(), spooled, drafting } })
    }

    /// The file, before its first row.
    fn drafting(&self) -> Step<FileDraft> {
        let label = format!("{}..{}", self.lease.export, self.lease.token);
        let work = self.exports.storage.work_file(&label)?;
        let columns = columns::of(self.exports, &self.export)?;
        let bytes_max = self.exports.config.exports.bytes_max;
        FileDraft::begin(work, layout_of(&self.export), columns, bytes_max)
    }

    fn note(&self, spooled: &SpooledPages) {
        let pages = count(spooled.pages);
        let is_news = pages > self.export.pages;
        self.shared.set(pages, count(spooled.rows));
        if is_news {
            // An earlier attempt got further than it could record.
            self.shared.new_page();
        }
    }

    /// Reads the remaining pages, and stores each.
    async fn read(&self, reader: PageReader, kept: KeptPages) -> Step<KeptPages> {
        let KeptPages { mut segments, spooled, mut drafting } = kept;
        let name = place::segment(self.lease.export, self.lease.token)?;
        let begun = self.exports.storage.begin_segment(&name).await?;
        let segment =
            begun.ok_or_else(|| passing("storage", "the name of a segment is already in use"))?;
        failpoints::reach(Failpoint::SegmentBegun).await;
        let bytes_max = self.exports.config.exports.bytes_max;
        let writer = SpoolWriter::new(std::io::sink(), spooled).with_text_bytes_max(bytes_max);
        let mut desk = PageProcessor { reader, writer, segment };
        self.note_reading(&desk.reader);
        let mut text = String::new();
        let mut fetched = desk.reader.fetch().await?;
        while let Some(page) = fetched {
            let unsent;
            (desk, unsent) = blocking(move || desk.keep(page)).await?;
            if let Some(frame) = unsent {
                frame.send().await?;
            }
            self.shared.set(count(desk.writer.pages()), count(desk.writer.rows()));
            self.note_reading(&desk.reader);
            self.shared.new_page();
            failpoints::reach(Failpoint::PageKept).await;
            desk.writer.swap_text(&mut text);
            // The page is stored, so the next one is fetched while the file takes this one's rows.
            let next = async { Ok(Box::pin(desk.reader.fetch()).await?) };
            let storage = Arc::clone(&self.exports.storage);
            let taking = blocking(move || {
                drafting.page(&text, &storage)?;
                Ok((drafting, text))
            });
            (fetched, (drafting, text)) = tokio::try_join!(next, taking)?;
        }
        segments.push(desk.segment);
        Ok(KeptPages { segments, spooled: desk.writer.finish().1, drafting })
    }

    fn note_reading(&self, reader: &PageReader) {
        let phase = if reader.is_checking() { ExportPhase::Checking } else { ExportPhase::Reading };
        self.shared.does(phase, Some((reader.list_rows(), reader.list_rows_read())));
    }

    /// Completes the file, as a work file.
    async fn render(&self, kept: KeptPages) -> Step<FinishedFile> {
        let (export, shared) = (self.export.clone(), Arc::clone(self.shared));
        let bytes_max = self.exports.config.exports.bytes_max;
        blocking(move || {
            let is_stopped = || {
                failpoints::reach_blocking(Failpoint::Rendering);
                shared.is_halted.load(Ordering::SeqCst)
            };
            let id = export.id.to_string();
            let (layout, facts) = (layout_of(&export), facts(&export, &id));
            let rendering = FileRendering { layout, facts, bytes_max, is_stopped: &is_stopped };
            kept.drafting.finish(&rendering, &kept.spooled, &kept.segments)
        })
        .await
    }

    /// Stores the file and publishes it. False if the lease is lost.
    async fn publish(&self, FinishedFile { work, rendered }: FinishedFile) -> Step<bool> {
        let ExportLease { export, token, .. } = self.lease;
        let name: ObjectName = place::output(export, token, self.export.format)?;
        if self.exports.storage.put_file(&name, work).await? == PutOutcome::Exists {
            // This claim may have stored it in an attempt whose success was not reported; any other
            // content is never published.
            let found = self.exports.storage.find(&name).await?;
            if found.is_none_or(|found| found.bytes != rendered.bytes) {
                return Err(passing("storage", "the name of the file is already in use"));
            }
        }
        failpoints::reach(Failpoint::Stored).await;
        let output = ExportOutput {
            key: name.as_str().to_owned(),
            sha256: rendered.sha256,
            bytes: count(rendered.bytes),
            rows: count(rendered.rows),
        };
        let (exports, lease, progress) = (self.exports.clone(), self.lease, self.shared.progress());
        // A separate task, so that it is not aborted once it has begun.
        let published = self.exports.tasks.on_control(async move {
            let now = exports.clock.now();
            let expires_at = now.plus_seconds(exports.config.exports.retention_s);
            let publication = ExportPublication { output: &output, now, expires_at };
            exports::publish(&exports.store, &lease, publication, progress).await
        });
        let published = published.await.map_err(Failure::from)?.map_err(Failure::from)?;
        failpoints::reach(Failpoint::Published).await;
        Ok(published)
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn layout_of(export: &Export) -> FileLayout {
    let format = FileFormat::parse(export.format.as_str()).unwrap_or(FileFormat::Csv);
    FileLayout { format, csv_bom: export.csv_bom }
}

/// Readers for the frames of these segments.
pub(super) fn frames(
    segments: &[OpenSegment],
) -> Result<Vec<BufReader<SegmentReader>>, StorageError> {
    segments.iter().map(|segment| segment.reader().map(BufReader::new)).collect()
}

fn facts<'a>(export: &'a Export, id: &'a str) -> ManifestFacts<'a> {
    ManifestFacts {
        job: id,
        account: export.account.as_str(),
        platform: export.platform.as_str(),
        dataset: export.dataset.as_str(),
        start_date: export.start_date.as_deref(),
        end_date: export.end_date.as_deref(),
        tool_version: env!("CARGO_PKG_VERSION"),
    }
}

/// Runs long computations on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Step<T> + Send + 'static) -> Step<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(passing("internal", &format!("work on the rows ended early: {error}"))),
    }
}

fn passing(code: &str, message: &str) -> JobHalt {
    JobHalt::Passing(ExportFailure { code: code.to_owned(), message: message.to_owned() })
}

fn lasting(code: &str, message: &str) -> JobHalt {
    JobHalt::Final(ExportFailure { code: code.to_owned(), message: message.to_owned() })
}

/// The storage is full, through no fault of the platform or the account.
fn storage_full() -> JobHalt {
    let message =
        "the service's own storage is full; nothing is wrong with the platform or the account"
            .to_owned();
    JobHalt::Waiting(ExportFailure { code: "storage_full".to_owned(), message })
}

impl From<PageFault> for JobHalt {
    fn from(fault: PageFault) -> Self {
        let failure = ExportFailure { code: fault.code.to_owned(), message: fault.message };
        match fault.remedy {
            PageRemedy::None => Self::Final(failure),
            PageRemedy::Attempt => Self::Passing(failure),
            PageRemedy::Recovery => Self::Waiting(failure),
        }
    }
}

impl From<StorageError> for JobHalt {
    fn from(error: StorageError) -> Self {
        if error.is_full {
            return storage_full();
        }
        passing("storage_unavailable", &error.to_string())
    }
}

impl From<Failure> for JobHalt {
    fn from(error: Failure) -> Self {
        passing("internal", &error.to_string())
    }
}

impl From<std::io::Error> for JobHalt {
    fn from(error: std::io::Error) -> Self {
        if is_full(&error) {
            return storage_full();
        }
        passing("storage_unavailable", &format!("a work file cannot be read or written: {error}"))
    }
}

impl From<TabularError> for JobHalt {
    fn from(error: TabularError) -> Self {
        let code = match &error {
            TabularError::Io(full) if is_full(full) => return storage_full(),
            TabularError::Stopped => return passing("stopped", "the work was stopped"),
            TabularError::Io(_) | TabularError::Incomplete { .. } => {
                return passing("storage_unavailable", &error.to_string());
            }
            TabularError::RowTooLong { .. } => "row_too_large",
            TabularError::TooManyColumns => "too_many_columns",
            TabularError::ColumnNameTooLong => "column_name_too_long",
            TabularError::TooManyRows => "too_many_rows",
            TabularError::PageTooLong => "page_too_large",
            TabularError::TooLarge { .. } => "file_too_large",
            TabularError::CellTooLong { .. } => "cell_too_long",
            _ => "malformed_row",
        };
        lasting(code, &error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn waits_for(halt: JobHalt) -> Option<String> {
        match halt {
            JobHalt::Waiting(failure) => Some(failure.code),
            JobHalt::Final(_) | JobHalt::Passing(_) => None,
        }
    }

    #[test]
    fn export_waits_only_while_the_storage_is_full() {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            let on_its_way = waits_for(JobHalt::from(std::io::Error::from(kind)));
            assert_eq!(on_its_way.as_deref(), Some("storage_full"));
            let rendered = waits_for(JobHalt::from(TabularError::Io(kind.into())));
            assert_eq!(rendered.as_deref(), Some("storage_full"));
        }
        let broken = std::io::Error::from(ErrorKind::TimedOut);
        assert_eq!(waits_for(JobHalt::from(TabularError::Io(broken))), None);
        assert_eq!(waits_for(JobHalt::from(std::io::Error::from(ErrorKind::NotFound))), None);
    }
}
