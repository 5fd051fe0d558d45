//! A segment of a spool: a file in the storage's folder, or an object for each frame with a copy of
//! them on this machine.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;

use super::bucket::BucketStorage;
use super::{ObjectName, StorageError, WorkFile};

/// One segment, open.
#[derive(Debug)]
pub struct OpenSegment {
    place: SegmentBackend,
}

#[derive(Debug)]
enum SegmentBackend {
    File(File),
    Bucket { bucket: BucketStorage, name: ObjectName, copy: WorkFile },
}

/// A segment's bytes, read where they stand: the file's own position is the writer's.
#[derive(Debug)]
pub struct SegmentReader {
    file: File,
    at: u64,
    end: u64,
}

/// A frame that is not in its bucket yet.
#[derive(Debug)]
#[must_use = "a frame is kept when it was sent"]
pub struct UnsentFrame {
    bucket: BucketStorage,
    name: ObjectName,
    frame: Bytes,
}

impl UnsentFrame {
    /// Sends it.
    pub async fn send(self) -> Result<(), StorageError> {
        self.bucket.put_frame(&self.name, self.frame).await
    }
}

impl OpenSegment {
    pub(super) const fn in_file(file: File) -> Self {
        Self { place: SegmentBackend::File(file) }
    }

    pub(super) const fn in_bucket(bucket: BucketStorage, name: ObjectName, copy: WorkFile) -> Self {
        Self { place: SegmentBackend::Bucket { bucket, name, copy } }
    }

    /// Appends the frame of a page, to one's own segment only; blocks. When it has left, where it
    /// is to leave, it outlives this process, and on a bucket this machine; a frame that is torn by
    /// a power cut is known by its checksum.
    pub fn append(&self, page: u64, frame: &[u8]) -> Result<Option<UnsentFrame>, StorageError> {
        let (mut file, unsent) = match &self.place {
            SegmentBackend::File(file) => (file, None),
            SegmentBackend::Bucket { bucket, name, copy } => {
                let (bucket, name) = (bucket.clone(), frame_name(name, page)?);
                let frame = Bytes::copy_from_slice(frame);
                (copy.file(), Some(UnsentFrame { bucket, name, frame }))
            }
        };
        file.write_all(frame).map_err(StorageError::file)?;
        Ok(unsent)
    }

    /// The segment's bytes on this machine, as they are now, from their beginning. Readers and
    /// `append` do not disturb each other.
    pub fn reader(&self) -> Result<SegmentReader, StorageError> {
        let file = match &self.place {
            SegmentBackend::File(file) => file,
            SegmentBackend::Bucket { copy, .. } => copy.file(),
        };
        let file = file.try_clone().map_err(StorageError::file)?;
        let end = file.metadata().map_err(StorageError::file)?.len();
        Ok(SegmentReader { file, at: 0, end })
    }
}

impl Read for SegmentReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let wanted = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Fetches the frames of a segment that was begun.
pub(super) async fn fetched(
    bucket: BucketStorage,
    name: ObjectName,
    copy: WorkFile,
) -> Result<Option<OpenSegment>, StorageError> {
    let mut after = String::new();
    loop {
        let found = bucket.list(&name, &after).await?;
        let Some(last) = found.last() else { break };
        for frame in &found {
            let Some(mut parts) = bucket.read(&frame.name, 0..frame.bytes).await? else { continue };
            while let Some(part) = parts.next().await? {
                copy.file().write_all(&part).map_err(StorageError::file)?;
            }
        }
        last.name.as_str().clone_into(&mut after);
    }
    if after.is_empty() {
        return Ok(None);
    }
    Ok(Some(OpenSegment::in_bucket(bucket, name, copy)))
}

/// Names of frames sort as their pages do.
fn frame_name(segment: &ObjectName, page: u64) -> Result<ObjectName, StorageError> {
    let unusable = |error| StorageError::permanent("a frame has no name").because(error);
    segment.join(&format!("{page:010}")).map_err(unusable)
}
