//! What `tune` has to say: whose tuning it is, how much it has found, and which kernels won.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

use super::{Report, table};
use crate::tune::{
    class::Class,
    file::{TuneFile, Winner},
};

/// How many of the classes are shown whose winners gain most.
const SHOWN: usize = 12;

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum TuneAct {
    /// Classes were tuned.
    Tuned {
        /// How many this time.
        tuned: usize,
        /// How many are left for the next time.
        left: usize,
        /// Kernels that computed wrong products, which are not used.
        wrong: Vec<&'static str>,
        /// What was wrong with a file that was there.
        replaced: Option<String>,
    },
    /// What is known was shown.
    Shown,
    /// The user's own tuning was removed.
    Reset {
        /// Whether there was one.
        removed: bool,
    },
}

/// What `tune` did and what is known now.
#[derive(Debug, Serialize)]
pub struct TuneReport {
    #[serde(flatten)]
    act: TuneAct,
    /// Where the user's own tuning is or would be; none without a GPU.
    file: Option<PathBuf>,
    /// The tunings that are known: the user's own, or those that came with this build.
    tunings: Vec<TuningFacts>,
}

/// What is known of a GPU.
#[derive(Debug, Serialize)]
pub struct TuningFacts {
    /// What was found.
    #[serde(flatten)]
    pub found: TuneFile,
    /// Classes that were tuned.
    pub classes: usize,
    /// Classes whose winner isn't the model's choice.
    pub changed: usize,
    /// How many times as fast as the model's choices the winners are: the geometric mean over all classes.
    pub gain: f64,
}

impl TuningFacts {
    fn new(found: TuneFile) -> TuningFacts {
        let classes = found.winners.len();
        let changed = found.winners.iter().filter(|winner| winner.kernel != winner.model).count();
        let logarithms: f64 = found.winners.iter().map(|winner| gain(winner).ln()).sum();
        TuningFacts { classes, changed, gain: (logarithms / classes.max(1) as f64).exp(), found }
    }

    fn table(&self) -> String {
        let TuningFacts { found, classes, changed, gain: mean } = self;
        let mut facts = vec![
            ("GPU".to_owned(), found.key.gpu.clone()),
            ("driver".to_owned(), found.key.driver.clone()),
            ("kernels".to_owned(), format!("build {}", found.key.build)),
            ("classes".to_owned(), format!("{classes} of {} are tuned", Class::all().len())),
        ];
        if *classes == 0 {
            return table::facts(facts);
        }
        facts.push((
            "gain".to_owned(),
            format!(
                "{:.1} % over the model's choices (geometric mean); {changed} classes prefer another kernel",
                100.0 * (mean - 1.0)
            ),
        ));
        let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
        for winner in &found.winners {
            *wins.entry(&winner.kernel).or_default() += 1;
        }
        let mut wins: Vec<_> = wins.into_iter().collect();
        wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let headers = ["kernel", "classes won"].map(str::to_owned).to_vec();
        let rows = wins.into_iter().map(|(kernel, count)| vec![kernel.to_owned(), count.to_string()]);
        let kernels = table::columns([headers].into_iter().chain(rows));

        let mut gains: Vec<&Winner> = found.winners.iter().filter(|winner| winner.kernel != winner.model).collect();
        gains.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
        let headers = ["m", "n", "k", "A", "B", "fastest", "us", "model's choice", "us", "gain"].map(str::to_owned);
        let rows = gains.into_iter().take(SHOWN).map(|winner| {
            let problem = winner.class.problem();
            let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size.to_string());
            let (a, b) = (winner.class.a.name(), winner.class.b.name());
            let times = [winner.microseconds, winner.model_microseconds].map(|time| format!("{time:.1}"));
            let [time, model_time] = times;
            let gain = format!("{:.1} %", 100.0 * (gain(winner) - 1.0));
            let (kernel, model) = (winner.kernel.clone(), winner.model.clone());
            vec![m, n, k, a.to_owned(), b.to_owned(), kernel, time, model, model_time, gain]
        });
        let mut parts = vec![table::facts(facts), kernels];
        let gains: Vec<Vec<String>> = rows.collect();
        if !gains.is_empty() {
            parts.push(table::columns([headers.to_vec()].into_iter().chain(gains)));
        }
        parts.join("\n\n")
    }
}

