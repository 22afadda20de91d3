//! A dialog: 70 % of the screen in the middle, or as much more as it needs.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Clear, Padding, Paragraph},
};

use super::{read, titled};
use crate::commands::ui::{
    dialog::Dialog,
    form::{Field, Form, Kind},
    modal::middle,
    pieces::{self, Piece},
    theme::{Mood, Theme},
};

/// Columns of a field's name.
const NAME: usize = 18;
const LEAST: (u16, u16) = (76, 21);

pub(super) fn draw(frame: &mut Frame<'_>, dialog: &mut Dialog, theme: Theme) {
    let area = middle(frame.area(), LEAST);
    frame.render_widget(Clear, area);
    let mut block = Block::bordered()
        .title(titled(&dialog.title(), area.width))
        .border_style(theme.accent())
        .padding(Padding::horizontal(1));
    if let Some(left) = dialog.time_left() {
        block = block.title(Line::from(format!(" {left} ")).right_aligned());
    }
    let foot = if dialog.takes_keys {
        " Tab next  Enter take  PgDn read on  Esc not now "
    } else {
        " … "
    };
    let block = block.title_bottom(Line::styled(foot, Theme::dim()));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let form = &dialog.form;
    let fault = fault(form, inner.width, theme);
    let fields = u16::try_from(form.fields.len()).unwrap_or(u16::MAX);
    let help = u16::from(fields > 0);
    let [body, mid, says, wrong, buttons] = Layout::vertical([
        Constraint::Min(3),
        Constraint::Length(fields),
        Constraint::Length(help),
        Constraint::Length(u16::try_from(fault.len()).unwrap_or(u16::MAX)),
        Constraint::Length(2),
    ])
    .areas(inner);
    draw_fields(frame, mid, form, theme);
    let help = pieces::clipped(&dialog.help(), says.width);
    frame.render_widget(Line::styled(help, Theme::dim()), says);
    frame.render_widget(Paragraph::new(fault), wrong);
    draw_buttons(frame, buttons, form, theme);
    let from = dialog.form.read;
    dialog.form.read = read(frame, body, ("", &dialog.body(), from), Block::new(), theme);
}

fn fault(form: &Form, width: u16, theme: Theme) -> Vec<Line<'static>> {
    if form.fault.is_empty() {
        return Vec::new();
    }
    pieces::lay_out(&[Piece::Ours(form.fault.clone(), Mood::Bad)], width, theme)
}

fn draw_fields(frame: &mut Frame<'_>, area: Rect, form: &Form, theme: Theme) {
    let lines = form.fields.iter().enumerate().map(|(index, field)| {
        let here = index == form.at;
        let style = if here { theme.chosen() } else { Style::new() };
        let mark = if here { "> " } else { "  " };
        let room = usize::from(area.width).saturating_sub(NAME + 4);
        match &field.kind {
            Kind::Tick(is_on) => {
                let tick = if *is_on { 'x' } else { ' ' };
                let words = format!("{mark}[{tick}] {}", field.label);
                Line::styled(pieces::clipped(&words, area.width), style)
            }
            kind => {
                let name = Span::raw(format!("{mark}{:<NAME$}", field.label));
                let written = match kind {
                    Kind::Choice { .. } => {
                        let room = u16::try_from(room + 2).unwrap_or(u16::MAX);
                        pieces::clipped(&written(field, kind, usize::from(room), here), room)
                    }
                    kind => written(field, kind, room, here),
                };
                Line::from(vec![name, Span::styled(written, style)])
            }
        }
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// What a field holds, as much of its end as there is room for.
fn written(field: &Field, kind: &Kind, room: usize, here: bool) -> String {
    let cursor = if here { "▏" } else { "" };
    let text = match kind {
        Kind::Choice { options, at } => {
            return format!("‹ {} ›  {} of {}", options[*at], at + 1, options.len());
        }
        Kind::Hidden { text, is_shown: true } => crate::commands::approve::visible(text),
        Kind::Hidden { text, is_shown: false } => "•".repeat(text.chars().count()),
        Kind::Line(text) => text.clone(),
        Kind::Tick(_) => field.label.clone(),
    };
    let skipped = text.chars().count().saturating_sub(room.saturating_sub(1));
    format!("{}{cursor}", text.chars().skip(skipped).collect::<String>())
}

fn draw_buttons(frame: &mut Frame<'_>, area: Rect, form: &Form, theme: Theme) {
    let mut spans = Vec::new();
    for (index, (_, label)) in form.buttons.iter().enumerate() {
        let here = form.fields.len() + index == form.at;
        let (style, words) = if here {
            (theme.chosen(), format!(">[ {label} ]"))
        } else {
            (Style::new(), format!(" [ {label} ]"))
        };
        spans.push(Span::styled(words, style));
        spans.push(Span::raw(" "));
    }
    frame.render_widget(Paragraph::new(vec![Line::default(), Line::from(spans)]), area);
}
