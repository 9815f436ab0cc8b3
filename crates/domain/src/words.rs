//! Enums whose values are words in files, tables, addresses and messages.

/// The text is not a word of the enum. The message lists the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(pub &'static str);

/// Declares enums with a word per variant. They get `ALL`, `NAMES`, `as_str`, `Display`, `FromStr` and common derives.
///
/// An unknown word fails with [`UnknownWord`](crate::words::UnknownWord): "not one of …", or the text after the colon.
/// With `any_case`, declare words in upper case; `FromStr` accepts any case. `FromStr` also accepts an older name:
/// `Sweet = "sweet" or "sugary"`. The compiler refuses a repeated word.
///
/// ```
/// tidemill_domain::words! {
///     /// How sweet it is.
///     #[derive(Default, PartialOrd, Ord)]
///     pub enum Taste {
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
            $($(#[$doc:meta])* $variant:ident = $word:literal $(or $old:literal)?,)+
        }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All variants, in order.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];
            /// All words, in order.
            $vis const NAMES: &'static [&'static str] = &[$($word),+];

            /// The word.
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
                    $($word $(| $old)? => Ok(Self::$variant),)+
                    _ => Err($crate::words::UnknownWord($crate::words!(@unknown $($error)?; $($word)+))),
                }
            }
        }
    )+};
}
