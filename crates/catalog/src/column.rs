//! Columns: what the rows of a dataset hold, with types and units, in the order in which files show
//! them.

/// A column of a dataset: one field of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetColumn {
    /// Its name: the names of the members that lead to the field, with a dot between them. A dot or
    /// a backslash inside a member's name has a backslash before it.
    pub name: String,
    /// What its cells hold. Each of them may be empty as well.
    pub kind: ColumnType,
    /// What its values count, or how they are written.
    pub unit: Option<ColumnUnit>,
}

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Texts.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers, with or without decimals.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Times; the unit says how they are written.
    Time,
    /// Lists, which are JSON text in a cell.
    Json,
}

/// What the values of a column count, or how its times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnUnit {
    /// Thousandths of a US dollar.
    Mills,
    /// Hundredths of a US dollar.
    Cents,
    /// US dollars, with decimals.
    Dollars,
    /// Hundredths of the currency that the row names.
    MinorUnits,
    /// Days.
    Days,
    /// Texts of RFC 3339.
    Rfc3339,
    /// Seconds since 1970, whole or with a fraction.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMillis,
}

/// The most columns that a dataset declares.
pub const COLUMNS_MAX: usize = 200;
/// The longest name of a declared column, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

impl DatasetColumn {
    /// The name of the column of a field, by the names of the members that lead to it.
    pub fn name_of(path: &[String]) -> String {
        let mut name = String::new();
        for (index, member) in path.iter().enumerate() {
            if index > 0 {
                name.push('.');
            }
            for character in member.chars() {
                if matches!(character, '.' | '\\') {
                    name.push('\\');
                }
                name.push(character);
            }
        }
        name
    }
}

impl ColumnType {
    /// Every type.
    pub const ALL: [Self; 6] =
        [Self::Text, Self::Integer, Self::Number, Self::Boolean, Self::Time, Self::Json];

    /// The word of a catalogue file, also on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Time => "time",
            Self::Json => "json",
        }
    }
}

impl ColumnUnit {
    /// Every unit.
    pub const ALL: [Self; 8] = [
        Self::Mills,
        Self::Cents,
        Self::Dollars,
        Self::MinorUnits,
        Self::Days,
        Self::Rfc3339,
        Self::UnixSeconds,
        Self::UnixMillis,
    ];

    /// The word of a catalogue file, also on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mills => "mills",
            Self::Cents => "cents",
            Self::Dollars => "dollars",
            Self::MinorUnits => "minor_units",
            Self::Days => "days",
            Self::Rfc3339 => "rfc3339",
            Self::UnixSeconds => "unix_seconds",
            Self::UnixMillis => "unix_millis",
        }
    }

    /// Whether values of this type can have the unit.
    pub const fn fits(self, kind: ColumnType) -> bool {
        match self {
            Self::Mills | Self::Cents | Self::Dollars | Self::MinorUnits | Self::Days => {
                matches!(kind, ColumnType::Integer | ColumnType::Number)
            }
            Self::Rfc3339 | Self::UnixSeconds | Self::UnixMillis => {
                matches!(kind, ColumnType::Time)
            }
        }
    }
}
