//! Streams and events.
//!
//! The driver's handles are kept as numbers: a stream or event outlives no backend, since its owner keeps that open.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::Duration;

use cust::sys;

use super::super::{DeviceError, RawEvent, RawStream};
use super::CudaBackend;

/// `CU_EVENT_DISABLE_TIMING`: events that only order work are cheaper.
const ONLY_ORDER: u32 = 2;

fn handle<T>(number: usize) -> *mut T {
    ptr::with_exposed_provenance_mut::<c_void>(number).cast()
}

impl CudaBackend {
    /// The driver's handle of a stream.
    pub(super) fn stream(&self, stream: RawStream) -> sys::CUstream {
        if stream == RawStream::DEFAULT { self.stream.as_inner() } else { handle(stream.0) }
    }

    // Of all that follow: the context is current.

    pub(super) fn create_stream(&self) -> Result<RawStream, DeviceError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is to a variable that outlives the call. 0: a stream that plain copies wait for.
        let status = unsafe { sys::cuStreamCreate(&mut stream, 0) };
        self.check_code("cuStreamCreate", status as c_int)?;
        Ok(RawStream(stream.expose_provenance()))
    }

    pub(super) fn delete_stream(&self, stream: RawStream) {
        // SAFETY: `create_stream` gave it, and its owner is being dropped. Its work goes on; the driver releases it
        // after that.
        let _ = unsafe { sys::cuStreamDestroy_v2(handle(stream.0)) };
    }

    pub(super) fn await_stream(&self, stream: RawStream) -> Result<(), DeviceError> {
        // SAFETY: the stream is alive.
        let status = unsafe { sys::cuStreamSynchronize(self.stream(stream)) };
        self.check_code("cuStreamSynchronize", status as c_int)
    }

    fn new_event(&self, flags: u32) -> Result<RawEvent, DeviceError> {
        let mut event = ptr::null_mut();
        // SAFETY: the pointer is to a variable that outlives the call.
        let status = unsafe { sys::cuEventCreate(&mut event, flags) };
        self.check_code("cuEventCreate", status as c_int)?;
        Ok(RawEvent(event.expose_provenance()))
    }

    fn record(&self, event: RawEvent, stream: RawStream) -> Result<(), DeviceError> {
        // SAFETY: both are alive and of this context.
        let status = unsafe { sys::cuEventRecord(handle(event.0), self.stream(stream)) };
        self.check_code("cuEventRecord", status as c_int)
    }

    /// A new event at the stream's present end.
    pub(super) fn create_event(&self, stream: RawStream) -> Result<RawEvent, DeviceError> {
        let event = self.new_event(ONLY_ORDER)?;
        self.record(event, stream).inspect_err(|_| self.delete_event(event))?;
        Ok(event)
    }

    pub(super) fn let_wait(&self, stream: RawStream, event: RawEvent) -> Result<(), DeviceError> {
        // SAFETY: both are alive and of this context.
        let status = unsafe { sys::cuStreamWaitEvent(self.stream(stream), handle(event.0), 0) };
        self.check_code("cuStreamWaitEvent", status as c_int)
    }

    pub(super) fn await_event(&self, event: RawEvent) -> Result<(), DeviceError> {
        // SAFETY: the event is alive.
        let status = unsafe { sys::cuEventSynchronize(handle(event.0)) };
        self.check_code("cuEventSynchronize", status as c_int)
    }

    pub(super) fn delete_event(&self, event: RawEvent) {
        // SAFETY: `new_event` gave it, and its owner is being dropped.
        let _ = unsafe { sys::cuEventDestroy_v2(handle(event.0)) };
    }
}

/// An event that knows when it was reached.
pub(super) struct Timer<'a> {
    gpu: &'a CudaBackend,
    event: RawEvent,
}

impl<'a> Timer<'a> {
    pub(super) fn new(gpu: &'a CudaBackend) -> Result<Timer<'a>, DeviceError> {
        Ok(Timer { gpu, event: gpu.new_event(0)? })
    }

    pub(super) fn record(&self, stream: RawStream) -> Result<(), DeviceError> {
        self.gpu.record(self.event, stream)
    }

    pub(super) fn synchronise(&self) -> Result<(), DeviceError> {
        self.gpu.await_event(self.event)
    }

    /// The time between two that were reached.
    pub(super) fn since(&self, start: &Timer<'_>) -> Result<Duration, DeviceError> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive; the pointer is to a variable that outlives the call.
        let status = unsafe { sys::cuEventElapsedTime(&mut milliseconds, handle(start.event.0), handle(self.event.0)) };
        self.gpu.check_code("cuEventElapsedTime", status as c_int)?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            self.gpu.delete_event(self.event);
        }
    }
}
