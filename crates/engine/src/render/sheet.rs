//! Tables of renders: read as spreadsheets write or copy them, planned row by row, and ordered all or none.

use super::material::{BadMaterial, Material};
use std::collections::BTreeMap;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::render::document::Problem;
use tidemill_domain::render::sheet::{
    BYTES_MAX, BadSheet, Columns, ROWS_MAX, SheetOrder, SheetProblem, SheetRow, first_problems,
};
use tidemill_domain::render::{AllowList, RenderId};
use tidemill_store::render::{NewRender, PlannedRender};
use tidemill_store::{StoreError, Tx};

/// A table, and what is given beside it.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    pub text: &'a str,
    /// Targets by the names of columns.
    pub map: &'a BTreeMap<String, String>,
    /// For what a row leaves out.
    pub defaults: SheetOrder,
}

#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    #[error(transparent)]
    Sheet(#[from] BadSheet),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SheetError {
    pub fn code(&self) -> Code {
        match self {
            Self::Sheet(bad) => bad.code(),
            Self::Store(error) => error.code(),
        }
    }
}

impl Sheet<'_> {
    /// Plans every row as [`Material`] plans one render. Fails if the table as a whole makes no sense; rows have problems
    /// of their own. Without an allow list, workers check what may be used.
    #[crate::boxed]
    pub async fn plan(
        &self,
        tx: &mut Tx,
        allow: Option<&AllowList>,
    ) -> Result<Vec<PlannedRender>, SheetError> {
        let (columns, rows) = self.read()?;
        Ok(plan_rows(tx, &columns, &rows, &self.defaults, allow).await?)
    }

    fn read(&self) -> Result<(Columns, Vec<SheetRow>), BadSheet> {
        if self.text.len() > BYTES_MAX {
            let why = format!("the table has more than {BYTES_MAX} bytes; split it");
            return Err(BadSheet::one(1, why));
        }
        if let Some((before, _)) = self.text.split_once('\0') {
            return Err(BadSheet::one(1 + before.matches('\n').count(), "the line has a NUL character"));
        }
        if let Some(line) = misquoted(self.text) {
            let why = "a text in quotes does not end, or goes on after them; put it into quotes and double those inside";
            return Err(BadSheet::one(line, why));
        }
        let (mut columns, mut read) = (None, Vec::new());
        for row in rows(self.text) {
            let row = row.map_err(|error| BadSheet::one(1, error.to_string()))?;
            match &columns {
                None => columns = Some(Columns::of(&row, self.map)?),
                Some(_) if row.cells.iter().all(|cell| cell.trim().is_empty()) => {}
                Some(_) if read.len() == ROWS_MAX => {
                    let why = format!("the table has more than {ROWS_MAX} rows; split it");
                    return Err(BadSheet::one(row.line, why));
                }
                Some(_) => read.push(row),
            }
        }
        match columns {
            Some(columns) if !read.is_empty() => Ok((columns, read)),
            _ => Err(BadSheet::one(1, "the table has no rows; write a header, and a row for each render")),
        }
    }
}

/// Plans rows of a table that is read: see [`Sheet::plan`].
#[crate::boxed]
pub async fn plan_rows(
    tx: &mut Tx,
    columns: &Columns,
    rows: &[SheetRow],
    defaults: &SheetOrder,
    allow: Option<&AllowList>,
) -> Result<Vec<PlannedRender>, StoreError> {
    let profiles = tx.renders().profiles().await?;
    let mappings = tx.renders().field_mappings(None).await?;
    let plan = |row: &SheetRow| {
        let order = columns.order(row, defaults)?;
        let Some(composition) = order.composition.as_deref() else {
            let why = "no composition: add a column composition, or give one for all rows";
            return Err(vec![SheetProblem::new(row.line, None, why)]);
        };
        let text = order.data.to_string();
        let material = Material::of_files(&text, Some(composition), &profiles, &mappings)
            .and_then(|material| material.check(allow).map(|()| material))
            .map_err(|bad| problems(row.line, columns, &bad))?;
        let warnings = material.warnings();
        let order = NewRender {
            composition: Some(material.profile.composition),
            data: material.data,
            cue_item: order.cue_item,
            priority: order.priority,
            deadline: order.deadline,
            broadcast_date: order.broadcast_date,
        };
        Ok((order, warnings))
    };
    let planned = |row: &SheetRow| match plan(row) {
        Ok((order, warnings)) => {
            PlannedRender { order: Some(order), warnings, ..PlannedRender::at(row.line) }
        }
        Err(problems) => PlannedRender { problems: first_problems(problems), ..PlannedRender::at(row.line) },
    };
    Ok(rows.iter().map(planned).collect())
}

