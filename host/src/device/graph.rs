//! CUDA graphs: launches recorded once, to be launched again as one.
//!
//! A launch costs the host a few microseconds, more than a small product takes. What a graph holds follows each other on
//! the GPU without the host, so that the time of many small launches is the GPU's time.

use std::{ffi::c_int, fmt, ptr};

use cust::sys;

use super::{Device, DeviceError, cuda::driver_error};

/// Recorded launches of one device.
pub struct Graph {
    device: Device,
    executable: sys::CUgraphExec,
}

impl fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Graph").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Device {
    /// Records what `work` enqueues on this device instead of running it.
    ///
    /// Everything that is done but once, such as loading a module, should have been done before: inside a graph it may not
    /// be possible. `work` must not wait for the device.
    ///
    /// # Safety
    ///
    /// The memory that the recorded launches use must be there whenever the graph is launched.
    ///
    /// # Errors
    ///
    /// What `work` fails with; [`DeviceError::NotRecordable`] on the simulator, [`DeviceError::Driver`] if the driver
    /// can't record it.
    pub unsafe fn record<E: From<DeviceError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let stream: sys::CUstream = self.raw_stream()?.ok_or(DeviceError::NotRecordable)?.cast();
        // Relaxed: libraries may do what the other modes forbid while they are recorded, such as asking for memory.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is the device's, and its context was made current just now.
        check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream, mode) })?;
        let outcome = work();
        let mut graph = ptr::null_mut();
        // The work may have been with another device too.
        self.raw_stream()?;
        // SAFETY: as above, and the pointer is to a variable that outlives the call.
        let ended = check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(stream, &mut graph) });
        let mut executable = ptr::null_mut();
        let made = outcome.and_then(|()| {
            ended?;
            // SAFETY: the graph was recorded just now, and the pointer is to a variable that outlives the call.
            let status = unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) };
            Ok(check("cuGraphInstantiateWithFlags", status)?)
        });
        if !graph.is_null() {
            // SAFETY: it was recorded just now, and what was made of it is a copy.
            unsafe { sys::cuGraphDestroy(graph) };
        }
        made.map(|()| Graph { device: self.clone(), executable })
    }
}

impl Graph {
    /// Launches everything in the graph and returns without waiting for it.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the driver refuses, or for any failure of earlier launches.
    pub fn launch(&self) -> Result<(), DeviceError> {
        let stream = self.device.raw_stream()?.ok_or(DeviceError::NotRecordable)?.cast();
        // SAFETY: the graph is alive, the stream is one of its context, which is current; that its memory is there is the
        // promise of whoever recorded it.
        let status = unsafe { sys::cuGraphLaunch(self.executable, stream) };
        // A fault of an earlier launch shows up here too, and the device knows whose it was.
        check("cuGraphLaunch", status).map_err(|error| self.device.synchronise().err().unwrap_or(error))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.raw_stream().is_ok() {
            // SAFETY: nothing launches it any more, and the driver waits for what runs of it.
            unsafe { sys::cuGraphExecDestroy(self.executable) };
        }
    }
}

