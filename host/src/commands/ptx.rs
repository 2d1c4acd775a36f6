//! Print the PTX that this build carries.

use anyhow::Context;
use host::{
    kernels, ptx,
    report::{PtxLevels, PtxReport, PtxText},
};

use crate::cli::PtxArguments;

pub fn run(arguments: &PtxArguments) -> anyhow::Result<PtxReport> {
    let levels: Vec<_> = ptx::MODULES.iter().map(|module| module.name).collect();
    if arguments.list {
        return Ok(PtxReport::Levels(PtxLevels { levels }));
    }
    if let Some(name) = &arguments.kernel {
        let kernel = kernels::by_name_or_exercise(name)?.any();
        let module = ptx::module_with(kernel.entry).expect("every kernel of the list is in a module");
        let text = module.cut(kernel.entry).expect("the module has the entry");
        return Ok(PtxReport::Text(PtxText { level: module.name, text: text.into() }));
    }
    let wanted = arguments.level.as_deref().unwrap_or(levels[0]);
    let module = ptx::MODULES.iter().find(|module| module.name == wanted);
    let module =
        module.with_context(|| format!("there is no PTX level '{wanted}'; this build has {}", levels.join(", ")))?;
    Ok(PtxReport::Text(PtxText { level: module.name, text: module.text.into() }))
}
