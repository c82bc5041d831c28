//! Calls of the kernel's routines by a process: by its function tracer where there is one, else by tracepoints.

use crate::error::ProfileError;
use crate::function_list::FunctionList;
use crate::function_tracer::{FunctionTracer, NoFunctionTracer};
use crate::tracepoint::{TracepointCounters, routines};
use serde::Serialize;
use std::collections::BTreeMap;

/// How calls are counted on this machine by this user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum CallCounting {
    /// The function tracer counts each function of a list.
    FunctionTracer {
        /// The functions.
        functions: FunctionList,
    },
    /// Tracepoints count the routines that contain one.
    Tracepoints {
        /// IDs of the tracepoints, by their routine.
        #[serde(skip)]
        points: BTreeMap<&'static str, u64>,
        /// Why not the function tracer.
        because: String,
    },
    /// Nothing does.
    Nothing {
        /// Why.
        because: String,
    },
}

/// Calls of routines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutineCalls {
    /// Calls of each routine; may be empty if some were lost.
    pub calls: BTreeMap<String, u64>,
    /// Calls that were lost.
    pub lost: u64,
}

impl CallCounting {
    /// What can be used here, best first; each is tried.
    ///
    /// # Errors
    ///
    /// When no function of this kernel matches a pattern of the user's.
    pub fn find(functions: &FunctionList) -> Result<CallCounting, NoFunctionTracer> {
        let because = match FunctionTracer::attach(std::process::id(), functions) {
            Ok(_) => {
                let functions = functions.clone();
                return Ok(CallCounting::FunctionTracer { functions });
            }
            Err(error @ NoFunctionTracer::Unmatched(_)) => return Err(error),
            Err(error) => error.to_string(),
        };
        let points = routines();
        Ok(match points.is_empty() {
            false => CallCounting::Tracepoints { points, because },
            true => CallCounting::Nothing {
                because: format!("{because}; and no tracepoint may be read"),
            },
        })
    }

    /// In a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            CallCounting::FunctionTracer { .. } => "function tracer",
            CallCounting::Tracepoints { .. } => "tracepoints",
            CallCounting::Nothing { .. } => "not counted",
        }
    }

    /// Why it is not the function tracer.
    pub fn because(&self) -> Option<&str> {
        match self {
            CallCounting::FunctionTracer { .. } => None,
            CallCounting::Tracepoints { because, .. } | CallCounting::Nothing { because } => {
                Some(because)
            }
        }
    }
}

/// The counted calls of one process and of the threads it starts later.
#[derive(Debug)]
pub enum CallCounter {
    /// By the function tracer.
    FunctionTracer(FunctionTracer),
    /// By tracepoints.
    Tracepoints(TracepointCounters),
    /// Not at all.
    Nothing,
}

impl CallCounter {
    /// Sets a counter up for `process`.
    ///
    /// # Errors
    ///
    /// When the kernel refuses what it allowed before.
    pub fn attach(counting: &CallCounting, process: u32) -> Result<CallCounter, ProfileError> {
        Ok(match counting {
            CallCounting::FunctionTracer { functions } => {
                CallCounter::FunctionTracer(FunctionTracer::attach(process, functions)?)
            }
            CallCounting::Tracepoints { points, .. } => {
                CallCounter::Tracepoints(TracepointCounters::attach(process, points))
            }
            CallCounting::Nothing { .. } => CallCounter::Nothing,
        })
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn start(&self) -> Result<(), ProfileError> {
        match self {
            CallCounter::FunctionTracer(tracer) => Ok(tracer.start()?),
            CallCounter::Tracepoints(counters) => counters.start(),
            CallCounter::Nothing => Ok(()),
        }
    }

    /// Stops counting; what was counted.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn stop(&self) -> Result<RoutineCalls, ProfileError> {
        match self {
            CallCounter::FunctionTracer(tracer) => Ok(tracer.stop()?),
            CallCounter::Tracepoints(counters) => Ok(RoutineCalls {
                calls: counters.stop(),
                lost: 0,
            }),
            CallCounter::Nothing => Ok(RoutineCalls::default()),
        }
    }
}
