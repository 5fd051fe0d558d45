//! The spool: pages of rows on their way into a file, in checked and compressed frames, one frame
//! per page.
//!
//! A frame contains the page's number, its resume point, and its rows. Writers append whole frames.
//! A worker that takes over after a crash reads the frames up to the first that is torn or damaged
//! and continues in a segment (a file, or a series of objects) of its own. A superseded writer that
//! wakes up again can only append to its own segment, which is not read beyond the page at which
//! the next segment starts.

mod frame;
mod reader;
mod writer;

pub use frame::SpoolFrame;
pub use reader::{SpoolPosition, SpoolReader};
pub use writer::SpoolWriter;

pub use crate::limits::PAGE_BYTES_MAX;
/// The longest resume point, in bytes.
pub const RESUME_POINT_BYTES_MAX: usize = 64 * 1024;

/// What a spool contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpooledPages {
    /// The number of pages. They are numbered from 0, so it is also the number of the next one.
    pub pages: u64,
    /// The number of rows.
    pub rows: u64,
    /// The length of all rows, each with a line break, in bytes.
    pub text_bytes: u64,
    /// The resume point of the last page; empty before the first page.
    pub resume_point: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::TabularError;

    /// Distinguishable pages, each with a column of its own.
    fn page(number: u64, rows: u64) -> Vec<String> {
        (0..rows).map(|row| format!("{{\"id\":{row},\"p{number}\":\"{number}\"}}")).collect()
    }

    fn append(writer: &mut SpoolWriter<Vec<u8>>, number: u64, rows: u64) {
        let rows = page(number, rows);
        let point = format!("after {number}");
        writer.append(point.as_bytes(), rows.iter().map(String::as_str)).unwrap();
    }

    /// A segment with these pages, after those in `spooled`.
    fn segment(spooled: SpooledPages, pages: std::ops::Range<u64>) -> (Vec<u8>, SpooledPages) {
        let mut writer = SpoolWriter::new(Vec::new(), spooled);
        pages.for_each(|number| append(&mut writer, number, number % 4));
        writer.finish()
    }

    fn read(segments: &[&[u8]]) -> (Vec<String>, SpoolPosition, SpooledPages) {
        let mut reader = SpoolReader::new(segments.iter().copied()).unwrap();
        let mut rows = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            assert_eq!(frame.rows().count(), frame.row_count() as usize);
            rows.extend(frame.rows().map(str::to_owned));
        }
        assert!(reader.next_frame().unwrap().is_none());
        (rows, reader.place(), reader.into_spooled())
    }

    fn expected(pages: std::ops::Range<u64>) -> Vec<String> {
        pages.flat_map(|number| page(number, number % 4)).collect()
    }

    #[test]
    fn pages_are_read_in_the_order_written() {
        let (bytes, spooled) = segment(SpooledPages::default(), 0..9);

        let (rows, place, found) = read(&[&bytes]);

        assert_eq!(rows, expected(0..9));
        assert_eq!(place, SpoolPosition { segment: 0, bytes: bytes.len() as u64 });
        assert_eq!(found, spooled);
        assert_eq!((found.pages, found.rows), (9, 12));
        assert_eq!(found.resume_point, b"after 8");
    }

    #[test]
    fn an_empty_input_is_a_spool_without_pages() {
        assert_eq!(read(&[]), (Vec::new(), SpoolPosition::default(), SpooledPages::default()));
        assert_eq!(
            read(&[b"", b""]),
            (Vec::new(), SpoolPosition::default(), SpooledPages::default())
        );
    }

    #[test]
    fn a_truncated_spool_is_valid_up_to_its_last_whole_frame() {
        let (bytes, _) = segment(SpooledPages::default(), 0..4);
        let mut ends = vec![0];
        for pages in 1..=4 {
            ends.push(segment(SpooledPages::default(), 0..pages).0.len());
        }

        for length in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= length).count() as u64 - 1;

            let (rows, place, spooled) = read(&[&bytes[..length]]);

            assert_eq!(rows, expected(0..whole), "cut at {length}");
            assert_eq!(place.bytes, ends[usize::try_from(whole).unwrap()] as u64);
            assert_eq!(spooled.pages, whole);
        }
    }

    #[test]
    fn a_takeover_continues_after_the_last_valid_frame() {
        let (undisturbed, whole) = segment(SpooledPages::default(), 0..8);
        let cut = &undisturbed[..undisturbed.len() * 2 / 3];
        let (_, place, spooled) = read(&[cut]);
        assert!((1..8).contains(&spooled.pages));

        // In a segment of its own, or in the same one after its valid part.
        let good = &cut[..usize::try_from(place.bytes).unwrap()];
        let (second, end) = segment(spooled.clone(), spooled.pages..8);

        assert_eq!(end, whole);
        assert_eq!(read(&[cut, &second]).2, whole);
        assert_eq!(read(&[cut, &second]).0, expected(0..8));
        assert_eq!([good, &second].concat(), undisturbed);
    }

    #[test]
    fn pages_of_a_superseded_writer_are_not_read() {
        let (mut first, spooled) = segment(SpooledPages::default(), 0..3);
        let (second, spooled_twice) = segment(spooled.clone(), 3..5);
        let (third, _) = segment(spooled_twice, 5..7);
        // It wakes up and continues with pages that another worker has read in the meantime.
        let mut late = SpoolWriter::new(Vec::new(), spooled);
        for _ in 3..9 {
            late.append(b"late", [r#"{"late":true}"#]).unwrap();
        }
        first.extend_from_slice(&late.finish().0);

        let (rows, _, found) = read(&[&first, &second, &third]);

        assert_eq!(rows, expected(0..7));
        assert_eq!(found.pages, 7);
    }

    #[test]
    fn a_segment_without_a_whole_frame_is_ignored() {
        let (first, spooled) = segment(SpooledPages::default(), 0..3);
        let (second, _) = segment(spooled.clone(), 3..4);
        let torn = &second[..second.len() - 1];
        let (third, _) = segment(spooled, 3..6);

        assert_eq!(read(&[&first, torn]).0, expected(0..3));
        assert_eq!(read(&[&first, torn, &third]).0, expected(0..6));
        assert_eq!(read(&[&first, &second[..7], &third]).0, expected(0..6));
    }

    #[test]
    fn a_missing_segment_ends_the_spool() {
        let (first, spooled) = segment(SpooledPages::default(), 0..2);
        let (_, spooled) = segment(spooled, 2..4);
        let (third, _) = segment(spooled, 4..6);

        assert_eq!(read(&[&first, &third]).0, expected(0..2));
        assert_eq!(read(&[&third]).0, [""; 0]);
    }

    #[test]
    fn rows_over_several_lines_become_one_line() {
        let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());

        writer.append(b"", ["{\n \"a\": 1\r\n}\n", " {} "]).unwrap();

        let (bytes, spooled) = writer.finish();
        assert_eq!(read(&[&bytes]).0, ["{ \"a\": 1}", "{}"]);
        assert_eq!(spooled.text_bytes, 13);
    }

    #[test]
    fn the_text_of_all_rows_has_a_limit() {
        let mut writer =
            SpoolWriter::new(Vec::new(), SpooledPages::default()).with_text_bytes_max(20);

        assert!(writer.append(b"", [r#"{"a":1}"#, r#"{"a":2}"#]).is_ok());
        let refused = writer.append(b"", [r#"{"a":3}"#]).unwrap_err();

        assert_eq!(refused.to_string(), "the rows do not fit into a file of 20 bytes");
    }

    #[test]
    fn a_page_has_a_limit() {
        let row = format!("{{\"a\":\"{}\"}}", "x".repeat(1024 * 1024 - 8));
        let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());

        let refused = writer.append(b"", std::iter::repeat_n(row.as_str(), 40)).unwrap_err();

        assert!(matches!(refused, TabularError::PageTooLong));
    }

    #[test]
    fn the_number_of_rows_has_a_limit() {
        let full = SpooledPages { rows: crate::ROWS_MAX, ..SpooledPages::default() };
        let mut writer = SpoolWriter::new(Vec::new(), full);

        assert!(writer.append(b"", []).is_ok());
        assert!(matches!(writer.append(b"", ["{}"]), Err(TabularError::TooManyRows)));
    }

    #[test]
    fn a_full_output_is_an_error() {
        let mut space = [0_u8; 50];
        let mut writer = SpoolWriter::new(&mut space[..], SpooledPages::default());

        assert!(matches!(writer.append(b"", [r#"{"a":1}"#]), Err(TabularError::Io(_))));
    }

    proptest! {
        #[test]
        fn damage_is_never_read_as_rows(at in 0..10_000_usize, change in 1..=255_u8) {
            let (mut bytes, _) = segment(SpooledPages::default(), 0..6);
            let at = at % bytes.len();
            bytes[at] ^= change;

            let (rows, place, spooled) = read(&[&bytes]);

            prop_assert_eq!(rows, expected(0..spooled.pages));
            prop_assert!(place.bytes <= at as u64);
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let marked = [b"CGS2".as_slice(), &bytes].concat();

            prop_assert_eq!(read(&[&bytes, &marked]).0, [""; 0]);
        }
    }
}
