# Every library dllm is built from, and why it is missing when it is. docs/dependencies.md says why each was chosen.
function(dllm_missing what package)
  message(FATAL_ERROR "${what} not found. Install it: sudo apt-get install ${package}"
                      " (./scripts/build does this for you)")
endfunction()

find_package(Threads REQUIRED)
find_package(fmt QUIET)
if(NOT TARGET fmt::fmt)
  dllm_missing(fmt libfmt-dev)
endif()
find_package(nlohmann_json QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)
  dllm_missing(nlohmann-json nlohmann-json3-dev)
endif()
find_package(ZLIB QUIET)
if(NOT TARGET ZLIB::ZLIB)
  dllm_missing(zlib zlib1g-dev)
endif()
# With GCC it is a part of the compiler, with clang the package libomp-dev. Not in a library that travels alone, and the
# thread sanitizer cannot see its locks.
find_package(OpenMP QUIET COMPONENTS CXX)
set(DLLM_HAS_OPENMP OFF)
if(DLLM_OPENMP AND OpenMP_CXX_FOUND AND NOT DLLM_SELF_CONTAINED AND NOT "thread" IN_LIST DLLM_SANITIZE)
  set(DLLM_HAS_OPENMP ON)
endif()

# Only libdllm_mpi.so links it; without it ranks are threads of one process.
set(DLLM_HAS_MPI OFF)
if(DLLM_MPI)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND) # FindMPI makes its targets also when it finds nothing
    set(DLLM_HAS_MPI ON)
  endif()
endif()

find_package(PkgConfig REQUIRED)
foreach(dependency "HWY libhwy libhwy-dev" "PCRE2 libpcre2-8 libpcre2-dev" "UTF8PROC libutf8proc libutf8proc-dev"
                   "FFI libffi libffi-dev")
  separate_arguments(parts UNIX_COMMAND "${dependency}")
  list(GET parts 0 prefix)
  list(GET parts 1 module)
  list(GET parts 2 package)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
  if(NOT TARGET PkgConfig::${prefix})
    dllm_missing(${module} ${package})
  endif()
endforeach()
if(DLLM_SELF_CONTAINED)
  include(DllmSelfContained)
endif()
# Line editing of `dllm repl`: a build without it reads plain lines.
if(DLLM_LIBEDIT)
  pkg_check_modules(EDIT QUIET IMPORTED_TARGET libedit)
endif()
# Parquet files that zstd compressed: a build without it refuses them by name. Not in a library that travels alone.
if(DLLM_ZSTD AND NOT DLLM_SELF_CONTAINED)
  pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
endif()

if(DLLM_ONEDNN)
  # By hand: Debian's dnnl-config.cmake stops the whole configuration when OpenCL's headers are missing.
  find_library(DLLM_DNNL_LIBRARY dnnl)
  find_path(DLLM_DNNL_INCLUDE dnnl.hpp)
  if(DLLM_DNNL_LIBRARY AND DLLM_DNNL_INCLUDE)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DLLM_DNNL_LIBRARY}"
                          INTERFACE_INCLUDE_DIRECTORIES "${DLLM_DNNL_INCLUDE}")
  endif()
endif()
if(DLLM_LUA)
  include(Lua)
endif()
if(DLLM_DEVELOPER)
  find_package(Eigen3 3.4 QUIET NO_MODULE) # oracle of products in tests, peer in benches
  if(NOT TARGET Eigen3::Eigen)
    dllm_missing(Eigen3 libeigen3-dev)
  endif()
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest)
    dllm_missing(GoogleTest libgtest-dev)
  endif()
  find_package(benchmark QUIET)
endif()
