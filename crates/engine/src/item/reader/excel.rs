//! Reading the sheets of Excel and OpenDocument files.

use super::columns::Columns;
use super::table::{Found, TableFormat, TableReader};
use crate::item::compression::Unpacked;
use crate::item::{Compression, Source};
use calamine::{Data, ExcelDateTime, Range, Reader, Sheets};
use std::io::{Cursor, Read};
use std::sync::Arc;
use tidemill_domain::item::{Row, Value};

/// Largest file, in bytes: a sheet is loaded as a whole, and takes many times its size in memory.
pub const EXCEL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest content of a file once it is unpacked, in bytes: a small file can unpack to any size.
const UNPACKED_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Most cells of a sheet, empty ones among them.
const CELLS_MAX: u64 = 10_000_000;

/// Beyond this, a floating-point number cannot hold every whole number.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Reads a sheet of `.xlsx`, `.xlsm`, `.xlsb`, `.xls` and `.ods` files, row by row. A file has at most 64 MiB,
/// and 512 MiB when it is unpacked.
/// A file that is packed once more, with gzip or zstd, is recognized by its first bytes.
///
/// The first row that is not empty names the columns, unless [`columns`](TableReader::columns) or
/// [`header_row`](TableReader::header_row) say otherwise. Rows without values are skipped. Whole numbers are long, other
/// numbers double, dates are dates, times are times, and empty cells are null. A cell with an error such as `#DIV/0!` is a
/// parse error.
///
/// ```
/// use tidemill_engine::item::ExcelReader;
///
/// let reader = ExcelReader::rows("payments", "in/payments.xlsx").sheet("November").header_row(3);
/// ```
pub type ExcelReader<T> = TableReader<Excel, T>;

/// The format of spreadsheets.
#[derive(Clone, Default)]
pub struct Excel {
    sheet: Option<String>,
    header_row: Option<u32>,
    columns: Option<Vec<String>>,
}

/// A sheet that was loaded.
pub struct Sheet {
    cells: Range<Data>,
    columns: Columns,
    /// First row of data and first column, within the sheet, from 0.
    first: (u32, u32),
}

impl<T> ExcelReader<T> {
    tidemill_domain::setters! {
        /// The name of the sheet; by default the first one.
        pub fn sheet(self, name: impl Into<String>) { self.format.sheet = Some(name.into()) }
        /// The row with the names of the columns, from 1; by default the first that is not empty.
        pub fn header_row(self, number: u32) { self.format.header_row = Some(number) }
        /// Names the columns. Then there is no header, or it is skipped if [`header_row`](Self::header_row) is given.
        pub fn columns(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.format.columns = Some(names.into_iter().map(Into::into).collect())
        }
    }
}

impl TableFormat for Excel {
    type Table = Sheet;

    fn open(&self, source: Source, from: u64) -> Result<Sheet, String> {
        let cells = self.load(source)?;
        let (top, left) = cells.start().unwrap_or_default();
        let header = match (self.header_row, &self.columns) {
            (Some(0), _) => return Err("rows count from 1, so there is no header row 0".to_owned()),
            (Some(number), _) => Some(number - 1),
            (None, Some(_)) => None,
            (None, None) => Some(top),
        };
        let names = match (&self.columns, header) {
            (Some(names), _) => names.clone(),
            (None, header) => {
                let row = header.unwrap_or(top);
                let right = cells.end().map_or(left, |(_, right)| right);
                let cell =
                    |column| cells.get_value((row, column)).map_or_else(String::new, ToString::to_string);
                let mut names: Vec<String> =
                    (left..=right).map(|column| cell(column).trim().to_owned()).collect();
                while names.last().is_some_and(String::is_empty) {
                    names.pop();
                }
                names
            }
        };
        let first = (header.map_or(top, |row| row + 1), left);
        let rows = cells.end().map_or(0, |(last, _)| u64::from((last + 1).saturating_sub(first.0)));
        if from > rows {
            return Err(format!(
                "it has only {rows} rows, and the last run stopped in a later one; \
                 put back the file as it was and restart the job, or start the job anew"
            ));
        }
        let columns = Columns::new(names);
        if columns.shared.is_empty() {
            return Err("there are no names of columns; set header_row or columns".to_owned());
        }
        match columns.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(Sheet { cells, columns, first }),
        }
    }

    fn row(sheet: &mut Sheet, number: u64) -> Result<Found, String> {
        let row = u32::try_from(number).ok().and_then(|number| sheet.first.0.checked_add(number));
        let Some(row) = row.filter(|row| sheet.cells.end().is_some_and(|(last, _)| *row <= last)) else {
            return Ok(Found::End);
        };
        let values = (sheet.first.1..).take(sheet.columns.shared.len()).map(|column| {
            let cell = sheet.cells.get_value((row, column)).unwrap_or(&Data::Empty);
            value(cell).map_err(|fault| format!("cell {}{}: {fault}", letters(column), row + 1))
        });
        let values = values.collect::<Result<Vec<Value>, String>>()?;
        if values.iter().all(Value::is_null) {
            return Ok(Found::Blank);
        }
        Ok(Found::Row(Row::new(sheet.columns.shared.clone(), values)))
    }

    fn shown(sheet: &Sheet, number: u64) -> u64 {
        u64::from(sheet.first.0) + number + 1
    }

    fn count(sheet: &Sheet) -> Option<u64> {
        let before = sheet.cells.start().map_or(0, |(top, _)| sheet.first.0.saturating_sub(top));
        let columns = sheet.columns.shared.len();
        let is_filled = |row: &&[Data]| row.iter().take(columns).any(|cell| *cell != Data::Empty);
        Some(sheet.cells.rows().skip(before as usize).filter(is_filled).count() as u64)
    }
}

