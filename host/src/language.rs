//! The languages in which `check`, `explain` and `exercise` speak.

use std::{env, str::FromStr};

use serde::Serialize;

/// A language of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese, in simplified characters.
    Zh,
}

impl Language {
    /// The language of the user's locale: Chinese for any Chinese one, else English. As POSIX has it, the first of
    /// `LC_ALL`, `LC_MESSAGES` and `LANG` that is set and not empty decides.
    pub fn of_locale() -> Language {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().filter_map(env::var_os).find(|value| !value.is_empty());
        let chinese = locale.is_some_and(|locale| is_chinese(&locale.to_string_lossy()));
        if chinese { Language::Zh } else { Language::En }
    }

    /// The text in this language.
    pub fn choose<T>(self, english: T, chinese: T) -> T {
        match self {
            Language::En => english,
            Language::Zh => chinese,
        }
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Language, String> {
        match text {
            "en" => Ok(Language::En),
            "zh" => Ok(Language::Zh),
            _ => Err(format!("'{text}' is no language of this program: expected en or zh")),
        }
    }
}

/// Whether a locale such as `zh_CN.UTF-8` is Chinese.
fn is_chinese(locale: &str) -> bool {
    locale.split(['_', '-', '.', '@']).next() == Some("zh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_locales_are_those_whose_language_is_zh() {
        assert!(["zh", "zh_CN.UTF-8", "zh-TW", "zh_Hant@x"].into_iter().all(is_chinese));
        assert!(!["en_GB.UTF-8", "C.UTF-8", "zha", "de"].into_iter().any(is_chinese));
    }
}
