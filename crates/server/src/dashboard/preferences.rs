//! How somebody likes the pages: theme, times, read-only, shortcuts, reloading. Kept in the browser's own cookies, so that
//! the server renders right at once and nothing has to be stored about anybody.

use crate::access::Principal;
use crate::access::session::{CookieName, value};
use crate::dashboard::form::{self, Fields};
use crate::dashboard::visit::home;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

/// A preference is one of a few words; the first is the default.
macro_rules! choice {
    ($(#[$about:meta])+ $name:ident in $field:literal { $($(#[$doc:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name { $($(#[$doc])+ $variant,)+ }

        impl $name {
            /// Name of its field in forms.
            pub(crate) const FIELD: &str = $field;
            const COOKIE: &str = concat!("tidemill_", $field);
            /// All of them, in the order in which a button goes through them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word that is kept and shown.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }

            fn of_cookie(headers: &HeaderMap) -> Self {
                value(headers, Self::COOKIE).and_then(|word| Self::of_word(&word)).unwrap_or(Self::ALL[0])
            }
        }
    };
}

choice! {
    /// Which colours.
    Theme in "theme" {
        /// As the operating system has it.
        Auto = "auto",
        /// Dark on light.
        Light = "light",
        /// Light on dark.
        Dark = "dark",
    }
}

choice! {
    /// How instants are told.
    TimeMode in "time" {
        /// In UTC.
        Utc = "utc",
        /// In the browser's zone; that takes the script, without it UTC is shown.
        Local = "local",
        /// By how long ago.
        Relative = "relative",
    }
}

choice! {
    /// Whether buttons that change things are out of reach. A safety for the hand; rights are checked elsewhere.
    ReadOnly in "read_only" {
        /// They can be used.
        Off = "off",
        /// They cannot.
        On = "on",
    }
}

choice! {
    /// Whether single keys do things.
    Shortcuts in "shortcuts" {
        /// They do.
        On = "on",
        /// They do not.
        Off = "off",
    }
}

choice! {
    /// Whether pages are fetched again every 15 seconds where there is no script. Not unless it is asked for: what
    /// somebody types or ticks would be gone.
    Reload in "reload" {
        /// They stay as they are.
        Off = "off",
        /// They are.
        On = "on",
    }
}

/// How somebody likes the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Preferences {
    pub(crate) theme: Theme,
    pub(crate) time: TimeMode,
    pub(crate) read_only: ReadOnly,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) reload: Reload,
}

impl Preferences {
    /// As the cookies say; what is not understood is as if it were not there.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self {
            theme: Theme::of_cookie(headers),
            time: TimeMode::of_cookie(headers),
            read_only: ReadOnly::of_cookie(headers),
            shortcuts: Shortcuts::of_cookie(headers),
            reload: Reload::of_cookie(headers),
        }
    }
}

/// The choice after `one`, and after the last the first.
pub(crate) fn after<T: Copy + PartialEq>(all: &[T], one: T) -> T {
    let next = all.iter().skip_while(|known| **known != one).nth(1);
    next.or_else(|| all.first()).copied().unwrap_or(one)
}

/// What is to change; an absent field stays as it is.
#[derive(Debug, Deserialize)]
pub(crate) struct Changes {
    theme: Option<String>,
    time: Option<String>,
    read_only: Option<String>,
    shortcuts: Option<String>,
    reload: Option<String>,
    back: Option<String>,
    #[serde(default)]
    form_token: String,
}

impl Changes {
    fn cookies(&self) -> Result<Vec<(&'static str, &'static str)>, Problem> {
        let mut cookies = Vec::new();
        let mut take = |cookie, given: Option<Option<&'static str>>| match given {
            None => Ok(()),
            Some(Some(word)) => {
                cookies.push((cookie, word));
                Ok(())
            }
            Some(None) => {
                Err(Problem::bad_request("there is no such preference", "choose one on the settings page"))
            }
        };
        let word = |text: &Option<String>, find: fn(&str) -> Option<&'static str>| text.as_deref().map(find);
        take(Theme::COOKIE, word(&self.theme, |text| Theme::of_word(text).map(Theme::as_str)))?;
        take(TimeMode::COOKIE, word(&self.time, |text| TimeMode::of_word(text).map(TimeMode::as_str)))?;
        take(ReadOnly::COOKIE, word(&self.read_only, |text| ReadOnly::of_word(text).map(ReadOnly::as_str)))?;
        take(
            Shortcuts::COOKIE,
            word(&self.shortcuts, |text| Shortcuts::of_word(text).map(Shortcuts::as_str)),
        )?;
        take(Reload::COOKIE, word(&self.reload, |text| Reload::of_word(text).map(Reload::as_str)))?;
        Ok(cookies)
    }
}

/// Keeps what was chosen and goes back to where it was chosen.
pub(crate) async fn save(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Fields(changes): Fields<Changes>,
) -> Result<Response, Problem> {
    form::check(&principal, &changes.form_token)?;
    let secure = if state.inner().cookie == CookieName::Host { "; Secure" } else { "" };
    let home = home(&state);
    let back = changes.back.as_deref().filter(|back| is_ours(&home, back));
    let mut response = Redirect::to(back.unwrap_or(&state.path("/settings"))).into_response();
    for (cookie, word) in changes.cookies()? {
        let text = format!("{cookie}={word}; Path={home}; Max-Age=31536000; SameSite=Lax; HttpOnly{secure}");
        if let Ok(line) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::SET_COOKIE, line);
        }
    }
    Ok(response)
}

/// Whether an address leads to one of our pages and cannot be read as another host's name.
pub(crate) fn is_ours(home: &str, address: &str) -> bool {
    let rest = address.strip_prefix(home.trim_end_matches('/'));
    rest.is_some_and(|rest| {
        rest.starts_with('/') || (home != "/" && (rest.is_empty() || rest.starts_with('?')))
    }) && !address.starts_with("//")
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_never_leads_to_another_site() {
        for path in ["/", "/settings", "/settings/audit?actor=a%20b"] {
            assert!(is_ours("/", path), "{path}");
        }
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "/a b",
            "/a\r\nX: y",
            "evil",
            "?x",
        ] {
            assert!(!is_ours("/", path), "{path:?}");
        }
        for path in ["/mill", "/mill/alerts", "/mill?x=1"] {
            assert!(is_ours("/mill", path), "{path}");
        }
        for path in ["/other", "/miller", "/", ""] {
            assert!(!is_ours("/mill", path), "{path}");
        }
    }

    #[test]
    fn cookies_that_are_not_understood_mean_the_default() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("tidemill_theme=dark; tidemill_time=lunar; tidemill_read_only=on"),
        );

        let preferences = Preferences::of(&headers);

        assert_eq!(preferences.theme, Theme::Dark);
        assert_eq!(preferences.time, TimeMode::Utc);
        assert_eq!(preferences.read_only, ReadOnly::On);
        assert_eq!(preferences.shortcuts, Shortcuts::On);
    }

    #[test]
    fn a_button_goes_through_all_words_and_around() {
        let mut seen = vec![Theme::Auto];
        while seen.len() < 4 {
            seen.push(after(Theme::ALL, seen[seen.len() - 1]));
        }
        assert_eq!(seen, [Theme::Auto, Theme::Light, Theme::Dark, Theme::Auto]);
    }
}
