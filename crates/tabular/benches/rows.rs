//! The cost of each row of an export: flattening it on its way into the spool, and writing it from
//! there in each format. Rows have fifteen fields and a nested object, in pages of a thousand.
//! `cargo bench -p tabular`.

use std::hint::black_box;
use std::io::Cursor;

use criterion::{BatchSize, Criterion, Throughput};
use tabular::{
    FileColumns, FileFormat, FileRendering, ManifestFacts, RowFlattener, SpoolReader, SpoolWriter,
    SpooledPages, TabularDraft, TabularError,
};

const PAGES: u64 = 20;
const PAGE_ROWS: u64 = 1_000;
const FACTS: ManifestFacts<'_> = ManifestFacts {
    job: "exp_1",
    account: "ada",
    platform: "platform_alpha",
    dataset: "subscribers",
    start_date: None,
    end_date: None,
    tool_version: "1",
};

fn row(id: u64) -> String {
    let price = id % 50;
    format!(
        "{{\"id\":{id},\"username\":\"fan_{id}\",\"name\":\"Fan number {id}\",\"email\":\"fan{id}@example.com\",\
         \"country\":\"DE\",\"city\":\"Köln, am Rhein\",\"age\":{age},\"price\":{price}.99,\"active\":true,\
         \"expired\":false,\"note\":null,\"bio\":\"likes \\\"music\\\" and travel\",\"joined_at\":\"2026-01-01T00:00:00Z\",\
         \"tags\":[\"vip\",\"new\"],\"spent\":{spent},\"subscription\":{{\"plan\":\"monthly\",\"renews\":true,\"price\":{price}.99}}}}",
        age = 18 + id % 60,
        spent = id * 7 % 100_000,
    )
}

fn spool(pages: &[Vec<String>]) -> Result<(Vec<u8>, SpooledPages), TabularError> {
    let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());
    for page in pages {
        writer.append(b"1000", page.iter().map(String::as_str))?;
    }
    Ok(writer.finish())
}

fn rendered(
    format: FileFormat,
    bytes: &[u8],
    spooled: &SpooledPages,
    columns: &FileColumns,
) -> Result<u64, TabularError> {
    let frames = SpoolReader::new([bytes])?;
    let file = Cursor::new(Vec::new());
    Ok(tabular::render(&FileRendering::new(format, FACTS), spooled, columns, frames, file)?.bytes)
}

fn drafted(format: FileFormat, pages: &[String]) -> Result<(), TabularError> {
    let mut draft = TabularDraft::new(format, Cursor::new(Vec::new()), u64::MAX);
    pages.iter().try_for_each(|page| draft.page(page))
}

fn main() -> Result<(), TabularError> {
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let page = |page| (0..PAGE_ROWS).map(|number| row(page * PAGE_ROWS + number)).collect();
    let pages: Vec<Vec<String>> = (0..PAGES).map(page).collect();
    let (bytes, spooled) = spool(&pages)?;
    let mut collecting = RowFlattener::collecting(FileColumns::new());
    pages.iter().flatten().try_for_each(|row| collecting.read(row))?;
    let known = (&spooled, collecting.columns());
    let texts: Vec<String> = pages.iter().map(|rows| rows.join("\n") + "\n").collect();

    let mut group = criterion.benchmark_group("rows");
    group.throughput(Throughput::Elements(PAGES * PAGE_ROWS));
    group.bench_function("flatten", |bencher| {
        bencher.iter_batched_ref(
            || RowFlattener::collecting(FileColumns::new()),
            |flattener| pages.iter().flatten().all(|row| flattener.read(black_box(row)).is_ok()),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("spool", |bencher| bencher.iter(|| spool(black_box(&pages)).is_ok()));
    for format in FileFormat::ALL {
        rendered(format, &bytes, known.0, known.1)?;
        group.bench_function(format.as_str(), |bencher| {
            bencher.iter(|| rendered(format, black_box(&bytes), known.0, known.1).is_ok());
        });
        group.bench_function(format!("{} draft", format.as_str()), |bencher| {
            bencher.iter(|| drafted(format, black_box(&texts)).is_ok());
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
