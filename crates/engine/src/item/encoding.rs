//! Text encodings of files. Invalid text is an error, never replaced.

use std::borrow::Cow;

tidemill_domain::words! {
    /// The encoding of a text file.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Encoding {
        /// UTF-8; a leading byte order mark is skipped.
        #[default]
        Utf8 = "UTF-8",
        /// EUC-KR with the extensions of code page 949, as used by most Korean files.
        EucKr = "EUC-KR",
    }
}

impl Encoding {
    /// Fails on bytes that are invalid in this encoding, with a message for people.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>, String> {
        let text = match self {
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Self::EucKr => encoding_rs::EUC_KR.decode_without_bom_handling_and_without_replacement(bytes),
        };
        text.ok_or_else(|| self.refusal())
    }

    /// Replaces invalid bytes; for messages.
    pub(crate) fn decode_lossy(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Utf8 => String::from_utf8_lossy(bytes),
            Self::EucKr => encoding_rs::EUC_KR.decode_without_bom_handling(bytes).0,
        }
    }

    /// Encodes UTF-8 text. Fails on characters that the encoding does not have, with a message for people.
    pub(crate) fn encode(self, text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        if self == Self::Utf8 {
            return Ok(Cow::Borrowed(text));
        }
        let text = Self::Utf8.decode(text)?;
        let (bytes, _, has_replaced) = encoding_rs::EUC_KR.encode(&text);
        if has_replaced {
            return Err(format!("an item has characters that {} does not have", self.as_str()));
        }
        Ok(Cow::Owned(bytes.into_owned()))
    }

    pub(crate) fn refusal(self) -> String {
        format!("the bytes are not {}; check the encoding of the file", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_read_korean_and_refuse_each_other() {
        let text = "똠방각하, 가나다";
        let (euc_kr, _, _) = encoding_rs::EUC_KR.encode(text);

        assert_eq!(Encoding::EucKr.decode(&euc_kr).as_deref(), Ok(text));
        assert_eq!(Encoding::Utf8.decode(text.as_bytes()).as_deref(), Ok(text));
        assert!(Encoding::Utf8.decode(&euc_kr).unwrap_err().contains("not UTF-8"));
        assert_eq!(Encoding::EucKr.encode(text.as_bytes()).as_deref(), Ok(&*euc_kr));
        assert!(Encoding::EucKr.encode("🙂".as_bytes()).unwrap_err().contains("EUC-KR"));
        assert!(Encoding::EucKr.decode(b"a\xff\xff").unwrap_err().contains("not EUC-KR"));
    }
}
