//! The whole screen, from its state alone: the rooms, a list and what is chosen in it, the keys, and the dialog over all.

mod dialog;

use ratatui::{
    Frame,
    layout::{Constraint, Direction, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Cell, Paragraph, Row, Table, TableState},
};

use super::{
    app::App,
    pieces::{self, Piece},
    rooms::{self, Room, View},
    theme::{Mood, Theme},
};

/// From so many columns on the list and what is chosen stand side by side.
const WIDE: u16 = 110;
/// In so many columns every room's name has a place.
const NAMED: u16 = 78;
/// Less than this shows nothing that could be decided by.
const LEAST: (u16, u16) = (60, 16);
/// Before the row that is chosen.
const CHOSEN: &str = "> ";
/// Rows that what became of an act takes at most.
const NOTICE: usize = 3;
/// The room's own keys come first; these are everywhere.
const KEYS: &str = "↑↓ choose  PgDn read  Tab room  L lock  q leave";

/// How far a text is read is put right where it would go beyond its end.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let all = frame.area();
    if all.width < LEAST.0 || all.height < LEAST.1 {
        let words = format!(
            "The window is too small: {} by {} is the least. Make it larger, or leave with q: keyless approve asks \
             line by line.",
            LEAST.0, LEAST.1
        );
        let lines = pieces::lay_out(&[Piece::ours(words)], all.width, theme);
        return frame.render_widget(Paragraph::new(lines), all);
    }
    let view = rooms::view(app);
    let notice = notice(app, theme, all.width);
    let foot = u16::try_from(notice.len() + 2).unwrap_or(2);
    let [top, tabs, middle, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(foot),
    ])
    .areas(all);
    frame.render_widget(title(app, theme), top);
    frame.render_widget(rooms_line(app, theme, all.width), tabs);
    let (direction, share) =
        if middle.width >= WIDE { (Direction::Horizontal, 58) } else { (Direction::Vertical, 45) };
    let shares = [Constraint::Percentage(share), Constraint::Percentage(100 - share)];
    let [list, detail] = Layout::new(direction, shares).areas(middle);
    draw_list(frame, list, app, &view, theme);
    app.read = draw_detail(frame, detail, app, &view, theme);
    draw_foot(frame, foot, app, &view, notice, theme);
    if let Some(open) = &mut app.dialog {
        // What is behind it stays in sight, and is not what keys go to.
        frame.buffer_mut().set_style(all, Style::new().add_modifier(Modifier::DIM));
        dialog::draw(frame, open, theme);
    }
}

fn title(app: &App, theme: Theme) -> Line<'static> {
    let waiting = app.seen.waiting.len();
    let style = theme.accent().add_modifier(Modifier::BOLD);
    let words = match waiting {
        0 => " Keyless".to_owned(),
        count => format!(" Keyless   {count} waiting"),
    };
    Line::styled(words, style)
}

/// Every room by its number; the present one stands in brackets, so that no colour is needed to see it. Where there is
/// no room for all names it alone has one.
fn rooms_line(app: &App, theme: Theme, width: u16) -> Line<'static> {
    let one = |(index, room): (usize, Room)| {
        let number = index + 1;
        if room == app.room {
            Span::styled(format!("[{number} {}]", room.name()), theme.chosen())
        } else if width < NAMED {
            Span::styled(format!(" {number}"), Theme::dim())
        } else {
            Span::styled(format!(" {number} {}", room.name()), Theme::dim())
        }
    };
    Room::ALL.into_iter().enumerate().map(one).collect()
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, app: &App, view: &View, theme: Theme) {
    let block = Block::bordered().title(titled(&view.title, area.width));
    if view.rows.is_empty() {
        let lines =
            pieces::lay_out(&[Piece::ours(view.empty)], area.width.saturating_sub(2), theme);
        return frame.render_widget(Paragraph::new(lines).block(block), area);
    }
    let constraints: Vec<Constraint> = view.head.iter().map(|(_, width)| *width).collect();
    let inner = block.inner(area);
    let mark = u16::try_from(CHOSEN.len()).unwrap_or_default();
    let columns = Layout::horizontal(constraints.clone()).spacing(1);
    let columns = columns.split(Rect { width: inner.width.saturating_sub(mark), ..inner });
    let head = view.head.iter().zip(columns.iter());
    let head = head.map(|((name, _), column)| pieces::clipped(name, column.width));
    let head = Row::new(head).style(Theme::dim());
    let rows = view.rows.iter().map(|row| {
        let cells = row.cells.iter().enumerate().map(|(index, words)| {
            let (marked, mood) = row.marked;
            let style = if index == marked { theme.of(mood) } else { Style::new() };
            let clip = match view.head[index].0 {
                "Path" => pieces::clipped_path,
                _ => pieces::clipped,
            };
            Cell::from(Span::styled(clip(words, columns[index].width), style))
        });
        Row::new(cells)
    });
    let table = Table::new(rows, constraints)
        .header(head)
        .block(block)
        .highlight_symbol(CHOSEN)
        .row_highlight_style(theme.chosen());
    let position = app.position(&rooms::keys(app));
    let mut state = TableState::default().with_selected(position);
    frame.render_stateful_widget(table, area, &mut state);
}

/// A title in the border of a box of that width.
fn titled(title: &str, width: u16) -> String {
    format!(" {} ", pieces::clipped(title, width.saturating_sub(4)))
}

