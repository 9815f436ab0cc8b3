//! The URLs of nexrender's API.

use super::BadFarm;
use reqwest::Url;

const API: [&str; 2] = ["api", "v1"];

#[derive(Clone, Debug)]
pub(super) struct Address {
    base: Url,
    /// For messages: without a path.
    pub(super) name: String,
}

impl Address {
    /// Accepts `http://host:3000`, `http://host:3000/api/v1` or another path.
    pub(super) fn parse(text: &str) -> Result<Self, BadFarm> {
        let bad = |why| BadFarm::Address { why };
        let mut base: Url = text.trim().parse().map_err(|_| bad("it is not understood"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(bad("it does not begin with http or https"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(bad("it has a user in it; the secret has a key of its own"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(bad("something follows its path"));
        }
        let name = base.origin().ascii_serialization();
        let is_bare = base.path().bytes().all(|byte| byte == b'/');
        let mut segments = base.path_segments_mut().map_err(|()| bad("it names no host"))?;
        segments.pop_if_empty();
        if is_bare {
            segments.clear().extend(API);
        }
        drop(segments);
        Ok(Self { base, name })
    }

    pub(super) fn jobs(&self) -> Url {
        self.below(&["jobs"])
    }

    /// `None` if the name is invalid: an empty one would mean all jobs.
    pub(super) fn job(&self, name: &str) -> Option<Url> {
        (!matches!(name, "" | "." | "..")).then(|| self.below(&["jobs", name]))
    }

    pub(super) fn health(&self) -> Url {
        self.below(&["health"])
    }

    fn below(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(parts);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_path_of_the_api_may_be_said_or_left_out() {
        for text in [
            "http://render01:3000",
            "http://render01:3000/",
            "http://render01:3000/api/v1",
            "http://render01:3000/api/v1/",
            " http://render01:3000 ",
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                address.job("rq-1-2").unwrap().as_str(),
                "http://render01:3000/api/v1/jobs/rq-1-2",
                "{text}"
            );
            assert_eq!(address.name, "http://render01:3000");
        }
        let cloud = Address::parse("https://api.nexrender.com/api/v2").unwrap();
        assert_eq!(cloud.jobs().as_str(), "https://api.nexrender.com/api/v2/jobs");
        assert_eq!(cloud.health().as_str(), "https://api.nexrender.com/api/v2/health");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "",
            "render01:3000",
            "ftp://render01",
            "file:///etc",
            "data:,x",
            "http://u:p@render01",
            "http://h/?a",
            "http://h/#a",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_name_of_a_job_means_all_jobs() {
        let address = Address::parse("http://h").unwrap();

        for bad in ["", ".", ".."] {
            assert_eq!(address.job(bad), None);
        }
        assert_eq!(address.job("../jobs?x#y").unwrap().as_str(), "http://h/api/v1/jobs/..%2Fjobs%3Fx%23y");
    }

    proptest! {
        #[test]
        fn every_name_stays_below_the_jobs(name in "\\PC{1,20}") {
            let address = Address::parse("http://h").unwrap();
            if let Some(url) = address.job(&name) {
                let parts: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!(&parts[..3], &["api", "v1", "jobs"]);
                prop_assert_eq!(parts.len(), 4);
                prop_assert!(!parts[3].is_empty() && url.query().is_none() && url.fragment().is_none());
            }
        }
    }
}
