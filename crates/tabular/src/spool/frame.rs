//! One frame: a page as bytes. All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `CGS2` |
//! | 8 | the page's number |
//! | 4 | the number of rows |
//! | 4 4 4 | lengths: of the resume point, the rows' text, the rows compressed (LZ4 block) |
//! | 8 | XXH64 of the above |
//! | … | the resume point, the compressed rows |
//! | 8 | XXH64 of that, seeded with the header's |
//!
//! The rows' text is a line for each row.

use std::io::{ErrorKind, Read};

use twox_hash::XxHash64;

use super::{PAGE_BYTES_MAX, RESUME_POINT_BYTES_MAX};

const MARK: [u8; 4] = *b"CGS2";
pub(super) const HEADER_BYTES: usize = 36;
const CHECKSUM_BYTES: usize = 8;

/// One page as it was written to the spool.
#[derive(Debug, Default)]
pub struct SpoolFrame {
    page: u64,
    rows: u32,
    resume_point: Vec<u8>,
    text: String,
    /// A buffer that is reused for the next frame.
    body: Vec<u8>,
}

/// The header before a frame's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) page: u64,
    pub(super) rows: u32,
    pub(super) resume_bytes: u32,
    pub(super) text_bytes: u32,
    pub(super) compressed_bytes: u32,
}

impl SpoolFrame {
    /// The page's number.
    pub const fn page(&self) -> u64 {
        self.page
    }

    /// The number of its rows.
    pub const fn row_count(&self) -> u32 {
        self.rows
    }

    /// Its resume point.
    pub fn resume_point(&self) -> &[u8] {
        &self.resume_point
    }

    /// Its rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.text.split_terminator('\n')
    }

    /// Its rows, each followed by a line break.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads the body that belongs to a header. `false`: it is torn or damaged, and nothing here
    /// may be used.
    pub(super) fn read_body(
        &mut self,
        header: &FrameHeader,
        from: &mut impl Read,
    ) -> std::io::Result<bool> {
        let length = header.body_bytes() + CHECKSUM_BYTES;
        self.body.clear();
        if from.take(length as u64).read_to_end(&mut self.body)? < length {
            return Ok(false);
        }
        Ok(self.decode(header).is_some())
    }

    fn decode(&mut self, header: &FrameHeader) -> Option<()> {
        let (body, checksum) = self.body.split_last_chunk::<CHECKSUM_BYTES>()?;
        let sum = XxHash64::oneshot(header.checksum(), body);
        if sum != u64::from_le_bytes(*checksum) {
            return None;
        }
        let (resume_point, compressed) = body.split_at_checked(header.resume_bytes as usize)?;
        self.page = header.page;
        self.rows = header.rows;
        self.resume_point.clear();
        self.resume_point.extend_from_slice(resume_point);
        let mut text = std::mem::take(&mut self.text).into_bytes();
        text.resize(header.text_bytes as usize, 0);
        let length = lz4_flex::block::decompress_into(compressed, &mut text).ok()?;
        self.text = String::from_utf8(text).ok()?;
        let lines = self.text.bytes().filter(|byte| *byte == b'\n').count();
        (length == self.text.len() && lines == header.rows as usize).then_some(())
    }
}

impl FrameHeader {
    const fn body_bytes(&self) -> usize {
        self.resume_bytes as usize + self.compressed_bytes as usize
    }

    /// The length of the whole frame.
    pub(super) const fn frame_bytes(&self) -> u64 {
        (HEADER_BYTES + self.body_bytes() + CHECKSUM_BYTES) as u64
    }

    fn fields(&self) -> [u8; HEADER_BYTES - CHECKSUM_BYTES] {
        let mut bytes = [0; HEADER_BYTES - CHECKSUM_BYTES];
        let parts: [&[u8]; 6] = [
            &MARK,
            &self.page.to_le_bytes(),
            &self.rows.to_le_bytes(),
            &self.resume_bytes.to_le_bytes(),
            &self.text_bytes.to_le_bytes(),
            &self.compressed_bytes.to_le_bytes(),
        ];
        let joined = parts.into_iter().flatten();
        bytes.iter_mut().zip(joined).for_each(|(place, byte)| *place = *byte);
        bytes
    }

    fn checksum(&self) -> u64 {
        XxHash64::oneshot(0, &self.fields())
    }

    /// Reads a header. `None`: there is none, or it is torn or damaged.
    pub(super) fn read(from: &mut impl Read) -> std::io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        match from.read_exact(&mut bytes) {
            Ok(()) => Ok(Self::decode(&bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MARK)?;
        let (page, rest) = rest.split_first_chunk::<8>()?;
        let (numbers, checksum) = rest.split_last_chunk::<CHECKSUM_BYTES>()?;
        let (numbers, _) = numbers.as_chunks::<4>();
        let &[rows, resume_bytes, text_bytes, compressed_bytes] = numbers else {
            return None;
        };
        let header = Self {
            page: u64::from_le_bytes(*page),
            rows: u32::from_le_bytes(rows),
            resume_bytes: u32::from_le_bytes(resume_bytes),
            text_bytes: u32::from_le_bytes(text_bytes),
            compressed_bytes: u32::from_le_bytes(compressed_bytes),
        };
        let is_whole = header.checksum() == u64::from_le_bytes(*checksum);
        // Lengths in foreign data must not make us reserve memory.
        let is_bounded = header.resume_bytes as usize <= RESUME_POINT_BYTES_MAX
            && header.text_bytes as usize <= PAGE_BYTES_MAX
            && header.compressed_bytes as usize
                <= lz4_flex::block::get_maximum_output_size(PAGE_BYTES_MAX);
        (is_whole && is_bounded).then_some(header)
    }
}

/// The parts of a frame to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameParts<'a> {
    pub(super) page: u64,
    pub(super) rows: u32,
    pub(super) resume_point: &'a [u8],
    pub(super) text: &'a [u8],
}

/// Encodes a frame into `frame`, reusing its capacity. The parts are within their limits.
pub(super) fn encode(parts: &FrameParts<'_>, frame: &mut Vec<u8>) -> std::io::Result<()> {
    let before = HEADER_BYTES + parts.resume_point.len();
    frame.clear();
    frame.resize(HEADER_BYTES, 0);
    frame.extend_from_slice(parts.resume_point);
    frame.resize(before + lz4_flex::block::get_maximum_output_size(parts.text.len()), 0);
    let space = frame.get_mut(before..).unwrap_or_default();
    let compressed = lz4_flex::block::compress_into(parts.text, space);
    let compressed = compressed.map_err(std::io::Error::other)?;
    frame.truncate(before + compressed);
    let length = |bytes: usize| u32::try_from(bytes).map_err(std::io::Error::other);
    let header = FrameHeader {
        page: parts.page,
        rows: parts.rows,
        resume_bytes: length(parts.resume_point.len())?,
        text_bytes: length(parts.text.len())?,
        compressed_bytes: length(compressed)?,
    };
    let sum = header.checksum();
    let head = header.fields().into_iter().chain(sum.to_le_bytes());
    frame.iter_mut().zip(head).for_each(|(place, byte)| *place = byte);
    let sum = XxHash64::oneshot(sum, frame.get(HEADER_BYTES..).unwrap_or_default());
    frame.extend_from_slice(&sum.to_le_bytes());
    Ok(())
}
