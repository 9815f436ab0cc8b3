//! Macros for newtypes, enums and builders, and small helpers.

/// Declares newtypes around a number, with `new`, `get` and `Display`.
macro_rules! numbers {
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

/// Declares newtypes around a UUID. With an error after `else` they also have `FromStr`.
macro_rules! uuids {
    ($($(#[$about:meta])* pub struct $name:ident $(else $bad:ident: $error:literal)?;)+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(::uuid::Uuid);

        impl $name {
            pub const fn new(id: ::uuid::Uuid) -> Self {
                Self(id)
            }

            pub const fn as_uuid(self) -> ::uuid::Uuid {
                self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }

        $(
            #[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
            #[error($error)]
            pub struct $bad;

            impl ::std::str::FromStr for $name {
                type Err = $bad;

                fn from_str(text: &str) -> Result<Self, $bad> {
                    ::uuid::Uuid::try_parse(text).map(Self).map_err(|_| $bad)
                }
            }
        )?
    )+};
}

/// Implements `Display` with the arguments of `format!`. The name before the arrow is the value.
macro_rules! display {
    ($type:ident, $value:pat => $($text:tt)+) => {
        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let $value = self;
                write!(f, $($text)+)
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

pub(crate) use {conversions, display, numbers, serde_as_text, uuids};
