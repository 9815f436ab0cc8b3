//! Test files: cases with what is given and what is expected.

use super::fields::shown;
use super::{Gaps, Reader, Table, all, tables};
use crate::document::{Content, Key, Node};
use crate::model::{DatabaseContent, Expectation, FileContent, TestCase, TestFile, TestRows};
use crate::{Diagnostic, Source};
use std::collections::BTreeMap;
use std::path::{Component, Path};
use tidemill_domain::job::BatchStatus;

tables! {
    TEST = "a test file" ["description" "cases"]
        "cases: and a list of cases, each with name, given and expect";
    CASE = "a case" ["name" "description" "now" "parameters" "given" "expect"]
        "- name: all is well, and below it given: and expect:";
    GIVEN = "given" ["files" "sql" "tables" "connections"]
        "given: { files: { in.csv: \"id\\n1\\n\" }, sql: \"create table t (id bigint)\" }";
    DATABASE = "a connection" ["sql" "tables"]
        "shop: { sql: \"create table t (id bigint)\", tables: { t: [{ id: 1 }] } }";
    EXPECT = "expect" ["status" "exit_code" "message" "steps" "tables" "files"]
        "expect: { status: COMPLETED, tables: { t: [{ id: 1 }] } }";
    STEP = "a step" ["status" "exit_code" "read" "written" "filtered" "skipped"]
        "load: { read: 3, written: 2, skipped: 1 }";
    FROM = "a file" ["from"]
        "in.csv: { from: samples/in.csv }, or its text";
}

const STATUSES: [BatchStatus; 3] = [BatchStatus::Completed, BatchStatus::Failed, BatchStatus::Stopped];

type Named<T> = Vec<(String, T)>;

pub(crate) fn test(source: &Source, root: &Node) -> (Option<TestFile>, Vec<Diagnostic>) {
    let mut reader = Reader { source, problems: Vec::new(), steps: 0, gaps: Gaps::default() };
    let cases = reader.table(root, "a test file", TEST).and_then(|fields| {
        let node = reader.required(&fields, "cases")?;
        match &node.content {
            Content::List(cases) if !cases.is_empty() => all(cases.iter().map(|case| reader.case(case))),
            _ => {
                let what = format!("cases is a list, and here is {}", shown(node));
                reader.wrong(node, what, format!("write it as {}", CASE.example));
                None
            }
        }
    });
    let path = source.path().to_owned();
    (cases.map(|cases| TestFile { path, cases, source: source.clone() }), reader.problems)
}