impl Excel {
    fn load(&self, mut source: Source) -> Result<Range<Data>, String> {
        let cannot_read = |error: std::io::Error| format!("it cannot be read: {error}");
        let compression = Compression::of_file(&mut source).map_err(cannot_read)?;
        let mut content = Vec::new();
        let unpacked = Unpacked::new(source, compression).map_err(cannot_read)?;
        unpacked.take(EXCEL_BYTES_MAX + 1).read_to_end(&mut content).map_err(cannot_read)?;
        if content.len() as u64 > EXCEL_BYTES_MAX {
            return Err(format!(
                "it has more than {EXCEL_BYTES_MAX} bytes, the most that a spreadsheet may have; save the sheet as CSV"
            ));
        }
        let bytes: Arc<[u8]> = content.into();
        let unpacked = unpacked_bytes(&bytes);
        if unpacked > UNPACKED_BYTES_MAX {
            return Err(format!(
                "it unpacks to {unpacked} bytes, and the limit is {UNPACKED_BYTES_MAX}; save the sheet as CSV"
            ));
        }
        let mut book = calamine::open_workbook_auto_from_rs(Cursor::new(bytes))
            .map_err(|error| format!("it is not a spreadsheet: {error}"))?;
        let names = book.sheet_names();
        let name = match &self.sheet {
            Some(name) if names.contains(name) => name.clone(),
            Some(name) => return Err(format!("there is no sheet {name:?}; there are {}", names.join(", "))),
            None => names.first().cloned().ok_or("there is no sheet")?,
        };
        let cannot_read =
            |error: &dyn std::fmt::Display| format!("the sheet {name:?} cannot be read: {error}");
        let cells = area(&mut book, &name).map_err(|error| cannot_read(&error))?;
        if cells > CELLS_MAX {
            return Err(format!(
                "the sheet {name:?} reaches over {cells} cells, and the limit is {CELLS_MAX}; clear the cells that lie \
                 apart, or save the sheet as CSV"
            ));
        }
        book.worksheet_range(&name).map_err(|error| cannot_read(&error))
    }
}

/// The cells between the first and the last one with a value: all of them are loaded, also the empty ones. An `.xls` file
/// cannot have too many, and for `.ods` the crate has a limit.
fn area<R: std::io::Read + std::io::Seek>(book: &mut Sheets<R>, name: &str) -> Result<u64, calamine::Error> {
    let mut area = Area::default();
    match book {
        Sheets::Xlsx(book) => {
            let mut cells = book.worksheet_cells_reader(name)?;
            while let Some(cell) = cells.next_cell()? {
                area.add(cell.get_position());
            }
        }
        Sheets::Xlsb(book) => {
            let mut cells = book.worksheet_cells_reader(name)?;
            while let Some(cell) = cells.next_cell()? {
                area.add(cell.get_position());
            }
        }
        Sheets::Xls(_) | Sheets::Ods(_) => {}
    }
    Ok(area.cells())
}

/// The rows and columns that have values, from the first to the last.
#[derive(Default)]
struct Area(Option<[(u32, u32); 2]>);

impl Area {
    fn add(&mut self, (row, column): (u32, u32)) {
        let [rows, columns] = self.0.unwrap_or([(row, row), (column, column)]);
        self.0 = Some([(rows.0.min(row), rows.1.max(row)), (columns.0.min(column), columns.1.max(column))]);
    }

