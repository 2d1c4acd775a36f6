//! How fast a GPU's clock runs right now, and why not faster: NVIDIA's management library, loaded when the program runs.
//!
//! The library, `libnvidia-ml.so.1`, comes with the driver, though not into every container. Without it a measurement
//! knows only how fast the clock could run.

use std::{
    ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void},
    fmt,
    ops::BitOr,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use libloading::Library;
use serde::Serialize;

const LIBRARY: &str = "libnvidia-ml.so.1";

/// `NVML_CLOCK_SM`: the clock of the multiprocessors.
const MULTIPROCESSOR_CLOCK: c_uint = 1;

type Handle = *mut c_void;
type Init = unsafe extern "C" fn() -> c_int;
type ByBus = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
type ClockInfo = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_int;
type Reasons = unsafe extern "C" fn(Handle, *mut c_ulonglong) -> c_int;

/// Why the clock can't be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClocksError {
    /// The library can't be loaded.
    #[error("NVIDIA's management library is not here ({LIBRARY}: {reason})")]
    Missing {
        /// What the system's loader says.
        reason: String,
    },
    /// The library lacks a function.
    #[error("{LIBRARY} has no function {function}")]
    NoFunction {
        /// The function.
        function: &'static str,
    },
    /// One of its functions failed.
    #[error("{call} failed with nvmlReturn_t {status}")]
    Failed {
        /// The function.
        call: &'static str,
        /// What it returned; the library's documentation lists the values under `nvmlReturn_t`.
        status: i32,
    },
}

/// What keeps a clock down: bits of `nvmlClocksEventReasons`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brakes(u64);

impl Brakes {
    /// Those that take speed away, by the bits of `nvml.h`; the others (idle, a clock that somebody has set) don't come
    /// and go under load.
    const NAMES: [(u64, &str); 6] = [
        (0x04, "the power limit"),
        (0x08, "a slowdown by the hardware"),
        (0x20, "the temperature (driver)"),
        (0x40, "the temperature (hardware)"),
        (0x80, "the power supply"),
        (0x10, "another GPU that it keeps step with"),
    ];

    /// Those of a bit mask of NVML.
    pub fn from_bits(bits: u64) -> Brakes {
        Brakes(bits)
    }

    /// What they are, in words.
    pub fn names(self) -> Vec<&'static str> {
        Brakes::NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name).collect()
    }
}

impl BitOr for Brakes {
    type Output = Brakes;

    fn bitor(self, other: Brakes) -> Brakes {
        Brakes(self.0 | other.0)
    }
}

/// One look at a clock.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// The clock of the multiprocessors in MHz.
    pub megahertz: u32,
    /// What keeps it down.
    pub brakes: Brakes,
}

/// The clock of one GPU.
pub struct Clocks {
    device: Handle,
    clock_info: ClockInfo,
    /// In MHz.
    maximum: Option<u32>,
    reasons: Option<Reasons>,
    // The functions are part of it: it goes last. It stays initialised: the process is its only user and ends soon.
    _library: Library,
}

// SAFETY: NVIDIA documents the library's functions as safe to call from several threads at once, and a handle as valid in
// all of them.
unsafe impl Send for Clocks {}
// SAFETY: as above.
unsafe impl Sync for Clocks {}

impl fmt::Debug for Clocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Clocks").field("maximum", &self.maximum).finish_non_exhaustive()
    }
}