fn draw_detail(frame: &mut Frame<'_>, area: Rect, app: &App, view: &View, theme: Theme) -> u16 {
    read(
        frame,
        area,
        (&format!(" {} ", view.about), &view.detail, app.read),
        Block::bordered(),
        theme,
    )
}

/// Text that may be longer than its place: shown from a row on, with where one is said at its end. Gives that row.
fn read(
    frame: &mut Frame<'_>,
    area: Rect,
    (title, text, from): (&str, &[Piece], u16),
    block: Block<'_>,
    theme: Theme,
) -> u16 {
    let mut block = if title.is_empty() { block } else { block.title(title.to_owned()) };
    let inner = block.inner(area);
    let lines = pieces::lay_out(text, inner.width, theme);
    let mut height = usize::from(inner.height);
    if lines.len() > height {
        // Without a border it takes a row of the text's.
        height = usize::from(block.clone().title_bottom(" ").inner(area).height);
    }
    let from = usize::from(from).min(lines.len().saturating_sub(height));
    if lines.len() > height {
        let to = (from + height).min(lines.len());
        let place = format!(" rows {} to {to} of {}, PgDn ", from + 1, lines.len());
        block = block.title_bottom(Line::from(place).right_aligned());
    }
    let shown: Vec<Line<'_>> = lines.into_iter().skip(from).take(height).collect();
    frame.render_widget(Paragraph::new(shown).block(block), area);
    u16::try_from(from).unwrap_or(u16::MAX)
}

/// What became of the last act: it is the only place that says so, so it may take more than a row.
fn notice(app: &App, theme: Theme, width: u16) -> Vec<Line<'static>> {
    let (words, mood) = &app.notice;
    if words.is_empty() {
        return Vec::new();
    }
    let mut rows = pieces::wrapped(words, usize::from(width.saturating_sub(2)));
    if rows.len() > NOTICE {
        let rest = rows.split_off(NOTICE - 1).concat();
        rows.push(pieces::clipped(&rest, width.saturating_sub(2)));
    }
    rows.into_iter().map(|row| Line::styled(format!(" {row}"), theme.of(*mood))).collect()
}

fn draw_foot(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &App,
    view: &View,
    notice: Vec<Line<'static>>,
    theme: Theme,
) {
    let mut lines = notice;
    let own = match (app.is_finding, app.room) {
        (true, Room::Secrets) => {
            format!(" Find: {}▏  Enter done  Esc all", app.secrets_wanted.text)
        }
        (true, _) => format!(" Find: {}▏  Enter done  Esc all", app.log_wanted.text),
        (false, _) => format!(" {}", view.keys),
    };
    for (keys, style) in [(own, theme.of(Mood::Plain)), (format!(" {KEYS}"), Theme::dim())] {
        lines.push(Line::styled(pieces::clipped(&keys, area.width), style));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    fn screen(app: &mut App, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app, Theme::plain())).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn every_room_is_drawn_before_anything_is_known_of_it() {
        for room in Room::ALL {
            let mut app = App { room, ..App::default() };
            for size in [(200, 60), (120, 40), (80, 24), (60, 16)] {
                let text = screen(&mut app, size);
                assert!(text.contains(&format!("{}]", room.name())), "{text}");
                assert!(text.contains(KEYS), "{text}");
            }
        }
    }

    /// As docs/ui.md has it, in the smallest window too.
    #[test]
    fn what_is_cut_says_so() {
        let words = "team/redis/cache has its value; running sessions take it up within seconds.";
        for room in Room::ALL {
            let notice = (words.to_owned(), Mood::Good);
            let mut app = App { room, notice, ..App::default() };
            let drawn = screen(&mut app, (60, 16));
            let text: Vec<&str> = drawn.lines().map(|row| row.trim_matches(['"', ' '])).collect();
            let said = text[12..14].join(" ");
            assert_eq!(said, words, "{drawn}");
            let keys = rooms::view(&app).keys;
            assert!(text[14] == keys || text[14].ends_with('…'), "{drawn}");
            let title = rooms::view(&app).title;
            assert!(text[2].contains(&title) || text[2].contains('…'), "{drawn}");
        }
        let mut app = App { notice: (words.repeat(9), Mood::Bad), ..App::default() };
        let drawn = screen(&mut app, (60, 16));
        assert!(
            drawn.lines().nth(13).unwrap().trim_end_matches(['"', ' ']).ends_with('…'),
            "{drawn}"
        );
    }

    #[test]
    fn every_row_of_a_text_can_be_read() {
        let text: Vec<Piece> = (0..9).map(|row| Piece::ours(format!("row {row}"))).collect();
        for block in [Block::new(), Block::bordered()] {
            let (mut seen, mut from) = (String::new(), 0);
            for _ in 0..9 {
                let mut terminal = Terminal::new(TestBackend::new(40, 5)).unwrap();
                let draw = |frame: &mut Frame<'_>| {
                    let what = ("", &text[..], from + 1);
                    from = read(frame, frame.area(), what, block.clone(), Theme::plain());
                };
                terminal.draw(draw).unwrap();
                seen.push_str(&terminal.backend().to_string());
            }
            assert!(from < 7, "{from}");
            assert!((1..9).all(|row| seen.contains(&format!("row {row}"))), "{seen}");
            assert!(seen.contains("of 9, PgDn"), "{seen}");
        }
    }

    #[test]
    fn a_window_that_is_too_small_says_so() {
        for size in [(59, 24), (80, 15), (20, 8), (1, 1)] {
            let text = screen(&mut App::default(), size);
            assert!(size.0 < 20 || text.contains("The window is"), "{text}");
        }
    }
}
