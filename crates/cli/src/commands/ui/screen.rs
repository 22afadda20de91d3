//! The terminal as a screen: two panes, sixteen colours at most, no mouse. It is put back as it was, also
//! when something fails.

use std::{env, io, time::Duration};

use keyless_core::{Code, Error, SafeText, approval::Asked};
use keyless_daemon::Shown;
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Direction, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Text},
    widgets::{Block, List, ListItem, ListState, Paragraph, Wrap},
};

use super::{
    super::approve::{describe, visible},
    board::{Board, Room},
    door::Door,
    modal,
};

/// Under so many columns the panes stand below each other.
const WIDE: u16 = 90;
const KEYS: &str = "↑↓ choose   PgDn read on   Enter answer   Tab the other list   q leave";

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Down,
    Leave,
    Other,
    ReadBack,
    ReadOn,
    Take,
    Up,
}

/// A key while something is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Press {
    Char(char),
    Down,
    Enter,
    Erase,
    Kill,
    Leave,
    Up,
}

/// The terminal, full screen until this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    accent: Style,
}

impl Screen {
    pub(super) fn enter() -> Result<Self, Error> {
        let terminal = ratatui::try_init().map_err(|error| unusable(&error))?;
        let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let accent = if plain { Style::new() } else { Style::new().fg(Color::Cyan) };
        Ok(Self { terminal, accent })
    }

    pub(super) fn draw(&mut self, board: &Board) -> Result<(), Error> {
        let accent = self.accent;
        let drawn = self.terminal.draw(|frame| draw(frame, board, accent));
        drawn.map(drop).map_err(|error| unusable(&error))
    }

    pub(super) fn draw_door(&mut self, door: &Door) -> Result<(), Error> {
        let accent = self.accent;
        let drawn = self.terminal.draw(|frame| modal::draw(frame, door, accent));
        drawn.map(drop).map_err(|error| unusable(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// The next key; nothing when none came in time, or the window's size has changed.
pub(super) fn next_key(patience: Duration) -> Result<Option<Key>, Error> {
    Ok(next_event(patience)?.and_then(meaning))
}

/// The next key of somebody who types; nothing as above.
pub(super) fn next_press(patience: Duration) -> Result<Option<Press>, Error> {
    Ok(next_event(patience)?.and_then(press))
}

fn next_event(patience: Duration) -> Result<Option<KeyEvent>, Error> {
    if !event::poll(patience).map_err(|error| unusable(&error))? {
        return Ok(None);
    }
    match event::read().map_err(|error| unusable(&error))? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Ok(Some(key)),
        _ => Ok(None),
    }
}

fn press(key: KeyEvent) -> Option<Press> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if control => Some(Press::Leave),
        KeyCode::Char('u') if control => Some(Press::Kill),
        KeyCode::Char(character) if !control => Some(Press::Char(character)),
        KeyCode::Backspace => Some(Press::Erase),
        KeyCode::Down => Some(Press::Down),
        KeyCode::Enter => Some(Press::Enter),
        KeyCode::Esc => Some(Press::Leave),
        KeyCode::Up => Some(Press::Up),
        _ => None,
    }
}

fn meaning(key: KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if control => Some(Key::Leave),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
        KeyCode::Enter => Some(Key::Take),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(Key::ReadOn),
        KeyCode::PageUp => Some(Key::ReadBack),
        KeyCode::Tab | KeyCode::BackTab => Some(Key::Other),
        KeyCode::Esc | KeyCode::Char('q') => Some(Key::Leave),
        _ => None,
    }
}

fn draw(frame: &mut Frame<'_>, board: &Board, accent: Style) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(if board.notice.is_empty() { 1 } else { 2 }),
    ])
    .areas(frame.area());
    let waiting = board.waiting.len();
    let title = format!(" Keyless   {waiting} waiting   {} holding", board.holding.len());
    frame.render_widget(Line::styled(title, accent.add_modifier(Modifier::BOLD)), top);
    let (direction, share) =
        if middle.width >= WIDE { (Direction::Horizontal, 40) } else { (Direction::Vertical, 45) };
    let [left, right] = Layout::new(
        direction,
        [Constraint::Percentage(share), Constraint::Percentage(100 - share)],
    )
    .areas(middle);
    draw_list(frame, left, board, accent);
    draw_request(frame, right, board);
    let keys = Line::styled(format!(" {KEYS}"), Style::new().add_modifier(Modifier::DIM));
    let foot = if board.notice.is_empty() {
        Text::from(keys)
    } else {
        Text::from(vec![Line::styled(format!(" {}", board.notice), accent), keys])
    };
    frame.render_widget(foot, bottom);
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, board: &Board, accent: Style) {
    let title = match board.room {
        Room::Holding => " Approvals and denials ",
        Room::Waiting => " Waiting for you ",
    };
    let block = Block::bordered().title(title);
    if board.rows().is_empty() {
        let words = match board.room {
            Room::Holding => "No approval and no denial is in effect.",
            Room::Waiting => "Nothing waits for an answer.",
        };
        let words = Paragraph::new(words).wrap(Wrap { trim: true }).block(block);
        return frame.render_widget(words, area);
    }
    let rows = board.rows().iter().map(|shown| ListItem::new(row(shown, board.room)));
    let list = List::new(rows)
        .block(block)
        .highlight_symbol("> ")
        .highlight_style(accent.add_modifier(Modifier::REVERSED));
    let mut state = ListState::default().with_selected(board.position());
    frame.render_stateful_widget(list, area, &mut state);
}

fn row(shown: &Shown, room: Room) -> String {
    let left = format!("{}:{:02}", shown.seconds_left / 60, shown.seconds_left % 60);
    let word = match room {
        Room::Holding => shown.status.as_str(),
        Room::Waiting => kind(&shown.asked),
    };
    format!("{word:<9}{left:>6}  {}", visible(&shown.title()))
}

fn kind(asked: &Asked) -> &'static str {
    match asked {
        Asked::ActionApproval { .. } => "action",
        Asked::DeployApply { wanted } => wanted.verb.as_str(),
        Asked::MetadataProposal { .. } => "metadata",
        Asked::NewPathProposal { .. } => "new path",
        Asked::Provision => "value",
        Asked::Rotation => "rotation",
        Asked::UseApproval { .. } => "use",
    }
}

/// The request as `keyless approve` shows it: an agent's words are visible as such, character by character.
fn draw_request(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let text = board.chosen().map(describe).unwrap_or_default();
    let plain = anstream::adapter::strip_str(&text).to_string();
    // What was made visible there is visible here; nothing else may reach the screen's cells.
    let lines: Vec<Line<'_>> = plain.lines().map(|line| Line::from(visible(line))).collect();
    let block = Block::bordered().title(" What is asked ");
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((board.read, 0));
    frame.render_widget(text.block(block), area);
}

fn unusable(error: &io::Error) -> Error {
    let words = SafeText::words("the terminal: ").and(error.kind());
    Error::with(Code::TerminalRequired, words)
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    #[test]
    fn an_empty_board_says_so_at_any_size() {
        for (width, height) in [(120, 40), (80, 24), (40, 12), (8, 3)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &Board::default(), Style::new())).unwrap();
            let text = terminal.backend().to_string();
            assert!(width < 40 || text.contains("Nothing waits for an answer."), "{text}");
            assert!(width < 80 || text.contains(KEYS), "{text}");
        }
    }
}
