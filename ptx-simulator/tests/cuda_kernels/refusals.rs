//! What can't be simulated is refused when the module is loaded, by name and line.

use crate::ptx;
use crate::support::Module;

fn refusal(ptx: &str) -> String {
    match Module::parse(ptx) {
        Ok(_) => panic!("the module should be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn recursion_is_refused() {
    let text = refusal(ptx!("refused_recursion"));
    assert!(text.contains("recurs") && text.contains("ackermann") && text.contains("line"), "{text}");
}

#[test]
fn printf_is_refused_by_name() {
    let text = refusal(ptx!("refused_printf"));
    assert!(text.contains("vprintf") && text.contains("line"), "{text}");
}

#[test]
fn calls_through_pointers_are_refused() {
    let text = refusal(ptx!("refused_indirect"));
    assert!(text.contains("call") && text.contains("line"), "{text}");
}
