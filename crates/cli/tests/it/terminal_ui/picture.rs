//! A window as a picture for the documentation: what tmux says of its cells, drawn as SVG. `KEYLESS_BLESS=1` puts it
//! there.

use std::{env, fmt::Write as _, fs, path::Path};

use super::tmux::Window;

const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 17.0;
const EDGE: f32 = 12.0;
/// The sixteen colours, light on dark.
const COLOURS: [&str; 16] = [
    "#1c2128", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#c9d1d9",
    "#6e7681", "#ffa198", "#aff5b4", "#f2cc60", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#ffffff",
];
const GROUND: &str = "#0d1117";
const TEXT: &str = "#c9d1d9";

/// How a cell looks.
#[derive(Clone, Copy, Default, PartialEq)]
struct Look {
    colour: Option<usize>,
    bold: bool,
    dim: bool,
    reversed: bool,
}

/// Puts a picture of the window at 100 by 30 into the documentation's folder, when pictures are to be put there.
pub(crate) fn keep(window: &Window<'_>, name: &str) {
    if env::var_os("KEYLESS_BLESS").is_none() {
        return;
    }
    window.resize(100, 30);
    window.fills(100, 30);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    fs::write(folder.join(format!("{name}.svg")), svg(&window.screen(true), (100, 30))).unwrap();
}

fn svg(screen: &str, (columns, rows): (u16, u16)) -> String {
    let (width, height) =
        (f32::from(columns) * WIDTH + 2.0 * EDGE, f32::from(rows) * HEIGHT + 2.0 * EDGE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, \
         Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" \
         fill=\"{GROUND}\"/>\n"
    );
    let mut look = Look::default();
    for (row, line) in screen.lines().enumerate() {
        let mut column = 0;
        for (words, style) in runs(line, &mut look) {
            let count = words.chars().count();
            draw(&mut svg, (column, row), &words, style);
            column += count;
        }
    }
    svg + "</svg>\n"
}

#[expect(clippy::cast_precision_loss, reason = "a window has some hundred cells a row")]
fn draw(svg: &mut String, (column, row): (usize, usize), words: &str, look: Look) {
    let (x, y) = (EDGE + column as f32 * WIDTH, EDGE + row as f32 * HEIGHT);
    let width = words.chars().count() as f32 * WIDTH;
    let colour = look.colour.map_or(TEXT, |colour| COLOURS[colour]);
    if look.reversed {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{colour}\"/>"
        );
    }
    if words.trim().is_empty() {
        return;
    }
    let fill = if look.reversed { GROUND } else { colour };
    let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
    let opacity = if look.dim { " opacity=\"0.55\"" } else { "" };
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let base = y + 13.0;
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\" xml:space=\"preserve\" fill=\"{fill}\"{weight}{opacity}>{words}</text>"
    );
}

/// A line in runs of one look.
fn runs(line: &str, look: &mut Look) -> Vec<(String, Look)> {
    let mut runs: Vec<(String, Look)> = Vec::new();
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        if let Some((codes, after)) =
            rest.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m'))
        {
            look.take(codes);
            rest = after;
            continue;
        }
        match runs.last_mut().filter(|(_, before)| before == look) {
            Some((words, _)) => words.push(character),
            None => runs.push((character.to_string(), *look)),
        }
        rest = &rest[character.len_utf8()..];
    }
    runs
}

impl Look {
    fn take(&mut self, codes: &str) {
        let mut codes = codes.split(';').map(|code| code.parse::<usize>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                7 => self.reversed = true,
                22 => (self.bold, self.dim) = (false, false),
                27 => self.reversed = false,
                30..=37 => self.colour = Some(code - 30),
                38 => self.colour = codes.nth(1),
                39 => self.colour = None,
                90..=97 => self.colour = Some(code - 82),
                _ => {}
            }
        }
    }
}

#[test]
fn what_stands_in_a_cell_is_drawn_and_nothing_else() {
    let drawn = svg("\u{1b}[1m\u{1b}[38;5;6mKey<less\u{1b}[0m  ok", (20, 1));
    assert!(drawn.contains("fill=\"#56d4dd\" font-weight=\"bold\">Key&lt;less</text>"), "{drawn}");
    assert!(drawn.contains(">  ok</text>") && !drawn.contains('\u{1b}'), "{drawn}");
}
