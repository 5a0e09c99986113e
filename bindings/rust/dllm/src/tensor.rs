//! Arrays in and out of the library; their elements never change.

use crate::error::{Error, Result, check};
use crate::handle::{Handle, length, make};
use dllm_sys as sys;
use std::fmt;

/// Types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float of IEEE 754.
    F16,
    /// The upper half of an F32.
    BF16,
    /// 64-bit float.
    F64,
    /// Whole number of 32 bits.
    I32,
    /// Whole number of 64 bits.
    I64,
    /// Byte.
    U8,
    /// Signed byte.
    I8,
    /// Whole number of 32 bits without a sign.
    U32,
    /// One that this crate has no name for.
    Other(i32),
}

impl DType {
    fn of(number: i32) -> Self {
        match number {
            sys::DLLM_F32 => Self::F32,
            sys::DLLM_F16 => Self::F16,
            sys::DLLM_BF16 => Self::BF16,
            sys::DLLM_F64 => Self::F64,
            sys::DLLM_I32 => Self::I32,
            sys::DLLM_I64 => Self::I64,
            sys::DLLM_U8 => Self::U8,
            sys::DLLM_I8 => Self::I8,
            sys::DLLM_U32 => Self::U32,
            other => Self::Other(other),
        }
    }

    /// Bytes of an element; 0 for [`DType::Other`].
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::U8 | Self::I8 => 1,
            Self::Other(_) => 0,
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Rust types that are elements: f32 f64 i32 i64 u8 i8 u32.
pub trait Element: Copy + Default + sealed::Sealed + 'static {
    /// The element type.
    const DTYPE: DType;
    #[doc(hidden)]
    const NUMBER: i32;
}

macro_rules! elements {
    ($($type:ty: $dtype:ident $number:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            const NUMBER: i32 = sys::$number;
        }
    )*};
}

elements! {
    f32: F32 DLLM_F32;
    f64: F64 DLLM_F64;
    i32: I32 DLLM_I32;
    i64: I64 DLLM_I64;
    u8: U8 DLLM_U8;
    i8: I8 DLLM_I8;
    u32: U32 DLLM_U32;
}

/// An element type, dimensions, and elements in row-major order.
///
/// ```
/// use dllm::{DType, Tensor};
///
/// let tensor = Tensor::new(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!((tensor.dtype(), tensor.shape()), (DType::F32, vec![2, 3]));
/// let row: &[f32] = &tensor.view::<f32>()?[3..]; // no copy: it borrows the tensor
/// assert_eq!(row, [4.0, 5.0, 6.0]);
/// # Ok::<(), dllm::Error>(())
/// ```
///
/// A view does not outlive its tensor: this does not compile.
///
/// ```compile_fail,E0505
/// fn close(tensor: dllm::Tensor) -> dllm::Result<f32> {
///     let values = tensor.view::<f32>()?;
///     drop(tensor);
///     Ok(values[0])
/// }
/// ```
pub struct Tensor {
    pub(crate) handle: Handle<sys::dllm_tensor>,
}

/// The dimensions as the library has them, when they fit the number of elements.
pub(crate) fn dims_of(shape: &[usize], elements: usize) -> Result<Vec<i64>> {
    let product = shape.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
    if product != Some(elements) {
        return Err(Error::invalid(format!("the shape {shape:?} does not have {elements} elements")));
    }
    Ok(shape.iter().map(|extent| length(*extent)).collect())
}

impl Tensor {
    /// A copy of an array; `shape` has as many elements as `values`, `&[]` is one number.
    ///
    /// # Errors
    /// A shape that does not fit, or of more than 8 dimensions.
    pub fn new<T: Element>(shape: &[usize], values: &[T]) -> Result<Self> {
        let dims = dims_of(shape, values.len())?;
        let (rank, data) = (length(dims.len()), values.as_ptr().cast());
        // SAFETY: `data` has product(dims) elements of this type.
        let handle = make(|out, err| unsafe { sys::dllm_tensor_new(T::NUMBER, dims.as_ptr(), rank, data, out, err) })?;
        Ok(Self { handle })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        // SAFETY: the handle is alive.
        DType::of(unsafe { sys::dllm_tensor_dtype(self.handle.as_ptr()) })
    }

    /// The dimensions.
    pub fn shape(&self) -> Vec<usize> {
        let handle = self.handle.as_ptr();
        // SAFETY: the handle is alive.
        let rank = unsafe { sys::dllm_tensor_rank(handle) };
        let extent = |axis| usize::try_from(unsafe { sys::dllm_tensor_dim(handle, axis) }).unwrap_or(0);
        (0..rank).map(extent).collect()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements without a copy.
    ///
    /// # Errors
    /// The elements are of another type; they are not in this host's memory.
    pub fn view<T: Element>(&self) -> Result<&[T]> {
        if self.dtype() != T::DTYPE {
            let message = format!("the elements are {:?}, not {:?}", self.dtype(), T::DTYPE);
            return Err(Error::new(crate::Code::InvalidArgument, message, "read() converts them"));
        }
        let first = self.data()?.cast::<T>();
        if self.is_empty() {
            return Ok(&[]);
        }
        if !first.is_aligned() {
            return Err(Error::invalid("the elements are not aligned; read() copies them"));
        }
        // SAFETY: elements of this type that never change; they are valid while the tensor is, and `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(first, self.len()) })
    }

    /// The bytes of the elements without a copy, for types that Rust does not have (F16, BF16).
    ///
    /// # Errors
    /// They are not in this host's memory.
    pub fn bytes(&self) -> Result<&[u8]> {
        let first = self.data()?;
        let size = self.len() * self.dtype().size();
        if size == 0 {
            return Ok(&[]);
        }
        // SAFETY: as in view, of any type.
        Ok(unsafe { std::slice::from_raw_parts(first.cast(), size) })
    }

    fn data(&self) -> Result<*const std::ffi::c_void> {
        // SAFETY: the handle is alive.
        let first = unsafe { sys::dllm_tensor_data(self.handle.as_ptr()) };
        if first.is_null() && !self.is_empty() {
            return Err(Error::invalid("the elements are not in host memory; read() copies them"));
        }
        Ok(first)
    }

    /// A copy of all elements, converted to `T`: floats are rounded, whole numbers must fit.
    ///
    /// # Errors
    /// A conversion that would lose more than rounding.
    pub fn read<T: Element>(&self) -> Result<Vec<T>> {
        let mut values = vec![T::default(); self.len()];
        let size = length(std::mem::size_of_val(values.as_slice()));
        let dst = values.as_mut_ptr().cast();
        // SAFETY: the handle is alive, `dst` has room for `size` bytes.
        check(|err| unsafe { sys::dllm_tensor_read(self.handle.as_ptr(), T::NUMBER, dst, size, err) })?;
        Ok(values)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor").field("dtype", &self.dtype()).field("shape", &self.shape()).finish_non_exhaustive()
    }
}
