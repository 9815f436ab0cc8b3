//! Which page follows: by a cursor or a URL in the body, by number, or by the `Link` header.

use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde_json::Value as Json;

/// The longest cursor or address of a next page: it is saved with each chunk.
const NEXT_MAX: usize = 8 * 1024;

/// How the pages of an API follow each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Paging {
    /// The first answer has all items.
    #[default]
    Single,
    /// The body has the cursor of the next page at `path`, such as `meta.next`; the last page has none. The cursor is sent
    /// as the query parameter `parameter`. Without a parameter, it is the URL of the next page.
    Cursor { path: String, parameter: Option<String> },
    /// Pages are counted from `first`, and the number is sent as this query parameter. The first empty page is the end.
    Number { parameter: String, first: u64 },
    /// The header `Link` has the URL of the next page (`rel="next"`).
    Link,
}

impl Paging {
    /// The URL of a page; none is the first. A page that an answer names must be on the same host, which gets the headers.
    pub(crate) fn url(&self, base: &Url, page: Option<&str>) -> Result<Url, String> {
        match (self, page) {
            (Self::Number { parameter, first }, page) => {
                Ok(with(base.clone(), parameter, page.unwrap_or(&first.to_string())))
            }
            (_, None) => Ok(base.clone()),
            (Self::Cursor { parameter: Some(parameter), .. }, Some(cursor)) => {
                Ok(with(base.clone(), parameter, cursor))
            }
            (_, Some(page)) => {
                let url: Url = page.parse().map_err(|_| "it is not a URL".to_owned())?;
                if url.origin() != base.origin() {
                    return Err(format!("it is at {}, another host", url.origin().ascii_serialization()));
                }
                Ok(url)
            }
        }
    }

    /// The page after the one at `url`, as it is saved; none at the end.
    pub(crate) fn next(
        &self,
        url: &Url,
        page: Option<&str>,
        (headers, body, items): (&HeaderMap, &Json, usize),
    ) -> Result<Option<String>, String> {
        let next = match self {
            Self::Single => None,
            Self::Number { .. } if items == 0 => None,
            Self::Number { first, .. } => {
                let number =
                    page.map_or(Ok(*first), str::parse::<u64>).map_err(|_| "it is no number".to_owned())?;
                Some((number + 1).to_string())
            }
            Self::Link => link(headers).map(|next| joined(url, &next)).transpose()?,
            Self::Cursor { path, parameter } => match (at(body, path), parameter) {
                (None | Some(Json::Null | Json::Bool(false)), _) => None,
                (Some(Json::String(text)), _) if text.is_empty() => None,
                (Some(Json::String(text)), None) => Some(joined(url, text)?),
                (Some(Json::String(text)), Some(_)) => Some(text.clone()),
                (Some(Json::Number(number)), Some(_)) => Some(number.to_string()),
                (Some(other), _) => return Err(format!("there is {} at {path:?}", type_of(other))),
            },
        };
        match next {
            Some(next) if Some(next.as_str()) == page => Err("it is the page itself".to_owned()),
            Some(next) if next.len() > NEXT_MAX => Err(format!("it is longer than {NEXT_MAX} bytes")),
            next => Ok(next),
        }
    }
}

/// The value at a path of keys and indices that are separated by dots; the whole if the path is empty.
pub(crate) fn at<'a>(body: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(body, |value, part| match value {
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

pub(crate) fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn joined(url: &Url, next: &str) -> Result<String, String> {
    url.join(next).map(String::from).map_err(|_| "it is not a URL".to_owned())
}

/// Replaces a parameter of the query.
fn with(mut url: Url, name: &str, value: &str) -> Url {
    let others: Vec<(String, String)> =
        url.query_pairs().filter(|(other, _)| other != name).map(|(n, v)| (n.into(), v.into())).collect();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, value);
    url
}

/// The target with `rel="next"`.
fn link(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split('<').skip(1)).find_map(|link| {
        let (target, parameters) = link.split_once('>')?;
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let Some((name, relations)) = parameter.split_once('=') else { return false };
            let mut relations = relations.trim().trim_matches('"').split_whitespace();
            name.trim().eq_ignore_ascii_case("rel")
                && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
        });
        is_next.then(|| target.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn next(paging: &Paging, page: Option<&str>, body: &Json) -> Result<Option<String>, String> {
        let url = paging.url(&"https://h/a?x=1".parse().unwrap(), page)?;
        paging.next(&url, page, (&HeaderMap::new(), body, 1))
    }

    #[test]
    fn a_cursor_ends_where_there_is_none() {
        let paging = Paging::Cursor { path: "meta.next".into(), parameter: Some("after".into()) };

        assert_eq!(next(&paging, None, &json!({ "meta": { "next": "c&1" } })), Ok(Some("c&1".into())));
        assert_eq!(next(&paging, None, &json!({ "meta": { "next": 7 } })), Ok(Some("7".into())));
        for end in [json!({}), json!({ "meta": { "next": null } }), json!({ "meta": { "next": "" } })] {
            assert_eq!(next(&paging, Some("c"), &end), Ok(None));
        }
        assert!(next(&paging, Some("c"), &json!({ "meta": { "next": "c" } })).is_err());
        assert!(next(&paging, Some("c"), &json!({ "meta": { "next": [] } })).is_err());
        let url = paging.url(&"https://h/a?x=1&after=0".parse().unwrap(), Some("c&1")).unwrap();
        assert_eq!(url.as_str(), "https://h/a?x=1&after=c%261");
    }

    #[test]
    fn a_next_page_on_another_host_is_not_called() {
        let base: Url = "https://h/a".parse().unwrap();

        for other in ["https://evil.example/a", "http://h/a", "https://h:444/a", "file:///etc"] {
            assert!(Paging::Link.url(&base, Some(other)).is_err(), "{other}");
        }
        assert!(Paging::Link.url(&base, Some("https://h/b?page=2")).is_ok());
    }

    #[test]
    fn the_next_link_is_found_among_others() {
        let found = |value: &str| link(&HeaderMap::from_iter([(LINK, value.parse().unwrap())]));

        let github = r#"<https://h/a?page=1,2>; rel="prev", </a?page=3>; rel="next"; title="x", <https://h/a?page=9>; rel="last""#;
        assert_eq!(found(github).as_deref(), Some("/a?page=3"));
        assert_eq!(found("</b>; rel=next").as_deref(), Some("/b"));
        assert_eq!(found("</b>; rel=\"last\""), None);
        let url = "https://h/api/a?page=2".parse().unwrap();
        let headers = HeaderMap::from_iter([(LINK, "<?page=3>; rel=next".parse().unwrap())]);
        let next = Paging::Link.next(&url, None, (&headers, &Json::Null, 1));
        assert_eq!(next, Ok(Some("https://h/api/a?page=3".into())));
    }

    #[test]
    fn numbers_end_with_an_empty_page() {
        let paging = Paging::Number { parameter: "page".into(), first: 0 };
        let url = "https://h/a".parse().unwrap();
        let next = |page, items| paging.next(&url, page, (&HeaderMap::new(), &Json::Null, items));

        assert_eq!(next(None, 2), Ok(Some("1".into())));
        assert_eq!(next(Some("7"), 2), Ok(Some("8".into())));
        assert_eq!(next(Some("8"), 0), Ok(None));
    }
}
