//! Shows on standard error that long work goes on, where that is a terminal.

use std::{
    borrow::Cow,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use host::device::Device;
use indicatif::{ProgressBar, ProgressStyle};

/// Work that is done by then needs no progress shown.
const PATIENCE: Duration = Duration::from_millis(700);
const INTERVAL: Duration = Duration::from_millis(100);

/// Does `work`, which launches `blocks` blocks on `device`, under a bar that counts them; on a GPU under a spinner.
pub fn launching<T>(device: &Device, blocks: u64, work: impl FnOnce() -> T) -> T {
    let style = "{msg} {wide_bar} {pos} of {len} blocks, {eta} left";
    let style = ProgressStyle::with_template(style).expect("the template is right");
    show(
        move || match device.finished_blocks() {
            Some(_) => ProgressBar::new(blocks).with_style(style).with_message("simulating"),
            None => ProgressBar::new_spinner().with_message("multiplying"),
        },
        |bar| bar.set_position(device.finished_blocks().unwrap_or(0)),
        work,
    )
}

/// Does `work` under a spinner that says what goes on.
pub fn spinning<T>(message: impl Into<Cow<'static, str>>, work: impl FnOnce() -> T) -> T {
    let message = message.into();
    show(|| ProgressBar::new_spinner().with_message(message), |bar| bar.tick(), work)
}

/// Does `work`, which says how many of how many `things` are done, under a bar.
pub fn counting<T>(message: &'static str, things: &'static str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let style = format!("{{msg}} {{wide_bar}} {{pos}} of {{len}} {things}, {{eta}} left");
    let style = ProgressStyle::with_template(&style).expect("the template is right");
    let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let update = |bar: &ProgressBar| {
        bar.set_length(total.load(Ordering::Relaxed));
        bar.set_position(done.load(Ordering::Relaxed));
    };
    let tell = &mut |now: u64, of: u64| {
        total.store(of, Ordering::Relaxed);
        done.store(now, Ordering::Relaxed);
    };
    show(|| ProgressBar::new(0).with_style(style).with_message(message), update, || work(tell))
}

/// Does `work` under a bar of `steps` steps: `work` is given a function to call with what goes on at the start of each.
pub fn stepping<T>(steps: usize, work: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let style = "{wide_bar} {percent} %, {elapsed} gone, {eta} left\n{msg}";
    let style = ProgressStyle::with_template(style).expect("the template is right");
    let bar = ProgressBar::new(steps as u64).with_style(style);
    bar.enable_steady_tick(INTERVAL);
    let result = work(&mut |what| {
        bar.set_message(what.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    result
}

fn show<T>(
    new: impl FnOnce() -> ProgressBar + Send,
    update: impl Fn(&ProgressBar) + Send,
    work: impl FnOnce() -> T,
) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Where no thread is to be had, the work is done without showing its progress.
        let _ = thread::Builder::new().spawn_scoped(scope, move || {
            // An error here other than a timeout means that the work is done.
            let wait = |time| waiting.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout);
            if !wait(PATIENCE) {
                return;
            }
            let bar = new();
            while wait(INTERVAL) {
                update(&bar);
            }
            bar.finish_and_clear();
        });
        let result = work();
        drop(done);
        result
    })
}
