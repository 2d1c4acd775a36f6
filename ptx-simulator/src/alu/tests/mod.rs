//! Promises of the arithmetic.

use super::*;

mod engine;
mod exactness;
mod forms;
mod refusals;
mod samples;

/// Selects a form such as `fma.rn.f32`.
fn select_form(form: &str) -> Selected {
    select_form_for(Level::detected(), form)
}

fn select_form_for(level: Level, form: &str) -> Selected {
    let mut parts = form.split('.');
    let opcode = parts.next().expect("an opcode");
    let modifiers: Vec<&str> = parts.collect();
    match select_for(level, opcode, &modifiers, Widths::default()) {
        Ok(selected) => selected,
        Err(refusal) => panic!("{refusal}"),
    }
}
