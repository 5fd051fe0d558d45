//! Files of every format, from the spool of their rows.

use std::io::{Cursor, Read as _};

use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use super::*;
use crate::{DeclaredColumn, OUTPUT_BYTES_MAX, SpoolWriter};

const FACTS: ManifestFacts<'_> = ManifestFacts {
    job: "exp_1",
    account: "ada",
    platform: "platform_alpha",
    dataset: "subscribers",
    start_date: Some("2026-01-01"),
    end_date: None,
    tool_version: "1.2.3",
};

/// A spool with these pages, one segment for each page, and the columns of all rows.
fn spool(pages: &[Vec<String>]) -> (Vec<Vec<u8>>, (SpooledPages, FileColumns)) {
    let mut segments = Vec::new();
    let mut spooled = SpooledPages::default();
    let mut flattener = RowFlattener::collecting(FileColumns::new());
    for page in pages {
        let mut writer = SpoolWriter::new(Vec::new(), spooled);
        writer.append(b"next", page.iter().map(String::as_str)).unwrap();
        let (segment, all) = writer.finish();
        segments.push(segment);
        spooled = all;
        for row in page {
            flattener.read(row).unwrap();
        }
    }
    (segments, (spooled, flattener.into_columns()))
}

fn try_file(format: FileFormat, rows: &[&str]) -> Result<(Vec<u8>, RenderedFile), TabularError> {
    let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    let (segments, spooled) = spool(&[rows]);
    rendered(&FileRendering::new(format, FACTS), &segments, &spooled)
}

fn rendered(
    rendering: &FileRendering<'_>,
    segments: &[Vec<u8>],
    (spooled, columns): &(SpooledPages, FileColumns),
) -> Result<(Vec<u8>, RenderedFile), TabularError> {
    let frames = SpoolReader::new(segments.iter().map(Vec::as_slice)).unwrap();
    let mut file = Cursor::new(Vec::new());
    let rendered = render(rendering, spooled, columns, frames, &mut file)?;
    assert_eq!(rendered.bytes, file.get_ref().len() as u64);
    assert_eq!(rendered.sha256, hex::encode(Sha256::digest(file.get_ref())));
    Ok((file.into_inner(), rendered))
}