impl Clocks {
    /// The clock of the GPU at a place of the PCI bus, as [`crate::device::Hardware`] has it.
    ///
    /// # Errors
    ///
    /// [`ClocksError`] if the library isn't there or doesn't know the GPU.
    pub fn open(bus: &str) -> Result<Clocks, ClocksError> {
        // SAFETY: loading it runs its start-up code, which is NVIDIA's and asks nothing of this program.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
            // The loader's own text is in the source, and begins with the library's name.
            let said = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            let reason = said.strip_prefix(LIBRARY).map_or(said.as_str(), |rest| rest.trim_start_matches([':', ' ']));
            ClocksError::Missing { reason: reason.to_owned() }
        })?;
        let missing = |function| ClocksError::NoFunction { function };
        // SAFETY: the types are those that NVIDIA documents for these functions. The pointers are used only while the
        // library is loaded: `Clocks` holds both.
        let (init, by_bus, clock_info, max_clock_info, reasons) = unsafe {
            (
                *library.get::<Init>(c"nvmlInit_v2").map_err(|_| missing("nvmlInit_v2"))?,
                *library
                    .get::<ByBus>(c"nvmlDeviceGetHandleByPciBusId_v2")
                    .map_err(|_| missing("nvmlDeviceGetHandleByPciBusId_v2"))?,
                *library.get::<ClockInfo>(c"nvmlDeviceGetClockInfo").map_err(|_| missing("nvmlDeviceGetClockInfo"))?,
                library.get::<ClockInfo>(c"nvmlDeviceGetMaxClockInfo").ok().map(|function| *function),
                library.get::<Reasons>(c"nvmlDeviceGetCurrentClocksThrottleReasons").ok().map(|function| *function),
            )
        };
        // SAFETY: it takes nothing and may be called more than once.
        check("nvmlInit_v2", unsafe { init() })?;
        let bus = CString::new(bus).unwrap_or_default();
        let mut device = ptr::null_mut();
        // SAFETY: the text is NUL-terminated, and the pointer is to a variable that outlives the call.
        check("nvmlDeviceGetHandleByPciBusId_v2", unsafe { by_bus(bus.as_ptr(), &mut device) })?;
        let mut megahertz = 0;
        // SAFETY: the handle is the library's, and the pointer is to a variable that outlives the call.
        let known = |function: ClockInfo| unsafe { function(device, MULTIPROCESSOR_CLOCK, &mut megahertz) } == 0;
        let maximum = max_clock_info.is_some_and(known).then_some(megahertz);
        let clocks = Clocks { device, clock_info, maximum, reasons, _library: library };
        clocks.read()?;
        Ok(clocks)
    }

    /// The most that the clock of the multiprocessors goes up to, in MHz.
    pub fn maximum(&self) -> Option<u32> {
        self.maximum
    }

    /// The clock now.
    ///
    /// # Errors
    ///
    /// [`ClocksError::Failed`] if the library doesn't say.
    pub fn read(&self) -> Result<Reading, ClocksError> {
        let mut megahertz = 0;
        // SAFETY: the handle is the library's, and the pointer is to a variable that outlives the call.
        let status = unsafe { (self.clock_info)(self.device, MULTIPROCESSOR_CLOCK, &mut megahertz) };
        check("nvmlDeviceGetClockInfo", status)?;
        let mut bits = 0;
        // SAFETY: as above.
        let known = self.reasons.is_some_and(|reasons| unsafe { reasons(self.device, &mut bits) } == 0);
        Ok(Reading { at: Instant::now(), megahertz, brakes: Brakes(if known { bits } else { 0 }) })
    }
}

fn check(call: &'static str, status: c_int) -> Result<(), ClocksError> {
    if status == 0 { Ok(()) } else { Err(ClocksError::Failed { call, status }) }
}

/// Readings of a clock over some time.
#[derive(Debug, Default)]
pub struct ClockLog {
    readings: Mutex<Vec<Reading>>,
}

/// How often a clock is looked at while something is measured.
const INTERVAL: Duration = Duration::from_millis(2);

impl ClockLog {
    /// Does `work` while another thread looks at the clock and writes down what it sees.
    pub fn during<T>(&self, clocks: Option<&Clocks>, work: impl FnOnce() -> T) -> T {
        let Some(clocks) = clocks else { return work() };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            // Where no thread is to be had, the work is done without a log.
            let _ = thread::Builder::new().spawn_scoped(scope, || {
                while !done.load(Ordering::Relaxed) {
                    if let Ok(reading) = clocks.read() {
                        self.push(reading);
                    }
                    thread::sleep(INTERVAL);
                }
            });
            // The thread must end however the work does.
            let _guard = SetOnDrop(&done);
            work()
        })
    }

    /// Adds a reading.
    pub fn push(&self, reading: Reading) {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
    }

    /// What the clock did during these spans of time; `None` if it was never looked at.
    pub fn within(&self, spans: &[(Instant, Instant)]) -> Option<ClockSummary> {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = |reading: &&Reading| spans.iter().any(|(start, end)| (*start..=*end).contains(&reading.at));
        let (mut megahertz, mut brakes) = (Vec::new(), Brakes::default());
        for reading in readings.iter().filter(inside) {
            megahertz.push(reading.megahertz);
            brakes = brakes | reading.brakes;
        }
        megahertz.sort_unstable();
        let (lowest, highest) = (*megahertz.first()?, *megahertz.last()?);
        Some(ClockSummary { median: megahertz[megahertz.len() / 2], lowest, highest, brakes: brakes.names() })
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a clock did under load, in MHz.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClockSummary {
    /// The middle reading.
    pub median: u32,
    /// The lowest.
    pub lowest: u32,
    /// The highest.
    pub highest: u32,
    /// What kept it down at any time.
    pub brakes: Vec<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readings_during_the_load_count() {
        let (start, log) = (Instant::now(), ClockLog::default());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let readings = [(0, 345, 0x1), (10, 1980, 0), (20, 1755, 0x4), (30, 1965, 0x40), (99, 345, 0x8)];
        for (milliseconds, megahertz, bits) in readings {
            log.push(Reading { at: at(milliseconds), megahertz, brakes: Brakes::from_bits(bits) });
        }
        let brakes = vec!["the power limit", "the temperature (hardware)"];
        let expected = ClockSummary { median: 1965, lowest: 1755, highest: 1980, brakes };
        assert_eq!(log.within(&[(at(5), at(15)), (at(16), at(40))]), Some(expected));
        assert_eq!(log.within(&[(at(50), at(60))]), None);
    }

    #[test]
    fn without_the_library_the_work_is_done_all_the_same() {
        let log = ClockLog::default();
        assert_eq!(log.during(None, || 7), 7);
        if let Err(error) = Clocks::open("nowhere") {
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn an_idle_clock_has_no_brake() {
        assert!(Brakes::from_bits(0x1 | 0x2).names().is_empty());
    }
}
