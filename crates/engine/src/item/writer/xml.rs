//! Writing XML files: an element for each item.

use super::as_row::{AsRow, row_itself, row_of};
use super::file::{Beginning, FileWriter, Layout};
use crate::item::Encoding;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row};

/// Writes XML files: one root element, and in it an element for each item, with a child element for each column.
///
/// Null is left out. Columns that are [`attributes`](FileWriter::attributes) are attributes of the record.
///
/// ```
/// use tidemill_engine::item::XmlWriter;
///
/// let writer = XmlWriter::rows("out", "out/statement.xml").root("statement").record("transaction").attributes(["id"]);
/// ```
pub type XmlWriter<T> = FileWriter<XmlElements<T>>;

/// Items as XML elements.
pub struct XmlElements<T> {
    root: String,
    record: String,
    attributes: Vec<String>,
    encoding: Encoding,
    /// The end tag of the root.
    end: String,
    /// Columns whose names were checked.
    checked: Option<Arc<[String]>>,
    as_row: AsRow<T>,
}

impl<T> Clone for XmlElements<T> {
    fn clone(&self) -> Self {
        Self {
            root: self.root.clone(),
            record: self.record.clone(),
            attributes: self.attributes.clone(),
            encoding: self.encoding,
            end: self.end.clone(),
            checked: None,
            as_row: self.as_row,
        }
    }
}

impl<T: Serialize + Send + Sync + 'static> XmlWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, XmlElements::new(row_of))
    }
}

impl XmlWriter<Row> {
    /// Writes a file of rows.
    pub fn rows(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, XmlElements::new(row_itself))
    }
}

impl<T: Send + Sync + 'static> XmlWriter<T> {
    tidemill_domain::setters! {
        /// The name of the root element; `records` by default.
        pub fn root(self, name: impl Into<String>) {
            self.layout.root = name.into();
            self.layout.end = format!("</{}>\n", self.layout.root)
        }
        /// The name of the element of an item; `record` by default.
        pub fn record(self, name: impl Into<String>) { self.layout.record = name.into() }
        /// Columns that are attributes.
        pub fn attributes(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.layout.attributes = names.into_iter().map(Into::into).collect()
        }
    }
}

/// Whether an element can have this name.
///
/// ```
/// # use tidemill_engine::item::writer::xml::is_xml_name;
/// assert!(is_xml_name("account.no") && is_xml_name("계좌"));
/// assert!(!is_xml_name("unit price") && !is_xml_name("2nd") && !is_xml_name("m²") && !is_xml_name(""));
/// ```
pub fn is_xml_name(name: &str) -> bool {
    // The characters of XML 1.0, without the colon.
    let is_first = |c: char| {
        c.is_ascii_alphabetic()
            || matches!(c, '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
                | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}'
                | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}'
                | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
    };
    let is_later = |c: char| {
        is_first(c)
            || c.is_ascii_digit()
            || matches!(c, '-' | '.' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
    };
    name.starts_with(is_first) && name.chars().all(is_later)
}

impl<T> XmlElements<T> {
    fn new(as_row: AsRow<T>) -> Self {
        Self {
            root: "records".to_owned(),
            record: "record".to_owned(),
            attributes: Vec::new(),
            encoding: Encoding::default(),
            end: "</records>\n".to_owned(),
            checked: None,
            as_row,
        }
    }

    fn check_columns(&mut self, row: &Row) -> Result<(), ItemError> {
        if !self.checked.as_ref().is_some_and(|checked| Arc::ptr_eq(checked, row.columns())) {
            check_names(row.columns().iter())?;
            self.checked = Some(row.columns().clone());
        }
        Ok(())
    }

    fn element(&self, row: &Row) -> Result<String, String> {
        let mut element = format!("  <{}", self.record);
        for name in &self.attributes {
            let value = row.value(name).map_err(|error| error.to_string())?;
            if !value.is_null() {
                let _infallible = write!(element, " {name}=\"{}\"", escaped(name, &value.to_string())?);
            }
        }
        let mut has_children = false;
        for (name, value) in row.columns().iter().zip(row.values()) {
            if value.is_null() || self.attributes.contains(name) {
                continue;
            }
            element.push_str(if has_children { "" } else { ">" });
            has_children = true;
            let _infallible = write!(element, "<{name}>{}</{name}>", escaped(name, &value.to_string())?);
        }
        match has_children {
            true => _ = write!(element, "</{}>", self.record),
            false => element.push_str("/>"),
        }
        element.push('\n');
        Ok(element)
    }
}

fn check_names<'n>(names: impl IntoIterator<Item = &'n String>) -> Result<(), ItemError> {
    let Some(name) = names.into_iter().find(|name| !is_xml_name(name)) else { return Ok(()) };
    let what = format!("{name:?} cannot be the name of an XML element; choose letters, digits, - _ and .");
    Err(ItemError::fatal(what))
}

/// Line ends in attributes, and carriage returns everywhere, are only kept when they are escaped.
fn escaped(column: &str, text: &str) -> Result<String, String> {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => _ = write!(escaped, "&#{};", u32::from(character)),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                let code = u32::from(character);
                return Err(format!(
                    "column {column:?} has the character U+{code:04X}, which XML cannot contain"
                ));
            }
            other => escaped.push(other),
        }
    }
    Ok(escaped)
}

impl<T: Send + Sync + 'static> Layout for XmlElements<T> {
    type Item = T;

    fn add(&mut self, items: &[T], beginning: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        if beginning == Beginning::OfFile {
            check_names([&self.root, &self.record])?;
            let start = format!("<?xml version=\"1.0\" encoding=\"{}\"?>\n<{}>\n", self.encoding, self.root);
            text.extend_from_slice(start.as_bytes());
        }
        for item in items {
            let row = (self.as_row)(item)?;
            self.check_columns(&row)?;
            let element = self.element(&row).map_err(|fault| ItemError::new(ErrorKind::WRITE, fault))?;
            text.extend_from_slice(element.as_bytes());
        }
        Ok(())
    }

    fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    fn end(&self) -> &str {
        &self.end
    }
}
