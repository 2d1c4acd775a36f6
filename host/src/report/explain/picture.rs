//! The roofline as an SVG picture.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    chart::{marks, number, unit_roof},
    text::Labels,
};
use crate::explain::roofline::Roofline;

const SIZE: (u32, u32) = (900, 560);

/// Fonts that have Chinese characters come first, of each system one; who has none of them gets any without serifs.
const FONTS: &str = "Noto Sans CJK SC, Noto Sans SC, PingFang SC, Microsoft YaHei, WenQuanYi Micro Hei, sans-serif";

/// The vertical axis reaches at least so far down from its top that it has several labels, one for each doubling.
const LEAST_RANGE: f64 = 40.0;

/// Draws the roofline. `title` stands above it.
///
/// # Errors
///
/// What the drawing library says, in words.
pub fn svg(roofline: &Roofline, precision: &str, title: &str, labels: &Labels) -> Result<String, String> {
    let mut text = String::new();
    draw(&mut text, roofline, precision, title, labels).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(
    text: &mut String,
    roofline: &Roofline,
    precision: &str,
    title: &str,
    labels: &Labels,
) -> Result<(), Box<dyn std::error::Error>> {
    let marks = marks(roofline, labels);
    let intensities = marks.iter().map(|mark| mark.1).chain([roofline.ridge]);
    let (low, high) = intensities.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let (low, high) = (low / 3.0, high * 3.0);
    let unit = unit_roof(roofline);
    let speeds = marks.iter().map(|mark| mark.2).chain([roofline.roof(low)]).chain(unit);
    let top = roofline.peak * 2.0 / 1e12;
    let bottom = (speeds.fold(f64::INFINITY, f64::min) / 1.5e12).min(top / LEAST_RANGE);

    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONTS, 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d((low..high).log_scale().base(2.0), (bottom..top).log_scale().base(2.0))?;
    chart
        .configure_mesh()
        .x_desc(labels.chart_x)
        .y_desc(labels.chart_y)
        .label_style((FONTS, 13))
        .axis_desc_style((FONTS, 14))
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| number(*y))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    let roof = [low, roofline.ridge, high].map(|x| (x, roofline.roof(x) / 1e12));
    chart.draw_series(std::iter::once(PathElement::new(roof.to_vec(), BLACK.stroke_width(2))))?;
    let (peak, bandwidth) = (number(roofline.peak / 1e12), roofline.bandwidth / 1e12);
    let style = |horizontal, vertical| (FONTS, 13).into_font().color(&BLACK).pos(Pos::new(horizontal, vertical));
    // Beside the lines, where nothing crosses: the flat one from above, the slope from below.
    let flat = (high / 1.05, roofline.peak * 1.06 / 1e12);
    let middle = (low * roofline.ridge).sqrt() * 1.06;
    let slope = (middle, roofline.roof(middle / 1.06) / 1e12);
    let names = [
        Text::new(format!("{peak} TFLOP/s, {precision}"), flat, style(HPos::Right, VPos::Bottom)),
        Text::new(format!("{bandwidth} TB/s"), slope, style(HPos::Left, VPos::Top)),
    ];
    chart.draw_series(names)?;
    if let Some(unit) = unit {
        let colour = RGBColor(120, 80, 160);
        let line = [unit / roofline.bandwidth, high].map(|x| (x.max(low), unit / 1e12));
        chart
            .draw_series(std::iter::once(PathElement::new(line.to_vec(), colour.stroke_width(2))))?
            .label(format!("{}: {:.2} TFLOP/s", labels.chart_shared_and_l1, unit / 1e12))
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    let colours = [RGBColor(200, 60, 40), RGBColor(30, 110, 190), RGBColor(20, 140, 80)];
    for ((_, x, speed, name), colour) in marks.into_iter().zip(colours) {
        let style = ShapeStyle::from(&colour).filled();
        let name = format!("{name}: {:.2}, {:.2} TFLOP/s", x, speed / 1e12);
        chart
            .draw_series(std::iter::once(Circle::new((x, speed / 1e12), 5, style)))?
            .label(name)
            .legend(move |(x, y)| Circle::new((x + 8, y), 5, style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font((FONTS, 13))
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{explain::roofline::SharedAndL1, gpus, language::Language, report::explain::text};

    #[test]
    fn the_picture_is_a_whole_svg_with_its_words() {
        for language in [Language::En, Language::Zh] {
            let roofline = Roofline::new(gpus::default(), 67e12, 2f64.powi(31), 8 << 30, 12 << 20);
            let labels = text::labels(language);
            let picture = svg(&roofline, "f32", "tiled <A & B>", labels).unwrap();
            assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
            for part in [labels.chart_x, labels.chart_requested, "tiled &lt;A &amp; B&gt;"] {
                assert!(picture.contains(part), "{part} is missing");
            }
        }
    }

    #[test]
    fn every_axis_has_several_labels_each_once_and_both_roofs_are_named() {
        // From a kernel without reuse to one that is under the flat roof with and without caches.
        for requested in [8_u64 << 30, 1 << 28, 1 << 24] {
            for gpu in gpus::GPUS {
                let mut roofline = Roofline::new(gpu, gpu.peak_f32, 2f64.powi(31), requested, 12 << 20);
                roofline.shared_and_l1 =
                    Some(SharedAndL1 { wavefronts: 1, clock: 1e9, attainable: gpu.peak_f32 / 7.0 });
                let picture = svg(&roofline, "f32", "tiled", text::labels(Language::En)).unwrap();
                let texts: Vec<&str> = picture.split("</text>").filter_map(|text| text.rsplit('>').next()).collect();
                let labels = |anchor: &str| {
                    let all =
                        picture.split("</text>").filter(|text| text.contains(&format!("text-anchor=\"{anchor}\"")));
                    let all = all.filter_map(|text| text.rsplit('>').next()?.trim().parse::<f64>().ok());
                    all.collect::<Vec<_>>()
                };
                for anchor in ["middle", "end"] {
                    let labels = labels(anchor);
                    let once = labels.iter().enumerate().all(|(at, label)| !labels[..at].contains(label));
                    assert!(labels.len() >= 3 && once, "{} {anchor}: {labels:?}", gpu.name);
                }
                let named = |name: String| texts.iter().any(|text| text.trim() == name);
                assert!(named(format!("{} TFLOP/s, f32", number(gpu.peak_f32 / 1e12))), "{texts:?}");
                assert!(named(format!("{} TB/s", gpu.bandwidth / 1e12)), "{texts:?}");
            }
        }
    }
}