impl Reader<'_> {
    fn case(&mut self, node: &Node) -> Option<TestCase> {
        let fields = self.table(node, "a case", CASE)?;
        let name = self.required_text(&fields, "name");
        let now = fields.get("now").map_or(Some(None), |node| self.instant(node).map(Some));
        let parameters = fields
            .get("parameters")
            .map_or(Some(BTreeMap::new()), |node| self.named_texts(node, "parameters"));
        let given = match fields.get("given") {
            Some(node) => self.table(node, "given", GIVEN),
            None => None,
        };
        let part = |name: &str| given.as_ref().and_then(|given| given.get(name));
        let files = part("files").map_or(Some(Vec::new()), |node| self.files(node));
        let database = self.database(part("sql"), part("tables"));
        let connections = part("connections").map_or(Some(Vec::new()), |node| self.connections(node));
        let expect = fields.get("expect").filter(|node| node.content != Content::Null);
        let expect = expect.map_or(Some(Expectation::default()), |node| self.expectation(node));
        let parameters = parameters?.into_iter().map(|(name, text)| (name, text.value)).collect();
        Some(TestCase {
            name: name?,
            now: now?,
            parameters,
            files: files?,
            database: database?,
            connections: connections?.into_iter().collect(),
            expect: expect?,
        })
    }

    fn instant(&mut self, node: &Node) -> Option<tidemill_domain::time::Timestamp> {
        let text = self.text(node, "now")?;
        let instant = text.value.parse().ok();
        if instant.is_none() {
            self.wrong(node, "now is not an instant", "write it as now: 2026-11-15T02:00:00Z");
        }
        instant
    }

    fn connections(&mut self, node: &Node) -> Option<Named<DatabaseContent>> {
        let example = format!("connections: {{ {} }}", DATABASE.example);
        self.each(node, "connections is a table by name", &example, |reader, key, node| {
            let fields = reader.table(node, &format!("the connection {}", key.name), DATABASE)?;
            reader.database(fields.get("sql"), fields.get("tables"))
        })
    }

    fn database(&mut self, sql: Option<&Node>, tables: Option<&Node>) -> Option<DatabaseContent> {
        let statements = sql.map_or(Some(Vec::new()), |node| self.texts(node, "sql"));
        let tables = tables.map_or(Some(Vec::new()), |node| self.tables_of_rows(node));
        let statements = statements?.into_iter().map(|text| text.value).collect();
        Some(DatabaseContent { statements, tables: tables? })
    }

    fn tables_of_rows(&mut self, node: &Node) -> Option<Named<TestRows>> {
        let example = "tables: { t: [{ id: 1, name: Kim }] }";
        self.each(node, "tables is a table of names and rows", example, |reader, key, node| {
            reader.rows_of(&key.name, node)
        })
    }

    /// A list of tables of columns and values, or a text with lines of CSV.
    fn rows_of(&mut self, table: &str, node: &Node) -> Option<TestRows> {
        let items = match &node.content {
            Content::List(items) => items,
            Content::Scalar(text) => return self.csv_rows(node, text),
            Content::Null | Content::Map(_) => {
                let what =
                    format!("the rows of {table} are a list or lines of CSV, and here is {}", shown(node));
                self.wrong(node, what, format!("write it as {table}: [{{ id: 1, name: Kim }}]"));
                return None;
            }
        };
        let mut columns: Vec<String> = Vec::new();
        let maps =
            all(items.iter().map(|item| self.named(item, "a row is a table of columns", "{ id: 1 }")))?;
        for (key, _) in maps.iter().copied().flatten() {
            if !columns.contains(&key.name) {
                columns.push(key.name.clone());
            }
        }
        let rows = all(maps.into_iter().map(|entries| {
            let cell = |name: &String| match entries.iter().find(|(key, _)| key.name == *name) {
                Some((_, Node { content: Content::Scalar(text), .. })) => Some(Some(text.clone())),
                Some((_, Node { content: Content::Null, .. })) | None => Some(None),
                Some((_, node)) => {
                    self.wrong(
                        node,
                        format!("a value is a text, and here is {}", shown(node)),
                        "put it into quotes",
                    );
                    None
                }
            };
            all(columns.iter().map(cell))
        }))?;
        Some(TestRows { columns, rows })
    }

    /// An empty field is null.
    fn csv_rows(&mut self, node: &Node, text: &str) -> Option<TestRows> {
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        let read = |lines: &mut csv::Reader<&[u8]>| -> csv::Result<TestRows> {
            let columns = lines.headers()?.iter().map(str::to_owned).collect();
            let cell = |field: &str| Some(field.to_owned()).filter(|field| !field.is_empty());
            let rows = lines.records().map(|line| Ok(line?.iter().map(cell).collect()));
            Ok(TestRows { columns, rows: rows.collect::<csv::Result<_>>()? })
        };
        read(&mut lines)
            .map_err(|error| {
                let fix = "begin with a line of column names, and give each line as many values";
                self.wrong(node, format!("these are not lines of CSV: {error}"), fix);
            })
            .ok()
    }

    fn files(&mut self, node: &Node) -> Option<Named<FileContent>> {
        let example = "files: { in.csv: \"id\\n1\\n\" }";
        self.each(node, "files is a table of paths and contents", example, |reader, key, node| {
            let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
            if !Path::new(&key.name).components().all(is_inside) {
                let fix = "write it as in/orders.csv, and use the same path in the job or its parameters";
                reader.wrong_key(key, "the path leads out of the folder of the test", None, fix);
                return None;
            }
            match &node.content {
                Content::Scalar(text) => Some(FileContent::Text(text.clone())),
                Content::Null => Some(FileContent::Text(String::new())),
                _ => {
                    let fields = reader.table(node, &key.name, FROM)?;
                    reader.required_text(&fields, "from").map(|path| FileContent::From(path.value))
                }
            }
        })
    }

    fn expectation(&mut self, node: &Node) -> Option<Expectation> {
        let fields = self.table(node, "expect", EXPECT)?;
        let words = STATUSES.map(|status| (status.as_str(), status));
        let status =
            fields.get("status").map_or(Some(None), |node| self.word(node, "status", &words).map(Some));
        let steps = fields.get("steps").map_or(Some(Vec::new()), |node| {
            self.each(node, "steps is a table by name", STEP.example, |reader, key, node| {
                let fields = reader.table(node, &format!("the step {}", key.name), STEP)?;
                let values = fields.entries.iter();
                all(values.map(|(key, node)| Some((key.name.clone(), reader.text(node, &key.name)?.value))))
            })
        });
        let tables = fields.get("tables").map_or(Some(Vec::new()), |node| self.tables_of_rows(node));
        let files = fields.get("files").map_or(Some(Vec::new()), |node| self.files(node));
        let mut text = |name: &str| self.text_of(&fields, name).map(|text| text.value);
        let (exit_code, message) = (text("exit_code"), text("message"));
        let (status, steps, tables, files) = (status?, steps?, tables?, files?);
        Some(Expectation { status, exit_code, message, steps, tables, files })
    }

    /// The entries of a table with any keys.
    fn each<T>(
        &mut self,
        node: &Node,
        what: &str,
        example: &str,
        mut read: impl FnMut(&mut Self, &Key, &Node) -> Option<T>,
    ) -> Option<Named<T>> {
        let entries = self.named(node, what, example)?;
        all(entries.iter().map(|(key, node)| Some((key.name.clone(), read(self, key, node)?))))
    }
}