/// The error for what a driver function returned.
fn check(call: &'static str, status: sys::CUresult) -> Result<(), DeviceError> {
    match (status as c_int, libcuda::load()) {
        (0, _) => Ok(()),
        (code, Ok(driver)) => Err(driver_error(driver, call, code)),
        (_, Err(error)) => Err(DeviceError::NoDriver { reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;
    use crate::device::{
        Argument, DeviceSelector,
        cuda::tests::{PTX, on_stand_in_from, shape},
    };

    /// Graphs that the stand-in still has.
    fn left_over() -> c_int {
        // SAFETY: that of the stand-in for the driver takes nothing.
        let left = unsafe {
            libcuda::load().unwrap().function::<unsafe extern "C" fn() -> c_int>(c"cuGraphReleaseUserObject")
        };
        // SAFETY: as above.
        unsafe { left.unwrap()() }
    }

    #[test]
    fn a_graph_runs_when_it_is_launched_and_as_often() {
        let name = "a_graph_runs_when_it_is_launched_and_as_often";
        on_stand_in_from(module_path!(), name, &[], || {
            let device = Device::open(DeviceSelector::Cuda(None)).unwrap();
            let module = device.load_module(PTX).unwrap();
            let buffer = device.upload(&[0_u32]).unwrap();
            let (place, bytes) = (Argument::Pointer(buffer.address()), Argument::U32(4));
            let arguments = [place, place, bytes, Argument::F32(1.0)];
            // SAFETY: the kernel takes these arguments and stays inside the buffer.
            let launch = || unsafe { device.launch(module, "copy", &shape(1, 0), &arguments) };
            // SAFETY: the buffer is there as long as the graph.
            let graph = unsafe { device.record(|| launch().and_then(|()| launch())) }.unwrap();
            assert_eq!(buffer.download().unwrap(), [0]);
            let time = device.time(|| graph.launch()).unwrap();
            assert_eq!((buffer.download().unwrap(), time.as_millis()), (vec![0x0202_0202], 2));
            graph.launch().unwrap();
            assert_eq!(buffer.download().unwrap(), [0x0404_0404]);
            assert_eq!(left_over(), 1);
            drop(graph);
            assert_eq!(left_over(), 0);
        });
    }

    #[test]
    fn work_that_fails_makes_no_graph_and_leaves_the_device_as_it_was() {
        let name = "work_that_fails_makes_no_graph_and_leaves_the_device_as_it_was";
        on_stand_in_from(module_path!(), name, &[], || {
            let device = Device::open(DeviceSelector::Cuda(None)).unwrap();
            let module = device.load_module(PTX).unwrap();
            // SAFETY: there is no kernel of that name.
            let absent = || unsafe { device.launch(module, "absent", &shape(1, 0), &[]) };
            // SAFETY: nothing is recorded.
            let error = unsafe { device.record(absent) }.unwrap_err();
            assert!(error.to_string().contains("no entry point"), "{error}");
            assert_eq!(left_over(), 0);
            // SAFETY: as above.
            assert!(unsafe { device.record(|| Ok::<(), DeviceError>(())) }.unwrap().launch().is_ok());
        });
    }

    #[test]
    fn a_fault_inside_a_graph_is_told() {
        on_stand_in_from(module_path!(), "a_fault_inside_a_graph_is_told", &[], || {
            let device = Device::open(DeviceSelector::Cuda(None)).unwrap();
            let module = device.load_module(PTX).unwrap();
            // SAFETY: the kernel takes nothing, and the stand-in's fault harms nothing.
            let graph = unsafe { device.record(|| device.launch(module, "fault", &shape(1, 0), &[])) }.unwrap();
            graph.launch().unwrap();
            let error = graph.launch().unwrap_err().to_string();
            assert!(error.contains("kernel fault failed") && error.contains("outside every allocation"), "{error}");
        });
    }

    #[test]
    fn the_simulator_records_nothing() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        // SAFETY: nothing is recorded.
        let outcome = unsafe { device.record(|| Ok::<(), DeviceError>(())) };
        assert!(matches!(outcome, Err(DeviceError::NotRecordable)));
        assert_eq!(device.hardware().unwrap(), None);
    }

    #[test]
    fn a_gpus_facts_are_those_of_its_driver() {
        on_stand_in_from(module_path!(), "a_gpus_facts_are_those_of_its_driver", &[], || {
            let hardware = Device::open(DeviceSelector::Cuda(None)).unwrap().hardware().unwrap().unwrap();
            assert_eq!((hardware.multiprocessors, hardware.compute_capability), (132, (9, 0)));
            assert_eq!((hardware.clock, hardware.l2_bytes), (Some(1980), 50 << 20));
            assert_eq!(hardware.bus.as_deref(), Some("0000:1B:00.0"));
        });
    }
}
