//! The report of `bench` as an SVG picture: speed above, the ratio to cuBLAS below, over the shapes in ascending order of
//! their multiply-adds.

use gpu_kernels::Precision;
use plotters::{coord::Shift, prelude::*};

use super::BenchReport;
use crate::{
    bench::{Contender, Problem},
    language::Language,
};

const WIDTH: u32 = 1100;
const CHART_HEIGHT: u32 = 380;
/// What the legend takes of the width.
const LEGEND: u32 = 170;
/// The width of a letter of a label, about.
const LETTER: usize = 7;

/// Fonts that have Chinese characters come first, of each system one; who has none of them gets any without serifs.
const FONTS: &str = "Noto Sans CJK SC, Noto Sans SC, PingFang SC, Microsoft YaHei, WenQuanYi Micro Hei, sans-serif";

/// One line of a chart: a contender with its points, by the shape's place.
struct Line<'a> {
    name: &'a str,
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
        all.sort_by_key(Problem::multiply_adds);
        Places { shapes: all }
    }

    /// How many of their names have room beside each other.
    fn labels(&self) -> usize {
        let longest = (0..self.shapes.len()).map(|place| self.name(place as f64).len()).max().unwrap_or(1);
        ((WIDTH - LEGEND) as usize / (LETTER * (longest + 2))).clamp(2, self.shapes.len().max(2))
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
        lines(report.counts.iter().map(|row| {
            let share = match report.machine.precision {
                Precision::F32 => row.fma_share,
                _ => row.mma_share,
            };
            (row.contender.as_str(), places.of(row.shape), Some(100.0 * share))
        }))
    } else {
        let speed = |speed: Option<f64>| speed.map(|speed| speed / 1e12);
        lines(
            report
                .rows
                .iter()
                .map(|row| (row.contender.as_str(), places.of(row.shape), speed(row.operations_per_second))),
        )
    };
    let ratios = lines(report.rows.iter().map(|row| (row.contender.as_str(), places.of(row.shape), row.ratio)));

    let charts = 1 + u32::from(!ratios.is_empty());
    let root = SVGBackend::with_string(text, (WIDTH, charts * CHART_HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(WIDTH - LEGEND);
    let areas = left.split_evenly((charts as usize, 1));
    let title = format!("{}, {}", report.machine.device, report.machine.precision.name());
    let speed = if report.machine.simulated {
        match report.machine.precision {
            Precision::F32 => language.choose("fused multiply-adds, % of instructions", "融合乘加占指令的百分比"),
            _ => language.choose("products of tensor cores, % of instructions", "mma 占指令的百分比"),
        }
    } else {
        "TFLOP/s"
    };
    chart(&areas[0], &title, speed, &places, &speeds, None, language)?;
    if let Some(area) = areas.get(1) {
        let ratio = language.choose("speed by cuBLAS's", "与 cuBLAS 的速度比");
        chart(area, "", ratio, &places, &ratios, Some(1.0), language)?;
    }
    for (index, line) in speeds.iter().enumerate() {
        let (y, style) = (52 + 18 * index as i32, style(line.name, index));
        right.draw(&PathElement::new(vec![(6, y), (26, y)], style))?;
        right.draw(&Text::new(line.name, (32, y - 7), (FONTS, 13).into_font()))?;
    }
    root.present()?;
    Ok(())
}

/// How a contender's line looks. The library's choice and cuBLAS stand out; kernels share the rest of the colours.
fn style(name: &str, index: usize) -> ShapeStyle {
    match name {
        Contender::CHOSEN => RGBColor(200, 50, 40).stroke_width(3),
        Contender::CUBLAS => RGBColor(40, 40, 40).stroke_width(3),
        // Steps of the golden ratio keep neighbours apart.
        _ => HSLColor((0.3 + index as f64 * 0.618_034) % 1.0, 0.65, 0.42).stroke_width(1),
    }
}

/// The points of each contender, in the order of the rows.
fn lines<'a>(points: impl Iterator<Item = (&'a str, f64, Option<f64>)>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for (name, place, value) in points {
        let Some(value) = value.filter(|value| value.is_finite()) else { continue };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((place, value)),
            None => lines.push(Line { name, points: vec![(place, value)] }),
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    lines
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    axis: &str,
    places: &Places,
    lines: &[Line<'_>],
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
        .x_labels(places.labels())
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
        let style = style(line.name, index);
        chart.draw_series(std::iter::once(PathElement::new(line.points.clone(), style)))?;
        let dots = line.points.iter().map(|point| Circle::new(*point, 2 + style.stroke_width / 2, style.filled()));
        chart.draw_series(dots)?;
    }
    Ok(())
}
