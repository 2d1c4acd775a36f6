//! The roofline as a picture of characters, both axes logarithmic.

use super::text::Labels;
use crate::explain::roofline::Roofline;

const COLUMNS: usize = 72;
/// Rows of the chart, about.
const ROWS: usize = 12;

/// A range of numbers on a logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    cells: usize,
}

impl Axis {
    /// An axis with room around the numbers.
    fn around(numbers: &[f64], room: f64, cells: usize) -> Axis {
        let logs = numbers.iter().filter(|number| **number > 0.0).map(|number| number.log2());
        let (low, high) =
            logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| (low.min(log), high.max(log)));
        Axis { low: (low - room).floor(), high: (high + room).ceil(), cells }
    }

    /// The same axis with a whole number of cells for each doubling, about as many as before.
    fn with_whole_doublings(self) -> Axis {
        let doublings = (self.high - self.low).max(1.0) as usize;
        Axis { cells: doublings * (self.cells / doublings).max(1) + 1, ..self }
    }

    /// The cell of a number, which is kept inside the axis.
    fn cell(&self, number: f64) -> usize {
        let share = (number.log2() - self.low) / (self.high - self.low);
        ((share * (self.cells - 1) as f64).round().max(0.0) as usize).min(self.cells - 1)
    }

    /// The number in the middle of a cell.
    fn number(&self, cell: usize) -> f64 {
        (self.low + (self.high - self.low) * cell as f64 / (self.cells - 1) as f64).exp2()
    }
}

/// Where the marks stand: letter, intensity, operations per second, name.
pub fn marks<'a>(roofline: &Roofline, labels: &'a Labels) -> Vec<(char, f64, f64, &'a str)> {
    let mut marks = vec![
        ('o', roofline.requested.intensity, roofline.requested.attainable, labels.chart_requested),
        ('x', roofline.perfect_caches.intensity, roofline.perfect_caches.attainable, labels.chart_perfect),
    ];
    // Nobody knows how many bytes the caches let through, so the speed is drawn where it would be if none helped.
    if let Some(measured) = roofline.measured {
        marks.push(('*', roofline.requested.intensity, measured, labels.chart_measured));
    }
    marks
}

/// The roof of shared memory and L1 in operations per second, if it's known and lower than that of arithmetic.
pub fn unit_roof(roofline: &Roofline) -> Option<f64> {
    roofline.shared_and_l1.map(|unit| unit.attainable).filter(|attainable| *attainable < roofline.peak)
}

/// Draws the roofline.
pub fn text(roofline: &Roofline, labels: &Labels) -> String {
    let marks = marks(roofline, labels);
    let intensities: Vec<f64> = marks.iter().map(|mark| mark.1).chain([roofline.ridge]).collect();
    let x = Axis::around(&intensities, 1.0, COLUMNS);
    let unit = unit_roof(roofline);
    let ends = [roofline.peak, roofline.roof(x.number(0))];
    let speeds: Vec<f64> = marks.iter().map(|mark| mark.2).chain(ends).chain(unit).collect();
    let y = Axis::around(&speeds, 0.2, ROWS).with_whole_doublings();
    let (rows, doublings) = (y.cells, (y.high - y.low) as usize);

    let mut cells = vec![vec![' '; COLUMNS]; rows];
    let roof = (0..COLUMNS).map(|column| x.number(column));
    for (column, intensity) in roof.enumerate() {
        let line = if intensity < roofline.ridge { '/' } else { '-' };
        cells[y.cell(roofline.roof(intensity))][column] = line;
    }
    // The roof of the other unit, where it's under that of memory and arithmetic.
    for column in (0..COLUMNS).filter(|column| unit.is_some_and(|unit| unit < roofline.roof(x.number(*column)))) {
        let cell = &mut cells[y.cell(unit.unwrap_or_default())][column];
        if *cell == ' ' {
            *cell = '=';
        }
    }
    for (letter, intensity, speed, _) in &marks {
        cells[y.cell(*speed)][x.cell(*intensity)] = *letter;
    }

    let mut text = format!("{:>9}\n", labels.chart_y);
    for (row, line) in cells.iter().enumerate().rev() {
        // One label per doubling.
        let labelled = row % ((rows - 1) / doublings.max(1)).max(1) == 0;
        let label = if labelled { number(y.number(row) / 1e12) } else { String::new() };
        text.push_str(&format!("{label:>9} |{}\n", line.iter().collect::<String>().trim_end()));
    }
    text.push_str(&format!("{:>9} +{}\n", "", "-".repeat(COLUMNS)));
    let mut scale = vec![' '; COLUMNS + 12];
    // Numbers of up to eight digits, apart from each other.
    let step = (9.0 * (x.high - x.low) / COLUMNS as f64).ceil().max(2.0) as usize;
    for exponent in (x.low as i32..=x.high as i32).step_by(step) {
        let column = x.cell(f64::from(exponent).exp2());
        for (place, character) in scale.iter_mut().skip(column).zip(number(f64::from(exponent).exp2()).chars()) {
            *place = character;
        }
    }
    text.push_str(&format!("{:>9}  {}\n", "", scale.iter().collect::<String>().trim_end()));
    text.push_str(&format!("{:>9}  {}\n", "", labels.chart_x));
    let mut legend: Vec<String> = marks
        .iter()
        .map(|(letter, intensity, speed, name)| {
            format!("{letter} {name} ({}, {:.2} TFLOP/s)", number(*intensity), speed / 1e12)
        })
        .collect();
    legend.extend(unit.map(|unit| format!("= {} ({:.2} TFLOP/s)", labels.chart_shared_and_l1, unit / 1e12)));
    text.push_str(&format!("{:>9}  {}", "", legend.join("   ")));
    text
}

/// A number of three digits or so.
pub fn number(number: f64) -> String {
    let decimals = if number < 1.0 {
        3
    } else if number < 10.0 {
        2
    } else {
        usize::from(number < 100.0)
    };
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{explain::roofline::SharedAndL1, gpus, language::Language, report::explain::text};

    #[test]
    fn the_chart_has_both_points_the_slope_and_the_flat_roof() {
        let roofline = Roofline::new(gpus::default(), 67e12, 2f64.powi(31), 8 << 30, 12 << 20);
        let chart = super::text(&roofline, text::labels(Language::En));
        for part in ["o", "x", "///", "---", "TFLOP/s", "no cache helps (0.25, 1.20 TFLOP/s)"] {
            assert!(chart.contains(part), "{part} is missing in\n{chart}");
        }
        assert!(chart.lines().all(|line| line.chars().count() <= 150), "{chart}");
    }

    #[test]
    fn the_chart_has_the_roof_of_shared_memory_and_l1_under_the_flat_one() {
        let mut roofline = Roofline::new(gpus::default(), 67e12, 2f64.powi(31), 8 << 30, 12 << 20);
        roofline.shared_and_l1 = Some(SharedAndL1 { wavefronts: 1, clock: 1e9, attainable: 9.5e12 });
        let chart = super::text(&roofline, text::labels(Language::En));
        assert!(chart.contains("=====") && chart.contains("= shared memory and L1 (9.50 TFLOP/s)"), "{chart}");
        let row = |part: &str| chart.lines().position(|line| line.contains(part)).unwrap();
        assert!(row("-----") < row("====="), "{chart}");
    }
}
