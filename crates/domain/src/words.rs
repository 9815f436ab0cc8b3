//! Words and counts in files, tables, addresses and messages.

/// A number with commas between thousands.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun.
pub fn plural(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// The text is not a word of the enum. The message lists the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(pub &'static str);

/// Declares enums with a word per variant. They get `ALL`, `NAMES`, `as_str`, `Display`, `FromStr` and common derives.
///
/// An unknown word fails with [`UnknownWord`](crate::words::UnknownWord): "not one of …", or the text after the colon.
/// With `any_case`, declare words in upper case; `FromStr` accepts any case. `FromStr` also accepts an older name:
/// `Sweet = "sweet" or "sugary"`. The compiler refuses a repeated word. `=> label: &'static str` after the name of the
/// enum adds a method `label`, which returns the value after the word.
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
///     enum Size any_case: "a size is S or L" => centimetres: u32 {
///         Small = "S" => 10,
///         Large = "L" => 30,
///     }
/// }
///
/// assert_eq!(Taste::NAMES, Taste::ALL.map(Taste::as_str));
/// assert_eq!("very_bitter".parse(), Ok(Taste::VeryBitter));
/// assert_eq!("SWEET".parse::<Taste>().unwrap_err().to_string(), "not one of sweet, very_bitter");
/// assert_eq!("l".parse::<Size>().unwrap().to_string(), "L");
/// assert_eq!(Size::Small.centimetres(), 10);
/// assert_eq!("m".parse::<Size>().unwrap_err().to_string(), "a size is S or L");
/// ```
#[macro_export]
macro_rules! words {
    (@read $text:ident) => { $text };
    (@read $text:ident any_case) => { &*$text.to_ascii_uppercase() };
    (@unknown $error:literal; $($word:literal)+) => { $error };
    (@unknown; $first:literal $($word:literal)*) => { concat!("not one of ", $first $(, ", ", $word)*) };
    (@column $vis:vis $name:ident [] $($rest:tt)+) => {};
    (@column $vis:vis $name:ident [$method:ident $type:ty] $($variant:ident [$value:expr])+) => {
        impl $name {
            $vis const fn $method(self) -> $type {
                match self { $(Self::$variant => $value,)+ }
            }
        }
    };
    ($(
        $(#[$about:meta])*
        $vis:vis enum $name:ident $($any_case:ident)? $(: $error:literal)? $(=> $method:ident: $type:ty)? {
            $($(#[$doc:meta])* $variant:ident = $word:literal $(or $old:literal)? $(=> $value:expr)?,)+
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

        $crate::words!(@column $vis $name [$($method $type)?] $($variant [$($value)?])+);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (value, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (60_500, "60,500"), (1_234_567, "1,234,567")]
        {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn only_one_is_singular() {
        for (count, text) in [(0, "0 units"), (1, "1 unit"), (2, "2 units"), (1_001, "1,001 units")] {
            assert_eq!(plural(count, "unit", "units"), text);
        }
    }

    #[test]
    fn one_is_singular_and_thousands_have_commas() {
        assert_eq!(plural(1_u64, "event", "events"), "1 event");
        assert_eq!(plural(1_200_usize, "event", "events"), "1,200 events");
    }
}