fn entry(archive: &[u8], name: &str) -> String {
    let mut archive = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut text = String::new();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn sheet(rows: &[&str]) -> String {
    let (file, _) = try_file(FileFormat::Xlsx, rows).unwrap();
    entry(&file, "xl/worksheets/sheet1.xml")
}

#[test]
fn json_lines_are_the_rows_byte_for_byte() {
    let rows = [r#"{"b":1.10,  "a":"\u0041=\n", "a":2}"#, "{}", r#"{"x":"＝😀"}"#];

    let (file, rendered) = try_file(FileFormat::Jsonl, &rows).unwrap();

    assert_eq!(String::from_utf8(file).unwrap(), rows.map(|row| format!("{row}\n")).concat());
    assert_eq!(rendered.rows, 3);
    assert_eq!(try_file(FileFormat::Jsonl, &[]).unwrap().1.bytes, 0);
}

#[test]
fn an_archive_has_the_rows_and_a_manifest_that_agrees_with_them() {
    let rows = [r#"{"id":7,"user":{"name":"=1"},"tags":[]}"#, r#"{"id":"x","user":{"on":true}}"#];

    let (file, _) = try_file(FileFormat::Zip, &rows).unwrap();

    let data = entry(&file, "data.csv");
    assert_eq!(data.as_bytes(), try_file(FileFormat::Csv, &rows).unwrap().0);
    let manifest: Value = serde_json::from_str(&entry(&file, "manifest.json")).unwrap();
    let column =
        |name: &str, kind: &str| json!({"name": name, "type": kind, "unit": null, "values": kind});
    assert_eq!(
        manifest,
        json!({
            "job": "exp_1", "account": "ada", "platform": "platform_alpha", "dataset": "subscribers",
            "window": {"start_date": "2026-01-01", "end_date": null},
            "rows": 2, "pages": 1, "bytes": data.len(), "sha256": hex::encode(Sha256::digest(&data)),
            "columns": [column("id", "mixed"), column("user.name", "text"), column("tags", "json"),
                column("user.on", "boolean")],
            "tool_version": "1.2.3",
        })
    );
    let names = ZipArchive::new(Cursor::new(file)).unwrap();
    let names: Vec<_> = names.file_names().map(Result::unwrap).collect();
    assert_eq!(names, ["data.csv", "manifest.json"]);
}

fn declared(name: &str, kind: &'static str, unit: Option<&'static str>) -> DeclaredColumn {
    DeclaredColumn { name: name.to_owned(), kind: Some(kind), unit }
}

/// Columns for an id, a price and tags.
fn three() -> FileColumns {
    let price = declared("price", "integer", Some("cents"));
    let all = [declared("=id", "text", None), price, declared("tags", "json", None)];
    FileColumns::declared(all).unwrap()
}

/// The file of rows after these columns.
fn file_of(format: FileFormat, columns: FileColumns, rows: &[&str]) -> Vec<u8> {
    let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());
    writer.append(b"", rows.iter().copied()).unwrap();
    let (segment, spooled) = writer.finish();
    let mut flattener = RowFlattener::collecting(columns);
    rows.iter().try_for_each(|row| flattener.read(row)).unwrap();
    let known = (spooled, flattener.into_columns());
    rendered(&FileRendering::new(format, FACTS), &[segment], &known).unwrap().0
}

fn manifest_columns(archive: &[u8]) -> Value {
    let manifest: Value = serde_json::from_str(&entry(archive, "manifest.json")).unwrap();
    manifest["columns"].clone()
}

#[test]
fn a_file_without_rows_names_the_declared_columns() {
    let csv = file_of(FileFormat::Csv, three(), &[]);
    let workbook = file_of(FileFormat::Xlsx, three(), &[]);
    let archive = file_of(FileFormat::Zip, three(), &[]);
    let lines = file_of(FileFormat::Jsonl, three(), &[]);

    assert_eq!(String::from_utf8(csv).unwrap(), "'=id,price,tags\r\n");
    assert_eq!(entry(&archive, "data.csv"), "'=id,price,tags\r\n");
    assert_eq!(
        manifest_columns(&archive)[1],
        json!({"name": "price", "type": "integer", "unit": "cents", "values": "empty"})
    );
    let sheet = entry(&workbook, "xl/worksheets/sheet1.xml");
    for name in ["A1\" s=\"1\" t=\"inlineStr\"><is><t>=id<", "<t>price<", "<t>tags<"] {
        assert!(sheet.contains(name), "{sheet}");
    }
    assert!(sheet.contains("<autoFilter ref=\"A1:C1\"/>"), "{sheet}");
    assert_eq!(lines, b"");
}

#[test]
fn declared_columns_come_first_and_extra_ones_follow() {
    let rows = [r#"{"more":true,"tags":[1],"=id":"a"}"#, r#"{"price":1.5,"more":null}"#];

    let csv = file_of(FileFormat::Csv, three(), &rows);
    let workbook = file_of(FileFormat::Xlsx, three(), &rows);
    let archive = file_of(FileFormat::Zip, three(), &rows);
    let lines = file_of(FileFormat::Jsonl, three(), &rows);

    let table = "'=id,price,tags,more\r\na,,[1],true\r\n,1.5,,\r\n";
    assert_eq!(String::from_utf8(csv).unwrap(), table);
    let sheet = entry(&workbook, "xl/worksheets/sheet1.xml");
    let second = "<row r=\"2\"><c r=\"A2\" t=\"inlineStr\"><is><t>a</t></is></c>\
                      <c r=\"C2\" t=\"inlineStr\"><is><t>[1]</t></is></c><c r=\"D2\" t=\"b\"><v>1</v></c></row>";
    assert!(sheet.contains(second), "{sheet}");
    assert_eq!(String::from_utf8(lines).unwrap(), format!("{}\n{}\n", rows[0], rows[1]));
    assert_eq!(
        manifest_columns(&archive),
        json!([
            {"name": "=id", "type": "text", "unit": null, "values": "text"},
            {"name": "price", "type": "integer", "unit": "cents", "values": "number"},
            {"name": "tags", "type": "json", "unit": null, "values": "json"},
            {"name": "more", "type": "boolean", "unit": null, "values": "boolean"},
        ])
    );
}

#[test]
fn a_file_has_only_the_chosen_columns() {
    let rows = [r#"{"a":{"b":"=\u0041"},"x":1,"l":[1, 2]}"#, r#"{"a":null,"l":1.10}"#, "{}"];
    let unknown = DeclaredColumn { name: "a.b".to_owned(), kind: None, unit: None };
    let list = declared("l", "json", None);
    let columns = || FileColumns::chosen([list.clone(), unknown.clone()]).unwrap();

    let csv = file_of(FileFormat::Csv, columns(), &rows);
    let workbook = file_of(FileFormat::Xlsx, columns(), &rows);
    let archive = file_of(FileFormat::Zip, columns(), &rows);
    let lines = file_of(FileFormat::Jsonl, columns(), &rows);

    let table = "l,a.b\r\n\"[1, 2]\",'=A\r\n1.10,\r\n,\r\n";
    assert_eq!(String::from_utf8(csv).unwrap(), table);
    assert_eq!(entry(&archive, "data.csv"), table);
    let sheet = entry(&workbook, "xl/worksheets/sheet1.xml");
    assert!(sheet.contains("<autoFilter ref=\"A1:B4\"/>"), "{sheet}");
    assert!(!sheet.contains("r=\"C"), "{sheet}");
    let objects =
        [r#"{"l":[1, 2],"a.b":"=\u0041"}"#, r#"{"l":1.10,"a.b":null}"#, r#"{"l":null,"a.b":null}"#];
    let objects = objects.map(|object| format!("{object}\n"));
    assert_eq!(String::from_utf8(lines).unwrap(), objects.concat());
    assert_eq!(
        manifest_columns(&archive),
        json!([
            {"name": "l", "type": "json", "unit": null, "values": "mixed"},
            {"name": "a.b", "type": "text", "unit": null, "values": "text"},
        ])
    );
}

#[test]
fn the_cells_of_a_workbook_are_texts_and_never_formulas() {
    let sheet = sheet(&[
        r#"{"a":"=HYPERLINK(\"http://x\")","b":"+1","c":"-1+1","d":"@SUM(A1)","e":"\t=1","f":"＝1","=g":"\u0000=1"}"#,
    ]);

    assert!(!sheet.contains("<f"), "{sheet}");
    assert!(!sheet.contains("hyperlink"), "{sheet}");
    assert_eq!(sheet.matches("t=\"inlineStr\"").count(), sheet.matches("<c ").count());
    assert!(
        sheet.contains("<c r=\"G1\" s=\"1\" t=\"inlineStr\"><is><t>=g</t></is></c>"),
        "{sheet}"
    );
    assert!(sheet.contains("<is><t>=HYPERLINK(\"http://x\")</t></is>"), "{sheet}");
    assert!(sheet.contains("<t xml:space=\"preserve\">\t=1</t>"), "{sheet}");
    assert!(sheet.contains("<t>\u{fffd}=1</t>"), "{sheet}");
}

#[test]
fn a_workbook_keeps_each_value() {
    let sheet = sheet(&[
        r#"{"a":1.10,"b":true,"c":123456789012345,"d":1234567890123456,"e":0.30000000000000004,"f":1e999,"g":null}"#,
        r#"{"a":"<&>\r_x0041_ ","b":[1,"<"],"c":"\uffff\uFFFE_x00_","g":"x"}"#,
    ]);

    let rows: Vec<&str> = sheet.split("<row ").skip(2).collect();
    assert_eq!(
        rows[0],
        "r=\"2\"><c r=\"A2\"><v>1.10</v></c><c r=\"B2\" t=\"b\"><v>1</v></c>\
             <c r=\"C2\"><v>123456789012345</v></c>\
             <c r=\"D2\" t=\"inlineStr\"><is><t>1234567890123456</t></is></c>\
             <c r=\"E2\"><v>0.30000000000000004</v></c>\
             <c r=\"F2\" t=\"inlineStr\"><is><t>1e999</t></is></c></row>"
    );
    assert_eq!(
        rows[1],
        "r=\"3\"><c r=\"A3\" t=\"inlineStr\"><is><t xml:space=\"preserve\">&lt;&amp;&gt;&#13;_x005F_x0041_ </t></is></c>\
             <c r=\"B3\" t=\"inlineStr\"><is><t>[1,\"&lt;\"]</t></is></c>\
             <c r=\"C3\" t=\"inlineStr\"><is><t>\u{fffd}\u{fffd}_x00_</t></is></c>\
             <c r=\"G3\" t=\"inlineStr\"><is><t>x</t></is></c></row></sheetData>\
             <autoFilter ref=\"A1:G3\"/></worksheet>"
    );
}

#[test]
fn only_exact_times_become_dates_of_the_sheet() {
    let sheet = sheet(&[
        r#"{"2026-01-01T00:00:00Z":"2026-01-01T12:00:00+06:00","b":"2026-01-01","c":["2026-01-01T00:00:00Z"],"d":false}"#,
    ]);

    let rows: Vec<&str> = sheet.split("<row ").skip(1).collect();
    assert!(rows[0].contains("<is><t>2026-01-01T00:00:00Z</t></is>"), "{sheet}");
    assert!(
        rows[1].starts_with(
            "r=\"2\"><c r=\"A2\" s=\"2\"><v>46023.25</v></c>\
                 <c r=\"B2\" t=\"inlineStr\"><is><t>2026-01-01</t></is></c>\
                 <c r=\"C2\" t=\"inlineStr\"><is><t>[\"2026-01-01T00:00:00Z\"]</t></is></c>\
                 <c r=\"D2\" t=\"b\"><v>0</v></c></row>"
        ),
        "{sheet}"
    );
}

#[test]
fn the_header_row_of_a_sheet_is_bold_frozen_and_filterable() {
    let (file, _) = try_file(FileFormat::Xlsx, &[r#"{"a":1,"b":2}"#, "{}"]).unwrap();
    let (bare, _) = try_file(FileFormat::Xlsx, &[]).unwrap();

    let sheet = entry(&file, "xl/worksheets/sheet1.xml");
    assert!(sheet.contains("<pane ySplit=\"1\" topLeftCell=\"A2\""), "{sheet}");
    assert!(sheet.contains("state=\"frozen\"/>"), "{sheet}");
    assert!(sheet.contains("<autoFilter ref=\"A1:B3\"/>"), "{sheet}");
    let names = sheet.split("<row ").nth(1).unwrap();
    assert_eq!((names.matches("<c ").count(), names.matches(" s=\"1\"").count()), (2, 2));
    assert!(entry(&file, "xl/workbook.xml").contains("data!$A$1:$B$3"));
    assert!(entry(&file, "xl/styles.xml").contains("<b/>"));
    // Without columns there is nothing to filter.
    assert!(!entry(&bare, "xl/worksheets/sheet1.xml").contains("autoFilter"));
    assert!(!entry(&bare, "xl/workbook.xml").contains("definedName"));
}

#[test]
fn a_text_too_long_for_a_cell_is_an_error_in_workbooks_only() {
    let row = |length: usize| format!("{{\"id\":1,\"a\":\"{}\"}}", "é".repeat(length));
    let rows = [row(32_767), row(32_768)];

    assert!(try_file(FileFormat::Xlsx, &[&rows[0]]).is_ok());
    let refused = try_file(FileFormat::Xlsx, &[&rows[0], &rows[1]]).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "row 2 has a text of 32768 characters in the column \"a\"; a cell of a workbook holds 32767"
    );
    assert!(try_file(FileFormat::Csv, &[&rows[1]]).is_ok());
}

#[test]
fn the_same_rows_produce_the_same_bytes_whatever_their_pages() {
    let row = |id: usize| {
        format!(
            "{{\"id\":{id},\"name\":\"n{}\",\"user\":{{\"f{}\":\"{}\"}}}}",
            id * 7,
            id % 5,
            "x".repeat(id % 90)
        )
    };
    let rows: Vec<String> = (0..3_000).map(row).collect();
    let pages: Vec<Vec<String>> = rows.chunks(500).map(<[String]>::to_vec).collect();
    let (in_segments, spooled) = spool(&pages);
    let in_one = [in_segments.concat()];

    for format in FileFormat::ALL {
        let rendering = FileRendering::new(format, FACTS);

        let (first, _) = rendered(&rendering, &in_segments, &spooled).unwrap();
        let (second, _) = rendered(&rendering, &in_one, &spooled).unwrap();

        assert!(first == second, "{format:?}");
    }
}

#[test]
fn missing_pages_are_an_error() {
    let pages = [vec![r#"{"a":1}"#.to_owned()], vec![r#"{"a":2}"#.to_owned()]];
    let (mut segments, spooled) = spool(&pages);
    segments[1].pop();

    for format in FileFormat::ALL {
        let refused = rendered(&FileRendering::new(format, FACTS), &segments, &spooled);

        assert!(
            matches!(
                refused,
                Err(TabularError::Incomplete {
                    pages: 1,
                    rows: 1,
                    pages_wanted: 2,
                    rows_wanted: 2
                })
            ),
            "{format:?}: {refused:?}"
        );
    }
}

#[test]
fn a_file_beyond_the_limit_is_an_error_in_every_format() {
    let rows: Vec<String> = (0..2_000).map(|id| format!("{{\"id\":\"{}\"}}", id * 7919)).collect();
    let (segments, spooled) = spool(&[rows]);

    for format in FileFormat::ALL {
        let rendering = FileRendering { bytes_max: 4_000, ..FileRendering::new(format, FACTS) };
        let refused = rendered(&rendering, &segments, &spooled);
        assert!(
            matches!(refused, Err(TabularError::TooLarge { bytes_max: 4_000 })),
            "{format:?}: {refused:?}"
        );

        let rendering = FileRendering { bytes_max: OUTPUT_BYTES_MAX, ..rendering };
        assert!(rendered(&rendering, &segments, &spooled).is_ok());
    }
}

#[test]
fn a_stopped_file_is_abandoned() {
    let (segments, spooled) = spool(&[vec!["{}".to_owned()]]);
    let rendering =
        FileRendering { is_stopped: &|| true, ..FileRendering::new(FileFormat::Csv, FACTS) };

    assert!(matches!(rendered(&rendering, &segments, &spooled), Err(TabularError::Stopped)));
}

#[test]
fn column_letters_continue_after_z() {
    let fields: Vec<String> =
        (0..crate::COLUMNS_MAX).map(|field| format!("\"f{field}\":1")).collect();

    let sheet = sheet(&[&format!("{{{}}}", fields.join(","))]);

    for place in ["A2", "Z2", "AA2", "AZ2", "BB2", "SR2"] {
        assert!(sheet.contains(&format!("<c r=\"{place}\">")), "{place}");
    }
    assert!(!sheet.contains("SS2"));
}

proptest! {
    #[test]
    fn every_row_survives_a_round_trip_through_json_lines(
        rows in proptest::collection::vec(("[a\\n\\r\"]{0,4}", "\\PC{0,8}|[\\x00-\\x20]{0,4}"), 0..6)
    ) {
        let values: Vec<Value> = rows.iter().map(|(name, text)| json!({ name.as_str(): text })).collect();
        let pretty: Vec<String> =
            values.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
        let pretty: Vec<&str> = pretty.iter().map(String::as_str).collect();

        let (file, _) = try_file(FileFormat::Jsonl, &pretty).unwrap();

        let text = String::from_utf8(file).unwrap();
        let read: Vec<Value> = text.split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(read, values);
    }

    #[test]
    fn every_text_makes_a_well_formed_sheet(text in "[\\x00-\\x20=<>&_x0A'\"\u{ffff}é]{0,12}") {
        let sheet = sheet(&[&json!({"a": text}).to_string()]);

        let cell = sheet.split("<row r=\"2\">").nth(1).unwrap();
        let inside = cell.split_once("</t>").map_or("", |(before, _)| before).rsplit_once("<t").map_or("", |(_, after)| after);
        let inside = inside.split_once('>').map_or("", |(_, inner)| inner);
        let has_forbidden = inside.contains(['<', '>', '\r', '\u{ffff}']);
        prop_assert!(!has_forbidden);
        prop_assert!(inside.chars().all(|c| c >= ' ' || matches!(c, '\t' | '\n')));
        prop_assert!(inside.split('&').skip(1).all(|part| ["amp;", "lt;", "gt;", "#13;"].iter().any(|e| part.starts_with(e))));
    }
}
