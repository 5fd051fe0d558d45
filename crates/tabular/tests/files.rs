//! Writes files for other programs to open: `scripts/export-test` names a folder, runs this, and
//! reads the files.

use std::fs::File;
use std::path::PathBuf;

use tabular::{
    FileColumns, FileFormat, FileLayout, FileRendering, ManifestFacts, RowFlattener, SpoolReader,
    SpoolWriter, SpooledPages,
};

const FOLDER: &str = "CREATOR_GATEWAY_TEST_FILES";
const PAGE_ROWS: usize = 500;

const FACTS: ManifestFacts<'_> = ManifestFacts {
    job: "exp_1",
    account: "ada",
    platform: "platform_alpha",
    dataset: "subscribers",
    start_date: Some("2026-01-01"),
    end_date: Some("2026-02-01T00:00:00Z"),
    tool_version: "1.2.3",
};

/// Writes the folder's `rows.jsonl` as `data.csv`, `data.jsonl`, `data.xlsx` and `data.zip` beside
/// it, and as `data-bom.csv`.
#[test]
fn rows_of_a_file_become_files_of_every_format() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let text = std::fs::read_to_string(folder.join("rows.jsonl")).unwrap();
    let rows: Vec<&str> = text.split_terminator('\n').collect();

    let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());
    for page in rows.chunks(PAGE_ROWS) {
        writer.append(b"", page.iter().copied()).unwrap();
    }
    let (bytes, spooled) = writer.finish();
    let mut flattener = RowFlattener::collecting(FileColumns::new());
    for row in &rows {
        flattener.read(row).unwrap();
    }

    let plain = FileFormat::ALL
        .map(|format| (format!("data.{}", format.as_str()), FileLayout::from(format)));
    let marked = FileLayout { format: FileFormat::Csv, csv_bom: true };
    for (name, layout) in plain.into_iter().chain([("data-bom.csv".to_owned(), marked)]) {
        let frames = SpoolReader::new([bytes.as_slice()]).unwrap();
        let path = folder.join(name);
        let out = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        tabular::render(
            &FileRendering::new(layout, FACTS),
            &spooled,
            flattener.columns(),
            frames,
            out,
        )
        .unwrap();
    }
}
