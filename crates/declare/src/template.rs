//! Texts with `${name}`, which is replaced by a value when a step begins. `$${` is the text `${`.
//!
//! In SQL, values are bound and never part of the text.

use crate::diagnostic::BadText;
use crate::model::Names;
use tidemill_domain::item::Value;
use tidemill_store::item::{Database, SqlQuery};

mod sql;

/// Begins the names of an item's columns.
pub const ROW: &str = "row.";

const LENGTH_MAX: usize = 64 * 1024;

#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    parts: Vec<Part>,
    names: Vec<(String, usize)>,
}

#[derive(Clone, PartialEq, Debug)]
enum Part {
    Text(String),
    Name(String),
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("${{{name}}} has no value; there are {known}")]
pub struct NoValue {
    pub name: String,
    pub known: String,
}

impl Template {
    /// ```
    /// # use tidemill_declare::{model::Names, template::Template};
    /// let file = Template::parse("in/${date}.csv").unwrap();
    /// let names = Names::from([("date".to_owned(), "2026-11-15".into())]);
    /// assert_eq!(file.render(&names).unwrap(), "in/2026-11-15.csv");
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadText> {
        if text.len() > LENGTH_MAX {
            return Err(BadText::new(format!("the text is longer than {LENGTH_MAX} bytes"), 0));
        }
        let mut template = Self { parts: Vec::new(), names: Vec::new() };
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let start = at + found;
            literal.push_str(&text[at..start]);
            if text[at..start].ends_with('$') {
                literal.push('{');
                at = start + 2;
                continue;
            }
            let rest = &text[start + 2..];
            let Some(length) = rest.find('}') else {
                return Err(BadText::new("${ has no } after it; write $${ for the text ${ itself", start));
            };
            let name = &rest[..length];
            if !is_name(name) {
                let shown: String = name.chars().take(40).collect();
                let message = format!(
                    "{shown:?} is not a name; between ${{ and }} stand letters, digits, _, - and . only"
                );
                return Err(BadText::new(message, start));
            }
            if !literal.is_empty() {
                template.parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            template.parts.push(Part::Name(name.to_owned()));
            template.names.push((name.to_owned(), start));
            at = start + 2 + length + 1;
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            template.parts.push(Part::Text(literal));
        }
        Ok(template)
    }

    /// Parses SQL: names must be where a value can be bound, so not within quotes or a comment.
    pub fn parse_sql(text: &str) -> Result<Self, BadText> {
        let template = Self::parse(text)?;
        for (name, offset) in &template.names {
            if let Some(place) = sql::inside(text, *offset) {
                return Err(BadText::new(place.refusal(name), *offset));
            }
        }
        Ok(template)
    }

    /// Parses SQL in which `:column` stands for that column of an item, beside `${name}`. It becomes the name
    /// `row.column`.
    pub fn parse_row_sql(text: &str) -> Result<Self, BadText> {
        Self::parse_sql(text)?;
        let mut rewritten = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end) in sql::columns(text) {
            rewritten.push_str(&format!("{}${{{ROW}{}}}", &text[at..start], &text[start + 1..end]));
            at = end;
        }
        rewritten.push_str(&text[at..]);
        Self::parse(&rewritten)
    }

    /// The columns of an item that it uses.
    pub fn row_columns(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|(name, _)| name.strip_prefix(ROW))
    }

    /// The names with their offsets in bytes, in order.
    pub fn names(&self) -> &[(String, usize)] {
        &self.names
    }

    /// The names that the text begins with.
    pub fn first_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map_while(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The folder before the first name and the first wildcard. None if there is none, or it is the root folder.
    pub fn fixed_folder(&self) -> Option<&str> {
        let Some(Part::Text(text)) = self.parts.first() else { return None };
        let fixed = text.split(['*', '?', '[']).next().unwrap_or_default();
        let folder = fixed.rsplit_once('/').map(|(folder, _)| folder);
        folder.filter(|folder| !folder.trim_start_matches('/').is_empty())
    }

    /// The text with the values. A name without a value is an error, because half a path is another path.
    pub fn render(&self, names: &Names) -> Result<String, NoValue> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Name(name) => match value(names, name)? {
                    Value::Null => return Err(no_value(names, name)),
                    value => text.push_str(&value.to_string()),
                },
            }
        }
        Ok(text)
    }

    #[must_use]
    pub fn with_text(&self, name: &str, text: &str) -> Self {
        let filled = |part: &Part| match part {
            Part::Name(found) if found == name => Part::Text(text.to_owned()),
            other => other.clone(),
        };
        let names = self.names.iter().filter(|(found, _)| found != name).cloned().collect();
        Self { parts: self.parts.iter().map(filled).collect(), names }
    }

    /// The text as a query for `database`, with bound values.
    pub fn bind(&self, names: &Names, database: &Database) -> Result<SqlQuery, NoValue> {
        let mut text = String::new();
        let mut values = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Name(name) => {
                    values.push(value(names, name)?.clone());
                    text.push_str(&database.placeholder(values.len()));
                }
            }
        }
        Ok(values.into_iter().fold(SqlQuery::new(text), SqlQuery::bind))
    }
}

fn value<'a>(names: &'a Names, name: &str) -> Result<&'a Value, NoValue> {
    names.get(name).ok_or_else(|| no_value(names, name))
}

