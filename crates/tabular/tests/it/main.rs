//! Files through the crate's public functions: limits, damage and full disks.
#![expect(clippy::unwrap_used, reason = "an unexpected value must fail the test")]

use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom, Write};

use tabular::bundle::BundleWriter;
use tabular::spool::RESUME_POINT_BYTES_MAX;
use tabular::{
    FileColumns, FileFormat, FileRendering, ManifestFacts, ROW_BYTES_MAX, RowFlattener,
    SpoolReader, SpoolWriter, SpooledPages, TabularError, render,
};

const FACTS: ManifestFacts<'_> = ManifestFacts {
    job: "exp_1",
    account: "ada",
    platform: "platform_alpha",
    dataset: "subscribers",
    start_date: None,
    end_date: None,
    tool_version: "1.2.3",
};

/// A spool of some pages with a row each, the ends of their frames, and the columns.
struct Spool {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    spooled: SpooledPages,
    columns: FileColumns,
}

impl Spool {
    fn of(rows: &[&str]) -> Self {
        let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());
        let mut flattener = RowFlattener::collecting(FileColumns::new());
        let mut ends = Vec::new();
        for row in rows {
            let frame = writer.append(b"next", [*row]).unwrap().len();
            ends.push(ends.last().copied().unwrap_or_default() + frame);
            flattener.read(row).unwrap();
        }
        let (bytes, spooled) = writer.finish();
        Self { bytes, ends, spooled, columns: flattener.into_columns() }
    }

    fn render(
        &self,
        format: FileFormat,
        out: impl Read + Write + Seek,
    ) -> Result<u64, TabularError> {
        let frames = SpoolReader::new([self.bytes.as_slice()]).unwrap();
        let rendering = FileRendering::new(format, FACTS);
        let file = render(&rendering, &self.spooled, &self.columns, frames, out)?;
        Ok(file.rows)
    }
}

/// A file on a disk with room for some bytes.
struct FullDisk {
    file: Cursor<Vec<u8>>,
    room: usize,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.file.get_ref().len() + bytes.len() > self.room {
            return Err(ErrorKind::StorageFull.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Read for FullDisk {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for FullDisk {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

#[test]
fn a_full_disk_is_told_as_such_in_every_format() {
    let spool = Spool::of(&[r#"{"id":1,"name":"Ada"}"#, r#"{"id":2,"name":"Grace"}"#]);

    for format in FileFormat::ALL {
        let mut whole = Cursor::new(Vec::new());
        assert_eq!(spool.render(format, &mut whole).unwrap(), 2);
        let length = whole.get_ref().len();

        for room in [0, 1, length / 2, length - 1] {
            let disk = FullDisk { file: Cursor::new(Vec::new()), room };
            let error = spool.render(format, disk).unwrap_err();
            let TabularError::Io(error) = error else {
                panic!("{} with room for {room} bytes: {error}", format.as_str())
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{} {room}", format.as_str());
        }
        let disk = FullDisk { file: Cursor::new(Vec::new()), room: length };
        assert_eq!(spool.render(format, disk).unwrap(), 2, "{}", format.as_str());
    }
}

#[test]
fn a_damaged_spool_makes_no_file_in_any_format() {
    let mut spool = Spool::of(&[r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#]);
    let inside_second = spool.ends.first().unwrap() + 40;
    *spool.bytes.get_mut(inside_second).unwrap() ^= 1;

    for format in FileFormat::ALL {
        let error = spool.render(format, Cursor::new(Vec::new())).unwrap_err();
        let told = "the spool has 1 of 3 pages and 1 of 3 rows";
        assert_eq!(error.to_string(), told, "{}", format.as_str());
    }
}

#[test]
fn a_row_and_a_resume_point_may_be_as_long_as_their_limits() {
    let row = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let append = |point: usize, bytes: usize| {
        let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());
        let appended = writer.append(&vec![7; point], [row(bytes).as_str()]).map(<[u8]>::len);
        appended.map(|length| (length, writer.finish()))
    };

    let (length, (bytes, spooled)) = append(RESUME_POINT_BYTES_MAX, ROW_BYTES_MAX).unwrap();
    assert_eq!((length, spooled.rows), (bytes.len(), 1));
    let mut reader = SpoolReader::new([bytes.as_slice()]).unwrap();
    let frame = reader.next_frame().unwrap().unwrap();
    assert_eq!(frame.resume_point().len(), RESUME_POINT_BYTES_MAX);
    assert_eq!(frame.rows().next().unwrap().len(), ROW_BYTES_MAX);

    let told = append(0, ROW_BYTES_MAX + 1).unwrap_err().to_string();
    assert_eq!(told, "a row has 1048577 bytes; at most 1048576 are allowed");
    assert!(append(RESUME_POINT_BYTES_MAX + 1, 8).is_err());
}

#[test]
fn a_format_has_one_name_and_no_other() {
    for format in FileFormat::ALL {
        assert_eq!(FileFormat::parse(format.as_str()), Some(format));
    }
    for wrong in ["", "CSV", "json", "xls", "csv ", ".csv"] {
        assert_eq!(FileFormat::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_bundle_keeps_each_of_many_files_whole() {
    let mut bundle = BundleWriter::new();
    let mut taken = Vec::new();
    for number in 0..40 {
        bundle.begin(&format!("folder/{number}.txt")).unwrap();
        for _ in 0..number {
            bundle.text(&number.to_string().repeat(1_000)).unwrap();
        }
        taken.extend(bundle.take());
    }
    taken.extend(bundle.finish().unwrap());

    let mut archive = zip::ZipArchive::new(Cursor::new(taken)).unwrap();
    assert_eq!(archive.len(), 40);
    for number in 0..40_usize {
        let mut text = String::new();
        let mut file = archive.by_name(&format!("folder/{number}.txt")).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, number.to_string().repeat(1_000 * number), "{number}");
    }
}
