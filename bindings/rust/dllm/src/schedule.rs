//! Noise schedules: how much is masked at time t, and the weight of the loss.

use crate::error::{Error, Result, check};
use crate::handle::{Handle, length, make, with_text};
use crate::options::Options;
use dllm_sys as sys;

/// How much is masked at time t. It never changes: threads may share it.
pub struct Schedule {
    pub(crate) handle: Handle<sys::dllm_schedule>,
}

/// A schedule at some times: one number per time each.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleValues {
    /// The probability that a token is kept.
    pub alpha: Vec<f64>,
    /// Its derivative.
    pub dalpha: Vec<f64>,
    /// The factor of the loss.
    pub weight: Vec<f64>,
}

impl Schedule {
    /// A schedule by name; [`names("schedule")`](crate::names) lists them. Options of kind "schedule".
    ///
    /// # Errors
    /// An unknown name; the hint names the nearest.
    pub fn new(name: &str, options: &Options) -> Result<Self> {
        let handle = options.with_name("schedule", Some(name), |opts| {
            // SAFETY: the options are alive or NULL, `name` ends with a byte 0.
            with_text(name, |name| make(|out, err| unsafe { sys::dllm_schedule_new(name, opts, out, err) }))
        })?;
        Ok(Self { handle })
    }

    /// A schedule of points, interpolated between; `dalpha` and `weight` are derived where they are None.
    ///
    /// # Errors
    /// Columns of different lengths, points that do not fall; the message names the first bad point.
    pub fn table(t: &[f64], alpha: &[f64], dalpha: Option<&[f64]>, weight: Option<&[f64]>) -> Result<Self> {
        let count = t.len();
        if [Some(alpha), dalpha, weight].into_iter().flatten().any(|column| column.len() != count) {
            return Err(Error::invalid(format!("a column does not have the {count} points of t")));
        }
        let start = |column: Option<&[f64]>| column.map_or(std::ptr::null(), <[f64]>::as_ptr);
        // SAFETY: each column is NULL or has `count` numbers.
        let handle = make(|out, err| unsafe {
            let (dalpha, weight) = (start(dalpha), start(weight));
            sys::dllm_schedule_table(t.as_ptr(), alpha.as_ptr(), dalpha, weight, length(count), out, err)
        })?;
        Ok(Self { handle })
    }

    /// The schedule at these times.
    ///
    /// # Errors
    /// A time out of 0 to 1.
    pub fn eval(&self, t: &[f64]) -> Result<ScheduleValues> {
        let column = || vec![0.0; t.len()];
        let mut values = ScheduleValues { alpha: column(), dalpha: column(), weight: column() };
        let (alpha, dalpha) = (values.alpha.as_mut_ptr(), values.dalpha.as_mut_ptr());
        let weight = values.weight.as_mut_ptr();
        // SAFETY: the handle is alive, every column has room for a number per time.
        check(|err| unsafe {
            let count = length(t.len());
            sys::dllm_schedule_eval(self.handle.as_ptr(), t.as_ptr(), count, alpha, dalpha, weight, err)
        })?;
        Ok(values)
    }
}
