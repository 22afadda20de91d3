//! Draws the way in: a box of 70 % in the middle, never more of a passphrase than how long it is.

use ratatui::{
    Frame,
    layout::{Constraint, Flex, Layout, Rect},
    style::Modifier,
    text::{Line, Text},
    widgets::{Block, Padding, Paragraph, Wrap},
};

use super::{
    door::{Door, PLACES, Step},
    theme::{Mood, Theme},
};

/// Words of the recovery phrase in a row.
const ROW: usize = 6;
/// As much of the screen as it needs.
const LEAST: (u16, u16) = (56, 16);

pub(super) fn draw(frame: &mut Frame<'_>, door: &Door, theme: Theme) {
    let area = middle(frame.area(), LEAST);
    let block =
        Block::bordered().title(format!(" {} ", title(door.step))).border_style(theme.accent());
    let mut lines = words(door, theme);
    if !door.fault.is_empty() {
        lines.extend([Line::default(), Line::styled(door.fault.clone(), theme.of(Mood::Bad))]);
    }
    let foot = Line::styled(format!(" {} ", keys(door.step)), Modifier::DIM);
    let text = Paragraph::new(Text::from(lines)).wrap(Wrap { trim: false });
    frame.render_widget(text.block(block.title_bottom(foot).padding(Padding::horizontal(1))), area);
}

/// 70 % of the screen, or all of it where that is too little.
pub(super) fn middle(all: Rect, least: (u16, u16)) -> Rect {
    let share = |length: u16, least: u16| (length * 7 / 10).max(least.min(length));
    let (width, height) = (share(all.width, least.0), share(all.height, least.1));
    let [row] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(all);
    let [area] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(row);
    area
}

fn title(step: Step) -> &'static str {
    match step {
        Step::Again | Step::New => "A passphrase for the store",
        Step::Phrase => "Recovery phrase, shown this once",
        Step::Places => "There is no store yet",
        Step::Unlock => "The store is locked",
    }
}

fn keys(step: Step) -> &'static str {
    match step {
        Step::Again | Step::New | Step::Unlock => "Enter go on   Ctrl-U empty   Esc leave",
        Step::Phrase => "y it is written down",
        Step::Places => "↑↓ choose   Space tick   Enter go on   Esc leave",
    }
}

fn words(door: &Door, theme: Theme) -> Vec<Line<'_>> {
    match door.step {
        Step::Again => field("The same once more:", door),
        Step::New => field("It opens the store, and 12 characters are the least:", door),
        Step::Phrase => phrase(door),
        Step::Places => places(door, theme),
        Step::Unlock => field("Its passphrase:", door),
    }
}

fn field<'a>(question: &'a str, door: &Door) -> Vec<Line<'a>> {
    let dots = "•".repeat(door.typed());
    vec![Line::default(), Line::from(question), Line::default(), Line::from(format!("  {dots}▏"))]
}

fn places(door: &Door, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::default(),
        Line::from("Keyless makes one: values that you type are sealed in it."),
        Line::default(),
        Line::from("  [x] this store"),
    ];
    for (index, (_, name)) in PLACES.iter().enumerate() {
        let tick = if door.ticked[index] { 'x' } else { ' ' };
        let here = index == door.at;
        let mark = if here { '>' } else { ' ' };
        let style = if here { theme.chosen() } else { ratatui::style::Style::new() };
        lines.push(Line::styled(format!("{mark} [{tick}] {name}"), style));
    }
    lines.push(Line::default());
    lines.push(Line::from("What is ticked goes into sources.toml, to be read and never written."));
    lines
}

fn phrase(door: &Door) -> Vec<Line<'_>> {
    let mut lines = vec![
        Line::default(),
        Line::from("Write it down: it opens the store when the passphrase is lost."),
        Line::default(),
    ];
    let all: Vec<&str> = door.phrase.split(' ').collect();
    lines.extend(all.chunks(ROW).map(|row| Line::from(format!("  {}", row.join(" ")))));
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::commands::ui::keys::Press;

    #[test]
    fn nothing_that_is_typed_is_seen() {
        let mut door = Door::unlock();
        "hunter2".chars().for_each(|character| drop(door.press(Press::Char(character))));
        for (width, height) in [(120, 40), (80, 24), (40, 12), (8, 3)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &door, Theme::plain())).unwrap();
            let text = terminal.backend().to_string();
            assert!(!text.contains("hunter2"), "{text}");
            assert!(width < 40 || text.contains("•••••••"), "{text}");
        }
    }
}