    fn cells(&self) -> u64 {
        let length = |(first, last): (u32, u32)| u64::from(last - first) + 1;
        self.0.map_or(0, |[rows, columns]| length(rows) * length(columns))
    }
}

/// The size of the content, as the file states it; 0 if the file is not packed, as `.xls` is not.
fn unpacked_bytes(bytes: &[u8]) -> u64 {
    let Ok(mut archive) = zip::ZipArchive::new(Cursor::new(bytes)) else { return 0 };
    let sizes = (0..archive.len()).filter_map(|index| Some(archive.by_index_raw(index).ok()?.size()));
    sizes.fold(0, u64::saturating_add)
}

fn value(cell: &Data) -> Result<Value, String> {
    Ok(match cell {
        Data::Empty => Value::Null,
        Data::String(text) => text.as_str().into(),
        Data::Bool(value) => (*value).into(),
        Data::Int(value) => (*value).into(),
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the bounds")]
        Data::Float(value) if value.fract() == 0.0 && value.abs() <= WHOLE_MAX => Value::Long(*value as i64),
        Data::Float(value) => (*value).into(),
        Data::DateTime(value) => moment(value)?,
        Data::DateTimeIso(text) => {
            let read = match text.contains('T') {
                true => text.parse().map(Value::DateTime),
                false => text.parse().map(Value::Date),
            };
            read.unwrap_or_else(|_| text.as_str().into())
        }
        Data::DurationIso(text) => {
            let read = text.parse().map(|duration: jiff::SignedDuration| hours(duration.as_secs()));
            read.unwrap_or_else(|_| text.clone()).into()
        }
        Data::Error(error) => return Err(format!("it has the error {error}")),
    })
}

/// A number that the sheet shows as a day, a time of day, both, or a duration.
fn moment(value: &ExcelDateTime) -> Result<Value, String> {
    let (year, month, day, hour, minute, second, milli) = value.to_ymd_hms_milli();
    let invalid = || format!("{} is not a date", value.as_f64());
    let small = |number: u8| i8::try_from(number).map_err(|_| invalid());
    let nanosecond = i32::from(milli) * 1_000_000;
    let time = jiff::civil::Time::new(small(hour)?, small(minute)?, small(second)?, nanosecond);
    let time = time.map_err(|_| invalid())?;
    if value.is_duration() {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and a sheet has few")]
        let seconds = (value.as_f64() * 86_400.0).round() as i64;
        return Ok(hours(seconds).into());
    }
    if (0.0..1.0).contains(&value.as_f64()) {
        return Ok(time.into());
    }
    let year = i16::try_from(year).map_err(|_| invalid())?;
    let date = jiff::civil::Date::new(year, small(month)?, small(day)?).map_err(|_| invalid())?;
    Ok(if time == jiff::civil::Time::midnight() { date.into() } else { date.to_datetime(time).into() })
}

/// A duration, such as `26:05:00`.
fn hours(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.unsigned_abs();
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// The letters of a column, which is counted from 0.
fn letters(column: u32) -> String {
    let last = char::from(b'A' + u8::try_from(column % 26).unwrap_or(0));
    match column / 26 {
        0 => last.to_string(),
        rest => letters(rest - 1) + &last.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::ExcelDateTimeType;

    #[test]
    fn columns_have_the_letters_of_the_sheet() {
        let found = [0, 25, 26, 701, 702, 16383].map(letters);

        assert_eq!(found, ["A", "Z", "AA", "ZZ", "AAA", "XFD"]);
    }

    #[test]
    fn a_sheet_is_as_large_as_what_lies_between_its_cells() {
        let mut area = Area::default();
        assert_eq!(area.cells(), 0);

        for cell in [(1, 2), (3, 2), (2, 5)] {
            area.add(cell);
        }
        assert_eq!(area.cells(), 3 * 4);
        area.add((1_048_575, 16_383));
        assert!(area.cells() > CELLS_MAX);
    }

    #[test]
    fn durations_are_rounded_as_a_whole() {
        let read = |days| {
            moment(&ExcelDateTime::new(days, ExcelDateTimeType::TimeDelta, false)).unwrap().to_string()
        };

        assert_eq!(read(0.083_333_333_333_333_31), "02:00:00");
        assert_eq!((read(-0.0625), read(1.5)), ("-01:30:00".to_owned(), "36:00:00".to_owned()));
    }
}