fn no_value(names: &Names, name: &str) -> NoValue {
    let given = names.iter().filter(|(_, value)| !value.is_null());
    let known = given.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    NoValue { name: name.to_owned(), known: if known.is_empty() { "none".into() } else { known } }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Names {
        Names::from([("a".to_owned(), "1".into()), ("range.from".to_owned(), 7_i64.into())])
    }

    fn check(text: &str, expected: &str) {
        let template = Template::parse(text).unwrap();
        assert_eq!(template.render(&names()).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn names_become_values() {
        check("", "");
        check("plain $ {a} $a", "plain $ {a} $a");
        check("${a}${range.from}x", "17x");
        check("$${a} ${a}", "${a} 1");
        check("한글 ${a} 글", "한글 1 글");
        check("$$${a}", "$${a}");
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_place() {
        let refused = |text: &str| {
            let error = Template::parse(text).unwrap_err();
            (error.offset, error.message)
        };

        assert_eq!(refused("ab ${a").0, 3);
        assert_eq!(refused("한 ${}").0, 4);
        assert!(refused("${a b}").1.contains("\"a b\" is not a name"));
        assert!(refused("${1}").1.contains("not a name"));
        assert!(refused(&"x".repeat(LENGTH_MAX + 1)).1.contains("longer"));
    }

    #[test]
    fn the_folder_of_the_author_ends_where_a_value_or_a_pattern_begins() {
        let folder = |text: &str| Template::parse(text).unwrap().fixed_folder().map(str::to_owned);

        assert_eq!(folder("/data/in/x-${a}.csv").as_deref(), Some("/data/in"));
        assert_eq!(folder("in/${a}/b.csv").as_deref(), Some("in"));
        assert_eq!(folder("/data/*/in/${a}.csv").as_deref(), Some("/data"));
        assert_eq!(folder("/data/in/a.csv").as_deref(), Some("/data/in"));
        for text in ["${a}/in/b.csv", "x${a}.csv", "/${a}", "//${a}", "", "*/a"] {
            assert_eq!(folder(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_may_begin_with_a_name_or_with_those_behind_it() {
        let first = |text: &str| {
            let template = Template::parse(text).unwrap();
            template.first_names().map(str::to_owned).collect::<Vec<_>>()
        };

        assert_eq!(first("${a}${b}-${c}"), ["a", "b"]);
        assert!(first("--day=${a}").is_empty());
        assert!(first("plain").is_empty());
    }

    #[test]
    fn columns_of_an_item_are_found_where_a_value_can_be_bound() {
        let columns = |text: &str| {
            let template = Template::parse_row_sql(text).unwrap();
            template.row_columns().map(str::to_owned).collect::<Vec<_>>()
        };

        assert_eq!(columns("update t set a = :a, b=:b_2 where id in (:id, ${a})"), ["a", "b_2", "id"]);
        assert_eq!(columns("update t set a = :a::text || ':b' -- :c\n where x[1:2] = y[i:j]"), ["a"]);
        assert_eq!(columns("select \":q\", now()::date, /* :z */ $$ :y $$"), [""; 0]);
    }

    #[test]
    fn a_name_without_value_tells_which_there_are() {
        let error = Template::parse("${b}").unwrap().render(&names()).unwrap_err();

        assert_eq!(error.to_string(), "${b} has no value; there are a, range.from");
        let missing = Names::from([("b".to_owned(), Value::Null)]);
        let error = Template::parse("${b}.csv").unwrap().render(&missing).unwrap_err();
        assert_eq!(error.to_string(), "${b} has no value; there are none");
    }

    #[test]
    fn values_are_bound_and_never_part_of_the_statement() {
        let names = Names::from([("a".to_owned(), "'; drop table t; --".into())]);
        let template = Template::parse_sql("select * from t where x = ${a} and y = ${a}").unwrap();

        let postgres = template.bind(&names, &Database::connect("postgres://h/d").unwrap()).unwrap();
        let sqlite = template.bind(&names, &Database::connect("sqlite:///f.db").unwrap()).unwrap();

        let bound = |text: &str| SqlQuery::new(text).bind("'; drop table t; --").bind("'; drop table t; --");
        assert_eq!(postgres, bound("select * from t where x = $1 and y = $2"));
        assert_eq!(sqlite, bound("select * from t where x = ? and y = ?"));
    }

    #[test]
    fn a_text_of_the_author_becomes_a_part_of_the_statement_and_values_stay_bound() {
        let names = Names::from([("a".to_owned(), "*/ x".into())]);
        let template = Template::parse_sql("select ${hint} * from t where x = ${a}").unwrap();

        let filled = template.with_text("hint", "/*+ PARALLEL(4) */");
        let bound = filled.bind(&names, &Database::connect("postgres://h/d").unwrap()).unwrap();

        assert_eq!(bound, SqlQuery::new("select /*+ PARALLEL(4) */ * from t where x = $1").bind("*/ x"));
        assert_eq!(filled.names().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\$\\{\\}a'한 \\-\\*/\"]{0,40}") {
            if let Ok(template) = Template::parse(&text) {
                let spelt = template.parts.iter().map(|part| match part {
                    Part::Text(literal) => literal.clone(),
                    Part::Name(name) => format!("${{{name}}}"),
                });
                prop_assert_eq!(spelt.collect::<String>(), text.replace("$${", "${"));
            }
            let _ = Template::parse_sql(&text);
        }
    }
}
