//! Macros for newtypes, enums and builders, and small helpers.

/// Declares newtypes around a number or a UUID, with `new`, `get` and `Display`.
macro_rules! ids {
    ($($(#[$about:meta])* pub struct $name:ident($number:ty);)+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name($number);

        impl $name {
            pub const fn new(number: $number) -> Self {
                Self(number)
            }

            pub const fn get(self) -> $number {
                self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

/// Implements `FromStr` with a function that returns none for a bad text, and declares the error for that. With `(text)`
/// after its name the error has the beginning of the text.
macro_rules! parsed {
    ($type:ident, $read:expr, $bad:ident: $error:literal) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
        #[error($error)]
        pub struct $bad;

        $crate::newtype::parsed!(@impl $type, $read, $bad, |_| $bad);
    };
    ($type:ident, $read:expr, $bad:ident(text): $error:literal) => {
        #[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
        #[error($error)]
        pub struct $bad(String);

        $crate::newtype::parsed!(@impl $type, $read, $bad, |text| $bad(text.chars().take(64).collect()));
    };
    (@impl $type:ident, $read:expr, $bad:ident, $refuse:expr) => {
        impl ::std::str::FromStr for $type {
            type Err = $bad;

            fn from_str(text: &str) -> Result<Self, $bad> {
                let (read, refuse): (fn(&str) -> Option<Self>, fn(&str) -> $bad) = ($read, $refuse);
                read(text).ok_or_else(|| refuse(text))
            }
        }
    };
}

/// Implements `Display` with the arguments of `format!`, or by a table. The value is before the arrow.
macro_rules! display {
    ($type:ident, $value:pat => $($text:tt)+) => {
        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let $value = self;
                write!(f, $($text)+)
            }
        }
    };
    ($type:ident { $($value:pat => $text:literal;)+ }) => {
        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self { $($value => write!(f, $text),)+ }
            }
        }
    };
}

/// Declares a method that returns a word for each variant of an enum, whatever data it has.
macro_rules! named {
    ($type:ident, $method:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            pub const fn $method(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $word,)+ }
            }
        }
    };
}

/// Declares methods that read private fields: `&name: str` borrows the field, `count: u32` copies it. If the fields are
/// in another one, name it: `getters!(Rule, 0 { &name: str })`.
#[macro_export]
macro_rules! getters {
    ($type:ty { $($(#[$doc:meta])* $(&$borrowed:ident)? $($copied:ident)?: $of:ty),+ $(,)? }) => {
        impl $type {
            $(
                $(#[$doc])*
                $(pub fn $borrowed(&self) -> &$of { &self.$borrowed })?
                $(pub const fn $copied(&self) -> $of { self.$copied })?
            )+
        }
    };
    ($type:ty, $inside:tt { $($(#[$doc:meta])* $(&$borrowed:ident)? $($copied:ident)?: $of:ty),+ $(,)? }) => {
        impl $type {
            $(
                $(#[$doc])*
                $(pub fn $borrowed(&self) -> &$of { &self.$inside.$borrowed })?
                $(pub fn $copied(&self) -> $of { self.$inside.$copied })?
            )+
        }
    };
}

/// Declares builder methods, which change `self` and return it.
///
/// ```
/// #[must_use]
/// #[derive(Default)]
/// pub struct Parcel {
///     width: u32,
/// }
///
/// impl Parcel {
///     tidemill_domain::setters! {
///         /// In millimetres.
///         pub fn width(self, width: u32) { self.width = width }
///     }
/// }
///
/// assert_eq!(Parcel::default().width(3).width, 3);
/// ```
#[macro_export]
macro_rules! setters {
    ($(
        $(#[$about:meta])*
        pub fn $name:ident($self:ident $(, $argument:ident: $type:ty)* $(,)?) { $($change:tt)+ }
    )+) => {$(
        $(#[$about])*
        pub fn $name(mut $self $(, $argument: $type)*) -> Self {
            $($change)+;
            $self
        }
    )+};
}

/// For serde: a field that has its default is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::cast_precision_loss, reason = "no count is as large as the whole numbers of an f64")]
pub(crate) fn approximate(count: u64) -> f64 {
    count as f64
}

/// The error of the first condition that does not hold.
pub(crate) fn check_all<E>(conditions: impl IntoIterator<Item = (bool, E)>) -> Result<(), E> {
    conditions.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, error)| Err(error))
}

/// Serialises a type as its `Display` text, and reads it with `FromStr`.
macro_rules! serde_as_text {
    ($name:ident) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <::std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// Implements `From` for what the variants of an enum hold, and for what converts to that.
macro_rules! conversions {
    ($enum:ident: $($variant:ident($type:ty)),+ $(,)?) => {
        $(impl From<$type> for $enum {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

pub(crate) use {conversions, display, ids, named, parsed, serde_as_text};