/// What is wrong with the render of a row, at the column that it is about.
fn problems(line: usize, columns: &Columns, bad: &BadMaterial) -> Vec<SheetProblem> {
    match bad {
        BadMaterial::Document(document) => {
            let column = |problem: &Problem| columns.name_of(problem.field()?);
            let all = document.problems.iter();
            all.map(|problem| SheetProblem::new(line, column(problem), problem.to_string())).collect()
        }
        BadMaterial::UnknownComposition { .. } => {
            vec![SheetProblem::new(line, None, format!("{bad}; {}", bad.fix()))]
        }
        _ => bad.problems().into_iter().map(|why| SheetProblem::new(line, None, why)).collect(),
    }
}

/// Orders all rows as one batch, or none if one has a problem; returns the batch. Needs a transaction.
#[crate::boxed]
pub async fn order(
    tx: &mut Tx,
    rows: &mut [PlannedRender],
    actor: &Actor,
) -> Result<Option<RenderId>, SheetError> {
    let problems: Vec<SheetProblem> = rows.iter().flat_map(|row| row.problems.clone()).collect();
    if !problems.is_empty() {
        return Err(BadSheet { problems }.into());
    }
    Ok(tx.renders().submit_batch(rows, actor).await?)
}

/// The rows of a table: CSV, or cells copied from a spreadsheet. Commas, semicolons or tabs separate them.
pub fn rows(text: &str) -> impl Iterator<Item = Result<SheetRow, csv::Error>> {
    let reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter(text))
        .from_reader(text.as_bytes());
    let mut lines = Lines { text, passed: 0, line: 1 };
    reader.into_records().map(move |row| {
        let row = row?;
        let line = lines.of(row.position());
        Ok(SheetRow { line, cells: row.iter().map(str::to_owned).collect() })
    })
}

/// The line of a text in quotes that does not end, or goes on after them. A reader would take all rows below for a part of
/// the first, and would leave out the quotes of the second.
fn misquoted(text: &str) -> Option<usize> {
    let (separator, mut line) = (delimiter(text), 1);
    let (mut opened, mut is_start) = (None, true);
    let mut bytes = text.trim_start_matches('\u{feff}').bytes().peekable();
    while let Some(byte) = bytes.next() {
        match (opened, byte) {
            (None, b'"') if is_start => opened = Some(line),
            (Some(_), b'"') => match bytes.peek() {
                Some(b'"') => {
                    let _second = bytes.next();
                }
                None | Some(b'\r' | b'\n') => opened = None,
                Some(next) if *next == separator => opened = None,
                Some(_) => return opened,
            },
            _ => {}
        }
        is_start = opened.is_none() && (byte == separator || matches!(byte, b'\r' | b'\n'));
        line += usize::from(byte == b'\n');
    }
    opened
}

/// The delimiter of the header, whose names contain none of these.
fn delimiter(text: &str) -> u8 {
    let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let count = |delimiter: &u8| header.bytes().filter(|byte| byte == delimiter).count();
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}

/// Counts lines up to growing offsets.
struct Lines<'a> {
    text: &'a str,
    passed: usize,
    line: usize,
}

