//! The report of `bench` as an SVG picture: speed above, the ratio to cuBLAS below.

use plotters::{coord::Shift, prelude::*};

use super::BenchReport;
use crate::{
    bench::{Contender, Problem},
    language::Language,
};

const WIDTH: u32 = 1000;
const CHART_HEIGHT: u32 = 380;

/// Fonts that have Chinese characters come first, of each system one; who has none of them gets any without serifs.
const FONTS: &str = "Noto Sans CJK SC, Noto Sans SC, PingFang SC, Microsoft YaHei, WenQuanYi Micro Hei, sans-serif";

/// One line of a chart: a contender with its points, by the shape's place.
struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// Where the shapes stand along the horizontal axis.
struct Places {
    shapes: Vec<Problem>,
}

impl Places {
    fn new(shapes: impl Iterator<Item = Problem>) -> Places {
        let mut all: Vec<Problem> = Vec::new();
        for shape in shapes {
            if !all.contains(&shape) {
                all.push(shape);
            }
        }
        Places { shapes: all }
    }

    fn of(&self, shape: Problem) -> f64 {
        self.shapes.iter().position(|known| *known == shape).unwrap_or(0) as f64
    }

    /// The shape at a place, squares by their size; nothing between shapes.
    fn name(&self, place: f64) -> String {
        let near = place.round();
        let shape = ((place - near).abs() < 1e-6 && near >= 0.0).then(|| self.shapes.get(near as usize)).flatten();
        shape.map_or(String::new(), |shape| {
            if *shape == Problem::square(shape.m) { shape.m.to_string() } else { shape.to_string() }
        })
    }
}

/// Draws the report.
///
/// # Errors
///
/// What the drawing library says, in words.
pub fn svg(report: &BenchReport, language: Language) -> Result<String, String> {
    let mut text = String::new();
    draw(&mut text, report, language).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(text: &mut String, report: &BenchReport, language: Language) -> Result<(), Box<dyn std::error::Error>> {
    let counted = report.counts.iter().map(|row| row.shape);
    let places = Places::new(report.rows.iter().map(|row| row.shape).chain(counted));
    let speeds = if report.machine.simulated {
        lines(report.counts.iter().map(|row| (row.contender, places.of(row.shape), Some(100.0 * row.fma_share))))
    } else {
        let speed = |speed: Option<f64>| speed.map(|speed| speed / 1e12);
        lines(report.rows.iter().map(|row| (row.contender, places.of(row.shape), speed(row.operations_per_second))))
    };
    let ratios = lines(report.rows.iter().map(|row| (row.contender, places.of(row.shape), row.ratio)));

    let charts = 1 + u32::from(!ratios.is_empty());
    let root = SVGBackend::with_string(text, (WIDTH, charts * CHART_HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((charts as usize, 1));
    let device = &report.machine.device;
    let speed = if report.machine.simulated {
        language.choose("fused multiply-adds, % of instructions", "融合乘加占指令的百分比")
    } else {
        "TFLOP/s"
    };
    chart(&areas[0], device, speed, &places, &speeds, None, language)?;
    if let Some(area) = areas.get(1) {
        let ratio = language.choose("speed by cuBLAS's", "与 cuBLAS 的速度比");
        chart(area, "", ratio, &places, &ratios, Some(1.0), language)?;
    }
    root.present()?;
    Ok(())
}

/// The points of each contender, in the order of the rows.
fn lines(points: impl Iterator<Item = (&'static str, f64, Option<f64>)>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, place, value) in points {
        let Some(value) = value.filter(|value| value.is_finite()) else { continue };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((place, value)),
            None => lines.push(Line { name, points: vec![(place, value)] }),
        }
    }
    lines
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    axis: &str,
    places: &Places,
    lines: &[Line],
    level: Option<f64>,
    language: Language,
) -> Result<(), Box<dyn std::error::Error>> {
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).chain(level);
    let top = 1.08 * values.fold(0.0, f64::max).max(1e-9);
    let last = places.shapes.len().saturating_sub(1) as f64;
    let mut builder = ChartBuilder::on(area);
    builder.margin(14).x_label_area_size(46).y_label_area_size(62);
    if !title.is_empty() {
        builder.caption(title, (FONTS, 19));
    }
    let mut chart = builder.build_cartesian_2d(-0.4..last + 0.4, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(language.choose("shape, m x n x k", "形状 m x n x k"))
        .y_desc(axis)
        .label_style((FONTS, 12))
        .axis_desc_style((FONTS, 14))
        .x_labels(places.shapes.len().clamp(2, 12))
        .x_label_formatter(&|place| places.name(*place))
        .y_label_formatter(&|value| format!("{value:.1}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    if let Some(level) = level {
        let line = PathElement::new(vec![(-0.4, level), (last + 0.4, level)], BLACK.mix(0.6).stroke_width(1));
        chart.draw_series(std::iter::once(line))?;
    }
    for (index, line) in lines.iter().enumerate() {
        // The library's choice and cuBLAS stand out; kernels share the rest of the colours.
        let (colour, width) = match line.name {
            Contender::CHOSEN => (RGBColor(200, 50, 40), 3),
            Contender::CUBLAS => (RGBColor(40, 40, 40), 3),
            _ => {
                let hue = (0.28 + index as f64 * 0.381_966) % 1.0;
                (rgb(hue), 1)
            }
        };
        let style = ShapeStyle::from(&colour).stroke_width(width);
        chart
            .draw_series(std::iter::once(PathElement::new(line.points.clone(), style)))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], style));
        let dots = line.points.iter().map(|point| Circle::new(*point, 2 + width / 2, colour.filled()));
        chart.draw_series(dots)?;
    }
    if !lines.is_empty() {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font((FONTS, 12))
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}

/// A colour of that hue, dark enough on white.
fn rgb(hue: f64) -> RGBColor {
    let HSLColor(hue, saturation, lightness) = HSLColor(hue, 0.6, 0.45);
    let (red, green, blue) = HSLColor(hue, saturation, lightness).to_backend_color().rgb;
    RGBColor(red, green, blue)
}
