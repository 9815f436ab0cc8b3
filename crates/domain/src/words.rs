//! Enums whose values are words: what files, tables, addresses and messages contain.

/// The text is none of the words of an enum. It says which words there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(pub &'static str);

/// Declares enums, each variant with its word. Beside the enum you get `ALL`, `NAMES`, `as_str`, `Display` and
/// `FromStr`, and the usual derives; name further derives yourself.
///
/// An unknown word fails with [`UnknownWord`](crate::words::UnknownWord): "not one of …", or the text behind the colon.
/// With `any_case`, words are declared in upper case and read in any. A word that stands twice is refused by the
/// compiler, as an unreachable pattern.
///
/// ```
/// tidemill_domain::words! {
///     /// How sweet it is.
///     #[derive(Default, PartialOrd, Ord)]
///     pub enum Taste {
///         /// Nobody has to be asked.
///         #[default]
///         Sweet = "sweet",
///         VeryBitter = "very_bitter",
///     }
///
///     enum Size any_case: "a size is S or L" {
///         Small = "S",
///         Large = "L",
///     }
/// }
///
/// assert_eq!(Taste::NAMES, Taste::ALL.map(Taste::as_str));
/// assert_eq!("very_bitter".parse(), Ok(Taste::VeryBitter));
/// assert_eq!("SWEET".parse::<Taste>().unwrap_err().to_string(), "not one of sweet, very_bitter");
/// assert_eq!("l".parse::<Size>().unwrap().to_string(), "L");
/// assert_eq!("m".parse::<Size>().unwrap_err().to_string(), "a size is S or L");
/// ```
#[macro_export]
macro_rules! words {
    (@read $text:ident) => { $text };
    (@read $text:ident any_case) => { &*$text.to_ascii_uppercase() };
    (@unknown $error:literal; $($word:literal)+) => { $error };
    (@unknown; $first:literal $($word:literal)*) => { concat!("not one of ", $first $(, ", ", $word)*) };
    ($(
        $(#[$about:meta])*
        $vis:vis enum $name:ident $($any_case:ident)? $(: $error:literal)? {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)+
        }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in their order.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];
            /// Their words, in the same order.
            $vis const NAMES: &'static [&'static str] = &[$($word),+];

            /// Its word.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match $crate::words!(@read text $($any_case)?) {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::words::UnknownWord($crate::words!(@unknown $($error)?; $($word)+))),
                }
            }
        }
    )+};
}
