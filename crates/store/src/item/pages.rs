//! The texts of paged queries, built from the author's query and quoted names.
//!
//! The author's query is on its own lines, so that a comment at its end does not swallow the rest.

use crate::item::database::Flavour;
use crate::item::identifier::{quoted, quoted_list};
use crate::item::mysql;
use crate::item::query::SqlQuery;
use tidemill_domain::item::{ItemError, Value};

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
}

/// Where rows with a null in a key are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NullKeys {
    /// There are none, or they come first.
    Never,
    /// Pages return them. No index could serve such a page, but there is none for these keys anyway.
    Returned,
    /// No page after the first returns them.
    Hidden,
}

/// The first rows in the order of `keys`, or those after the keys `after`.
pub(crate) fn keyset(
    query: &SqlQuery,
    flavour: Flavour,
    (keys, nulls): (&[String], NullKeys),
    after: Option<&[Value]>,
    rows: usize,
) -> Result<Page, ItemError> {
    let order = quoted_list(keys, flavour.quote())?;
    let mut values = query.values().to_vec();
    let behind = match after {
        None => String::new(),
        Some(after) => match flavour {
            Flavour::Postgres | Flavour::Sqlite => {
                let comparison = row_comparison(&order, flavour, after, &mut values);
                match nulls {
                    NullKeys::Returned => format!("\nwhere ({comparison}) is not false"),
                    NullKeys::Never | NullKeys::Hidden => format!("\nwhere {comparison}"),
                }
            }
            Flavour::MySql => stepwise_comparison(keys, after, &mut values)?,
        },
    };
    values.push(Value::Long(limit(rows)));
    let place = place(flavour, values.len());
    let text =
        format!("select *\nfrom (\n{}\n) as page{behind}\norder by {order}\nlimit {place}", query.text());
    Ok(Page { text, values })
}

/// Finds rows without a key, which no page would return.
pub(crate) fn keyless(query: &SqlQuery, flavour: Flavour, keys: &[String]) -> Result<String, ItemError> {
    let conditions: Vec<String> = keys
        .iter()
        .map(|key| quoted(key, flavour.quote()).map(|key| format!("{key} is null")))
        .collect::<Result<_, _>>()?;
    Ok(format!(
        "select count(*)\nfrom (\nselect 1\nfrom (\n{}\n) as page\nwhere {}\nlimit 1\n) as keyless",
        query.text(),
        conditions.join(" or ")
    ))
}

/// The rows from `offset` on, in the order of the query.
pub(crate) fn offset(query: &SqlQuery, flavour: Flavour, offset: u64, rows: usize) -> Page {
    let mut values = query.values().to_vec();
    values.push(Value::Long(limit(rows)));
    let limit = place(flavour, values.len());
    values.push(Value::Long(i64::try_from(offset).unwrap_or(i64::MAX)));
    let offset = place(flavour, values.len());
    // No sub-query: its order would not have to survive.
    Page { text: format!("{}\nlimit {limit} offset {offset}", query.text()), values }
}

/// Compares whole rows, which PostgreSQL and SQLite can do by an index.
fn row_comparison(keys: &str, flavour: Flavour, after: &[Value], values: &mut Vec<Value>) -> String {
    let mut places = Vec::with_capacity(after.len());
    for value in after {
        values.push(value.clone());
        places.push(place(flavour, values.len()));
    }
    format!("({keys}) > ({})", places.join(", "))
}

/// `a >= ? and (a > ? or (a = ? and b > ?))`: MySQL uses no index for row comparisons, so the first condition gives it
/// a range.
fn stepwise_comparison(
    keys: &[String],
    after: &[Value],
    values: &mut Vec<Value>,
) -> Result<String, ItemError> {
    let quote = Flavour::MySql.quote();
    let terms: Vec<(String, &Value)> = keys
        .iter()
        .zip(after)
        .map(|(key, value)| Ok((quoted(key, quote)?, value)))
        .collect::<Result<_, ItemError>>()?;
    let mut bound = |(key, value): &(String, &Value), sign: &str| {
        values.push((*value).clone());
        format!("{key} {sign} {}", mysql::place_of(value))
    };
    let Some(first) = terms.first() else { return Ok(String::new()) };
    let start = bound(first, ">=");
    let mut steps = Vec::with_capacity(terms.len());
    for (index, term) in terms.iter().enumerate() {
        let mut conditions: Vec<String> = terms[..index].iter().map(|before| bound(before, "=")).collect();
        conditions.push(bound(term, ">"));
        steps.push(format!("({})", conditions.join(" and ")));
    }
    Ok(format!("\nwhere {start} and ({})", steps.join(" or ")))
}

fn place(flavour: Flavour, number: usize) -> String {
    match flavour {
        Flavour::Postgres => format!("${number}"),
        Flavour::Sqlite => format!("?{number}"),
        Flavour::MySql => "?".to_owned(),
    }
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Vec<String> {
        vec!["a".to_owned(), "b\"".to_owned()]
    }

    #[test]
    fn a_page_begins_behind_the_last_key() {
        let query = SqlQuery::new("select a from t where c = $1").bind(7);

        let page =
            keyset(&query, Flavour::Postgres, (&keys(), NullKeys::Never), Some(&[1.into(), "x".into()]), 10)
                .unwrap();

        assert_eq!(
            page.text,
            "select *\nfrom (\nselect a from t where c = $1\n) as page\n\
             where (\"a\", \"b\"\"\") > ($2, $3)\norder by \"a\", \"b\"\"\"\nlimit $4"
        );
        assert_eq!(page.values, vec![Value::Long(7), 1.into(), "x".into(), 10.into()]);
    }

    #[test]
    fn mysql_is_given_a_range_and_decimals_that_stay_decimals() {
        let keys = ["a".to_owned(), "b".to_owned()];
        let after = [1.into(), Value::Decimal("0.10".parse().unwrap())];

        let page =
            keyset(&SqlQuery::new("select 1"), Flavour::MySql, (&keys, NullKeys::Never), Some(&after), 10)
                .unwrap();

        let condition = "where `a` >= ? and ((`a` > ?) or (`a` = ? and `b` > cast(? as decimal(65, 2))))";
        assert!(page.text.contains(condition), "{}", page.text);
        assert_eq!(page.values, vec![1.into(), 1.into(), 1.into(), after[1].clone(), Value::Long(10)]);
    }

    #[test]
    fn a_page_by_offset_keeps_the_order_of_the_query() {
        let page = offset(&SqlQuery::new("select a from t order by a -- all"), Flavour::Sqlite, 20, 10);

        assert_eq!(page.text, "select a from t order by a -- all\nlimit ?1 offset ?2");
        assert_eq!(page.values, vec![Value::Long(10), Value::Long(20)]);
    }
}