impl Lines<'_> {
    /// The reader reports where it began to look, which may be before empty lines.
    fn of(&mut self, position: Option<&csv::Position>) -> usize {
        let start =
            position.and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(self.passed);
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let start = start + blank;
        let passed = self.text.as_bytes().get(self.passed..start).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.passed = self.passed.max(start);
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<(usize, Vec<String>)> {
        rows(text).map(|row| row.map(|row| (row.line, row.cells)).unwrap()).collect()
    }

    #[test]
    fn cells_that_are_copied_from_a_spreadsheet_are_read_with_their_lines() {
        let text = "name\tnote\r\n\r\nA, B\t\"two\nlines \"\"x\"\"\"\r\nC\t\r\n";

        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            read(text),
            [(1, cells(["name", "note"])), (3, cells(["A, B", "two\nlines \"x\""])), (5, cells(["C", ""])),]
        );
    }

    #[test]
    fn a_table_without_a_row_or_with_too_many_is_refused() {
        let map = BTreeMap::new();
        let refused = |text: &str| {
            let sheet = Sheet { text, map: &map, defaults: SheetOrder::default() };
            sheet.read().unwrap_err().to_string()
        };

        for empty in ["", "\n\n", "priority\n", "priority\n \n\n"] {
            assert_eq!(
                refused(empty),
                "line 1: the table has no rows; write a header, and a row for each render"
            );
        }
        let many = format!("priority\n{}", "1\n".repeat(ROWS_MAX + 1));
        assert_eq!(refused(&many), "line 1002: the table has more than 1000 rows; split it");
        assert!(refused(&"x".repeat(BYTES_MAX + 1)).contains("more than 1000000 bytes"));
        assert_eq!(refused("priority\n1\n\0"), "line 3: the line has a NUL character");
        // The two rows below would be a text of the first, and nobody would miss their renders; a nickname would lose its quotes.
        for (line, bad) in [
            (2, "priority,Flag 1\n1,\"a\n2,b\n3,c\n"),
            (3, "Flag 1\nA\n\"DOLLY\" B\n"),
            (1, "Flag 1\tb\"\t\"c"),
        ] {
            let told = refused(bad);
            assert!(told.starts_with(&format!("line {line}: a text in quotes does not end")), "{told}");
        }
        let sheet = |text| Sheet { text, map: &map, defaults: SheetOrder::default() };
        for closed in
            ["priority,Flag 1\n1,\"a\n2,b\"", "Flag 1\n5\" disc\n", "Flag 1\r\n\"a \"\"b\"\"\"\r\n\r\n"]
        {
            assert_eq!(sheet(closed).read().unwrap().1.len(), 1, "{closed}");
        }
    }

    proptest! {
        /// Whatever a spreadsheet writes is read as it was, with growing lines.
        #[test]
        fn what_is_written_is_read(
            table in vec(vec("[a-z가 \",;\t\n]{0,6}", 3), 1..6),
            delimiter in prop::sample::select(vec![b',', b';', b'\t']),
        ) {
            let mut writer = csv::WriterBuilder::new()
                .delimiter(delimiter)
                .quote_style(csv::QuoteStyle::Always)
                .from_writer(Vec::new());
            let header = ["a", "b", "c"].map(str::to_owned).to_vec();
            let table: Vec<Vec<String>> = std::iter::once(header).chain(table).collect();
            let mut lines = vec![1];
            for row in &table {
                writer.write_record(row).unwrap();
                let breaks: usize = row.iter().map(|cell| cell.matches('\n').count()).sum();
                lines.push(lines.last().unwrap() + 1 + breaks);
            }
            let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();

            let expected: Vec<(usize, Vec<String>)> = lines.into_iter().zip(table).collect();
            prop_assert_eq!(read(&text), expected);
            prop_assert_eq!(misquoted(&text), None);
        }
    }
}
