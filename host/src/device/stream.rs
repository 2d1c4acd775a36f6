//! Streams of work on a device, and the events that order them.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{Backend, DeviceBuffer, DeviceError};

/// A stream as its backend numbers it; 0 is the device's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawStream(pub(super) usize);

impl RawStream {
    pub(super) const DEFAULT: RawStream = RawStream(0);
}

/// An event as its backend numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawEvent(pub(super) usize);

/// A queue of work: what is enqueued on one stream runs in order, what is on different streams may run at the same time.
///
/// Work that needs the results of another stream's has to wait for them: [`record`](Stream::record) an event there and
/// [`wait_for`](Stream::wait_for) it here. Copies between host and device ([`DeviceBuffer`]) wait for all streams. On
/// the simulator work has run when the call that enqueues it returns.
///
/// Clones are handles to the same stream.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Arc<dyn Backend>,
    raw: RawStream,
    scratch: Mutex<Scratch>,
}

/// Device memory that products on a stream use for partial sums when their caller gives none. What is too small for a
/// later product is kept until the stream goes: freeing it would wait for the device.
#[derive(Default)]
pub(crate) struct Scratch {
    outgrown: Vec<DeviceBuffer<f32>>,
    current: Option<DeviceBuffer<f32>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({:#x})", self.raw().0)
    }
}

impl Stream {
    pub(super) fn new(backend: Arc<dyn Backend>, raw: RawStream) -> Stream {
        Stream { inner: Arc::new(Inner { backend, raw, scratch: Mutex::default() }) }
    }

    pub(super) fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    pub(super) fn raw(&self) -> RawStream {
        self.inner.raw
    }

    /// Waits until everything enqueued on it so far has run, and reports any error in that.
    pub fn synchronise(&self) -> Result<(), DeviceError> {
        self.backend().synchronise_stream(self.raw())
    }

    /// Marks this point of the stream.
    pub fn record(&self) -> Result<Event, DeviceError> {
        let event = self.backend().record_event(self.raw())?;
        Ok(Event { backend: Arc::clone(self.backend()), raw: event })
    }

    /// Lets what is enqueued on this stream from now on wait until `event` has been reached. The caller doesn't wait.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OtherDevice`] if the event is another device's.
    pub fn wait_for(&self, event: &Event) -> Result<(), DeviceError> {
        if !Arc::ptr_eq(self.backend(), &event.backend) {
            return Err(DeviceError::OtherDevice { what: "the event" });
        }
        self.backend().wait_for_event(self.raw(), event.raw)
    }

    /// The time that the work which `work` enqueues on this stream takes on the device: between two events on a GPU, by
    /// the clock on the simulator.
    pub fn time(&self, mut work: impl FnMut() -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
        self.backend().time(self.raw(), &mut work)
    }

    /// The GPU's `CUstream`, for libraries that enqueue work of their own, after its context was made the current one of
    /// this thread; `None` on the simulator. It is valid as long as the stream is.
    pub fn cuda_stream(&self) -> Result<Option<*mut std::ffi::c_void>, DeviceError> {
        self.backend().cuda_stream(self.raw())
    }

    /// This stream's own memory for partial sums, to enqueue launches that use it while nobody else does.
    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        // Whatever panicked while it was held left a buffer or none.
        self.inner.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.raw != RawStream::DEFAULT {
            self.backend.destroy_stream(self.raw);
        }
    }
}

impl Scratch {
    /// The address of at least `elements` elements that stay where they are as long as the stream does.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`].
    pub(crate) fn at_least(&mut self, stream: &Stream, elements: usize) -> Result<u64, DeviceError> {
        match &self.current {
            Some(buffer) if buffer.len() >= elements => Ok(buffer.address()),
            current => {
                // Twice as much as before, if it can be had, so that there are few of them.
                let ample = elements.max(current.as_ref().map_or(0, |buffer| buffer.len().saturating_mul(2)));
                let buffer = DeviceBuffer::allocate(stream.backend(), ample)
                    .or_else(|_| DeviceBuffer::allocate(stream.backend(), elements))?;
                let address = buffer.address();
                self.outgrown.extend(self.current.replace(buffer));
                Ok(address)
            }
        }
    }
}

/// A point in a stream's work.
pub struct Event {
    backend: Arc<dyn Backend>,
    raw: RawEvent,
}

impl fmt::Debug for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Event({:#x})", self.raw.0)
    }
}

impl Event {
    /// Waits until the work before it has run, and reports any error in that.
    pub fn synchronise(&self) -> Result<(), DeviceError> {
        self.backend.synchronise_event(self.raw)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.backend.destroy_event(self.raw);
    }
}
