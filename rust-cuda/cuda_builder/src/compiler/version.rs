//! Versions of rustc.
use std::fmt;

/// A version of rustc, 1.95.0 for example. Of a nightly or a distribution's build only these numbers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    /// The version at the start of a text: of `1.96.0+dfsg1-1~deb12u2` or `1.97.0-nightly (e50aa6fba 2026-05-19)`.
    pub fn parse(text: &str) -> Option<Version> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut numbers = text[..end].split('.').map(|number| number.parse().ok());
        Some(Version {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next().unwrap_or(Some(0)).unwrap_or(0),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_releases_nightlies_and_distributions_are_read() {
        let version = |minor, patch| Some(Version { major: 1, minor, patch });
        assert_eq!(Version::parse("1.95.0"), version(95, 0));
        assert_eq!(Version::parse("1.97.0-nightly (e50aa6fba 2026-05-19)"), version(97, 0));
        assert_eq!(Version::parse("1.96.1+dfsg1-1~deb12u2"), version(96, 1));
        assert_eq!(Version::parse("1.96"), version(96, 0));
        assert_eq!(Version::parse("(none)"), None);
        assert_eq!(Version::parse(""), None);
    }

    #[test]
    fn versions_compare_by_number_and_not_by_letter() {
        assert!(Version::parse("1.100.0") > Version::parse("1.96.0"));
        assert!(Version::parse("1.96.1") > Version::parse("1.96.0"));
    }
}