impl TuneReport {
    /// The report on what was done and what is known.
    pub fn new(act: TuneAct, file: Option<PathBuf>, known: impl IntoIterator<Item = TuneFile>) -> TuneReport {
        TuneReport { act, file, tunings: known.into_iter().map(TuningFacts::new).collect() }
    }

    fn verdict(&self) -> String {
        let file = self.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
        match &self.act {
            TuneAct::Tuned { tuned, left: 0, .. } => format!("{tuned} classes tuned this time, none is left: {file}"),
            TuneAct::Tuned { tuned, left, .. } => {
                format!("{tuned} classes tuned this time, {left} are left: run it again to go on ({file})")
            }
            TuneAct::Shown if self.tunings.is_empty() => {
                "nothing is tuned for this GPU: the model chooses (tune makes a tuning, on a GPU)".to_owned()
            }
            TuneAct::Shown => match &self.file {
                Some(file) if file.exists() => format!("products on this GPU are planned with {}", file.display()),
                Some(_) => "this comes with the build; tune makes one of your own".to_owned(),
                None => "these come with the build; there is no GPU here".to_owned(),
            },
            TuneAct::Reset { removed: true } => format!("removed {file}"),
            TuneAct::Reset { removed: false } => format!("nothing to remove: {file} isn't there"),
        }
    }
}

impl Report for TuneReport {
    fn table(&self) -> String {
        let mut parts: Vec<String> = match &self.act {
            TuneAct::Reset { .. } => Vec::new(),
            _ => self.tunings.iter().map(TuningFacts::table).collect(),
        };
        if let TuneAct::Tuned { wrong, replaced, .. } = &self.act {
            parts.extend(replaced.iter().map(|reason| format!("a file that was there has been replaced: {reason}")));
            if !wrong.is_empty() {
                parts.push(format!("WRONG PRODUCTS, not used: {}", wrong.join(", ")));
            }
        }
        parts.push(self.verdict());
        parts.join("\n\n")
    }

    fn passed(&self) -> bool {
        !matches!(&self.act, TuneAct::Tuned { wrong, .. } if !wrong.is_empty())
    }
}

/// How many times as fast as the model's choice a winner is.
fn gain(winner: &Winner) -> f64 {
    winner.model_microseconds / winner.microseconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::{class::Way, file::Key};

    fn tuning() -> TuneFile {
        let key = Key { gpu: "NVIDIA H200".to_owned(), driver: "580".to_owned(), build: "0123".to_owned() };
        let mut file = TuneFile::new(key);
        for (m, kernel, microseconds) in [(16, "one", 10.0), (64, "two", 10.0), (256, "two", 12.5)] {
            let class = Class { m, n: 64, k: 64, a: Way::AlongK, b: Way::Vectors };
            file.put(Winner {
                class,
                kernel: kernel.to_owned(),
                splits: 1,
                group: 1,
                microseconds,
                model: "one".to_owned(),
                model_splits: 1,
                model_microseconds: 12.5,
            });
        }
        file
    }

    #[test]
    fn a_tuning_says_what_it_gains_and_who_won() {
        let act = TuneAct::Tuned { tuned: 3, left: 7, wrong: Vec::new(), replaced: None };
        let report = TuneReport::new(act, Some("/cache/x.json".into()), vec![tuning()]);
        let text = report.table();
        for part in ["NVIDIA H200", "3 of", "2 classes prefer another", "25.0 %", "run it again", "/cache/x.json"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(report.passed());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["act"], "tuned");
        assert_eq!(json["tunings"][0]["winners"][0]["kernel"], "one");
        assert_eq!(json["tunings"][0]["changed"], 2);
    }

    #[test]
    fn kernels_that_compute_wrong_products_fail_the_command() {
        let act = TuneAct::Tuned { tuned: 0, left: 0, wrong: vec!["bad"], replaced: Some("broken".to_owned()) };
        let report = TuneReport::new(act, None, vec![tuning()]);
        assert!(!report.passed());
        assert!(report.table().contains("bad") && report.table().contains("broken"));
    }

    #[test]
    fn without_a_tuning_it_says_that_the_model_chooses() {
        let text = TuneReport::new(TuneAct::Shown, None, Vec::new()).table();
        assert!(text.contains("the model chooses"), "{text}");
    }
}
