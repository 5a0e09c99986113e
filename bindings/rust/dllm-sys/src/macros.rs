//! What the tables of `raw.rs` become: opaque types, and functions that are linked or looked up.

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[doc = concat!("The object behind a `", stringify!($name), " *`.")]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _data: [u8; 0],
            _marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )*};
}

#[cfg(feature = "link")]
macro_rules! functions {
    ($(
        #[doc = $doc:literal]
        #[threads($word:ident)]
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        unsafe extern "C" {
            $(#[doc = $doc] pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }
        table_of_functions!($($name $word)*);
    };
}

#[cfg(not(feature = "link"))]
macro_rules! functions {
    ($(
        #[doc = $doc:literal]
        #[threads($word:ident)]
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        /// The functions of an open library.
        pub(crate) struct Api {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Api {
            /// Looks every function up; `Err` has the names that are missing.
            pub(crate) fn find(symbol: &dyn Fn(&std::ffi::CStr) -> *mut c_void) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                let mut find = |name: &'static str, ended: &'static [u8]| {
                    let address = std::ffi::CStr::from_bytes_with_nul(ended).map_or(std::ptr::null_mut(), symbol);
                    if address.is_null() {
                        missing.push(name);
                    }
                    address
                };
                $(let $name = find(stringify!($name), concat!(stringify!($name), "\0").as_bytes());)*
                if !missing.is_empty() {
                    return Err(missing);
                }
                // SAFETY: none is null, and the manifest says that each symbol has this signature.
                unsafe {
                    Ok(Self {
                        $($name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>($name),)*
                    })
                }
            }
        }

        $(
            #[doc = $doc]
            #[inline]
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the caller keeps what the header of the function requires.
                unsafe { (load::api().$name)($($argument),*) }
            }
        )*
        table_of_functions!($($name $word)*);
    };
}

macro_rules! table_of_functions {
    ($($name:ident $word:ident)*) => {
        /// Every function of the library, in the order of its headers.
        pub static FUNCTIONS: &[Function] =
            &[$(Function { name: stringify!($name), threads: Threads::$word },)*];
    };
}
