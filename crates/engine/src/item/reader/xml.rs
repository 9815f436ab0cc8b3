//! Reading XML files: elements of one name are the records.

use crate::item::Encoding;
use crate::item::reader::columns::{Columns, Fields};
use crate::item::reader::file::{FileReader, Format};
use crate::item::reader::xml_scan::XmlScanner;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use serde::de::DeserializeOwned;
use tidemill_domain::item::{Row, Value};

/// Most levels of elements within a record.
const LEVELS_MAX: usize = 32;

/// Most values of a record, which is also the limit of PostgreSQL tables.
const VALUES_MAX: usize = 1600;

/// Reads XML files. Each element that is named by [`record`](FileReader::record) is an item, at any depth.
///
/// Attributes and the texts of child elements are the columns, by their names without prefix. What is deeper has a name
/// such as `address.city`. The text of the record itself has the name of the record. A name that is there twice is a parse
/// error. A record has at most 1 MiB and 32 levels. Entities other than those of XML itself are refused, so that no file
/// can refer to others or grow. Broken markup outside of a record ends the step.
///
/// ```
/// use tidemill_engine::item::XmlReader;
///
/// let reader = XmlReader::rows("transactions", "in/statement.xml").record("transaction").columns(["id", "amount"]);
/// ```
pub type XmlReader<T> = FileReader<Xml, T>;

/// The format of XML files.
#[derive(Clone, Default)]
pub struct Xml {
    scanner: XmlScanner,
    /// Whether columns were named. Values of other names are then dropped, and missing ones are null.
    has_columns: bool,
    fields: Fields,
    values: Vec<Named>,
}

/// A column and its value.
type Named = (String, String);

impl<T> XmlReader<T> {
    tidemill_domain::setters! {
        /// The name of the elements that are records.
        pub fn record(self, name: impl Into<String>) { self.format.scanner.record = name.into() }
        /// Reads exactly these columns. By default a record has those that are there.
        pub fn columns(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.format.has_columns = true;
            self.format.fields.columns = Some(Columns::new(names))
        }
    }
}

impl Xml {
    /// Parses a record into its columns; none for those that are missing.
    fn parse(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Vec<Option<&str>>, String> {
        self.values.clear();
        Parser { values: &mut self.values, open: Vec::new(), path: String::new() }
            .parse(&encoding.decode(bytes)?)?;
        let is_same = |columns: &Columns| columns.shared.iter().eq(self.values.iter().map(|(name, _)| name));
        if !self.has_columns && !self.fields.columns.as_ref().is_some_and(is_same) {
            self.fields.columns = Some(Columns::new(self.values.iter().map(|(name, _)| name)));
        }
        let value_of = |column: &String| {
            self.values.iter().find(|(name, _)| name == column).map(|(_, value)| value.as_str())
        };
        let columns = self.fields.columns.iter().flat_map(|columns| columns.shared.iter());
        Ok(columns.map(value_of).collect())
    }
}

impl Format for Xml {
    type Scanner = XmlScanner;

    fn refusal(&self) -> Option<String> {
        if self.scanner.record.is_empty() {
            return Some("the name of the element that is a record is missing".to_owned());
        }
        self.fields.columns.as_ref().filter(|_| self.has_columns)?.refusal()
    }

    fn scanner(&mut self) -> &mut XmlScanner {
        &mut self.scanner
    }

    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        let values = self.parse(bytes, encoding)?.into_iter().map(Option::unwrap_or_default).collect();
        self.fields.record = values;
        self.fields.typed()
    }

    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        let values = self.parse(bytes, encoding)?.into_iter().map(Value::from).collect();
        let columns = self.fields.columns.as_ref().map(|columns| columns.shared.clone());
        Ok(Row::new(columns.unwrap_or_else(|| [].into()), values))
    }
}

struct Parser<'v> {
    values: &'v mut Vec<Named>,
    open: Vec<Element>,
    /// The names of the open elements within the record, with points between them.
    path: String,
}

struct Element {
    /// Length of the path without it.
    outer: usize,
    text: String,
    has_children: bool,
}

impl Parser<'_> {
    fn parse(mut self, record: &str) -> Result<(), String> {
        let mut reader = Reader::from_str(record);
        let mut name = String::new();
        loop {
            match reader.read_event().map_err(|error| error.to_string())? {
                Event::Start(tag) => {
                    if self.open.is_empty() {
                        name = text(tag.local_name().into_inner());
                    }
                    self.enter(&tag)?;
                }
                Event::Empty(tag) => {
                    self.enter(&tag)?;
                    self.leave(&name)?;
                }
                Event::End(_) => self.leave(&name)?,
                Event::Text(text) => self.add(&text.xml10_content().map_err(|error| error.to_string())?),
                Event::CData(text) => self.add(&text.xml10_content().map_err(|error| error.to_string())?),
                Event::GeneralRef(reference) => self.add(&resolved(&reference)?),
                Event::Eof => return Ok(()),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }

    fn enter(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        if self.open.len() == LEVELS_MAX {
            return Err(format!("the record has more than {LEVELS_MAX} levels of elements"));
        }
        let outer = self.path.len();
        if let Some(parent) = self.open.last_mut() {
            parent.has_children = true;
            if outer > 0 {
                self.path.push('.');
            }
            self.path.push_str(&text(tag.local_name().into_inner()));
        }
        self.open.push(Element { outer, text: String::new(), has_children: false });
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let name = text(attribute.key.local_name().into_inner());
            let value =
                attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
            let name = if self.path.is_empty() { name } else { format!("{}.{name}", self.path) };
            self.push(name, value.into_owned())?;
        }
        Ok(())
    }

    fn add(&mut self, text: &str) {
        if let Some(element) = self.open.last_mut() {
            element.text.push_str(text);
        }
    }

    /// `record` is the name of the text that belongs to no child.
    fn leave(&mut self, record: &str) -> Result<(), String> {
        let Some(Element { outer, text, has_children }) = self.open.pop() else { return Ok(()) };
        let is_record = self.open.is_empty();
        let is_blank = text.trim().is_empty();
        match (is_record, has_children) {
            (false, false) => self.push(self.path.clone(), text)?,
            // Blanks between children mean nothing.
            (false, true) if !is_blank => self.push(self.path.clone(), text.trim().to_owned())?,
            (true, _) if !is_blank => self.push(record.to_owned(), text.trim().to_owned())?,
            _ => {}
        }
        self.path.truncate(outer);
        Ok(())
    }

    fn push(&mut self, name: String, value: String) -> Result<(), String> {
        if self.values.len() == VALUES_MAX {
            return Err(format!("the record has more than {VALUES_MAX} values"));
        }
        if self.values.iter().any(|(known, _)| *known == name) {
            return Err(format!(
                "{name:?} is there twice in the record; choose a smaller element as the record"
            ));
        }
        self.values.push((name, value));
        Ok(())
    }
}

/// Characters by their number, and the five entities that XML itself has.
fn resolved(reference: &BytesRef<'_>) -> Result<String, String> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.to_string());
    }
    let name = reference.decode().map_err(|error| error.to_string())?;
    let known = resolve_xml_entity(&name).map(str::to_owned);
    known.ok_or_else(|| format!("the entity &{name}; is not one of XML itself, and others are not read"))
}

/// It was decoded before.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
