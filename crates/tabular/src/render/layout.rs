//! The formats of files, and what can be chosen about them.

use crate::FileColumns;

/// The format of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// [`crate::csv`].
    Csv,
    /// [`crate::jsonl`].
    Jsonl,
    /// [`crate::xlsx`].
    Xlsx,
    /// [`crate::archive`].
    Zip,
}

/// The format of the file and its options. A [`FileFormat`] alone is a layout without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLayout {
    /// What kind of file.
    pub format: FileFormat,
    /// Whether [`FileFormat::Csv`] starts with a byte order mark. Other formats have none.
    pub csv_bom: bool,
}

impl FileFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Csv, Self::Jsonl, Self::Xlsx, Self::Zip];

    /// Its name, which is also the extension of its files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Xlsx => "xlsx",
            Self::Zip => "zip",
        }
    }

    /// The format with that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// The media type of its files.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Jsonl => "application/x-ndjson",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Zip => "application/zip",
        }
    }
}

impl From<FileFormat> for FileLayout {
    fn from(format: FileFormat) -> Self {
        Self { format, csv_bom: false }
    }
}

impl FileLayout {
    /// Whether rows are written unchanged: in JSON lines, unless columns are chosen.
    pub(crate) fn keeps_rows(self, columns: &FileColumns) -> bool {
        self.format == FileFormat::Jsonl && !columns.is_closed()
    }
}
