//! The roofline as an SVG picture.

use plotters::prelude::*;

use super::{chart::marks, text::Labels};
use crate::explain::roofline::Roofline;

const SIZE: (u32, u32) = (900, 560);

/// Draws the roofline. `title` stands above it.
///
/// # Errors
///
/// What the drawing library says, in words.
pub fn svg(roofline: &Roofline, title: &str, labels: &Labels) -> Result<String, String> {
    let mut text = String::new();
    draw(&mut text, roofline, title, labels).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(
    text: &mut String,
    roofline: &Roofline,
    title: &str,
    labels: &Labels,
) -> Result<(), Box<dyn std::error::Error>> {
    let marks = marks(roofline, labels);
    let intensities = marks.iter().map(|mark| mark.1).chain([roofline.ridge]);
    let (low, high) = intensities.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let (low, high) = (low / 3.0, high * 3.0);
    let speeds = marks.iter().map(|mark| mark.2).chain([roofline.roof(low)]);
    let bottom = speeds.fold(f64::INFINITY, f64::min) / 1.5e12;
    let top = roofline.peak * 2.0 / 1e12;

    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d((low..high).log_scale(), (bottom..top).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(labels.chart_x)
        .y_desc(labels.chart_y)
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|y| plain(*y))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    let roof = [low, roofline.ridge, high].map(|x| (x, roofline.roof(x) / 1e12));
    chart.draw_series(std::iter::once(PathElement::new(roof.to_vec(), BLACK.stroke_width(2))))?;
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
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A number of an axis without superfluous zeros.
fn plain(number: f64) -> String {
    if number >= 1.0 {
        return format!("{number:.0}");
    }
    format!("{number:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gpus, language::Language, report::explain::text};

    #[test]
    fn the_picture_is_a_whole_svg_with_its_words() {
        for language in [Language::En, Language::Zh] {
            let roofline = Roofline::new(gpus::default(), 2f64.powi(31), 8 << 30, 12 << 20);
            let labels = text::labels(language);
            let picture = svg(&roofline, "tiled <A & B>", labels).unwrap();
            assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
            for part in [labels.chart_x, labels.chart_requested, "tiled &lt;A &amp; B&gt;"] {
                assert!(picture.contains(part), "{part} is missing");
            }
        }
    }
}
