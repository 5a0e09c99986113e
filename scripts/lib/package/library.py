"""What a built libdllm.so needs from the system, and which files go with it into a package."""
import pathlib
import platform
import re
import subprocess
import sys
import zipfile

# On every system with glibc, as the manylinux policies of pypa/auditwheel have it.
EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libz|ld-linux.*)\.so(\.\d+)?$")
# (last version of libstdc++, glibc of the first system that has it), from the same policies.
LIBSTDCXX = [((3, 4, 28), (2, 31)), ((3, 4, 29), (2, 34)), ((3, 4, 30), (2, 35)), ((3, 4, 32), (2, 38)),
             ((3, 4, 33), (2, 39))]


def readelf(file):
    return subprocess.run(["readelf", "-d", "-V", "-W", str(file)], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(file))


def soname(file):
    return re.search(r"\(SONAME\).*\[(.*)\]", readelf(file)).group(1)


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def bundle(library):
    """(files, missing): {name in the package: file} of the library and those that lie next to it and are
    needed; names that have to be on the system."""
    library = pathlib.Path(library).resolve()
    files, missing, queue = {soname(library): library}, set(), [library]
    finds_neighbours = "$ORIGIN" in readelf(library)
    while queue:
        for name in needed(queue.pop()):
            near = library.parent / name
            if EVERYWHERE.match(name) or name in files:
                continue
            if finds_neighbours and near.exists():
                files[name] = near.resolve()
                queue.append(files[name])
            else:
                missing.add(name)
    return dict(sorted(files.items())), sorted(missing)


def newest(prefix, file):
    """The last version of the symbols GLIBC or GLIBCXX that a file needs; (0,) for none."""
    return max([(0,)] + [numbers(version) for version in re.findall(rf"Name: {prefix}_([\d.]+)", readelf(file))])


def glibc_floor(files):
    """The oldest glibc, as (major, minor), whose systems have every symbol version that these files need."""
    floor = (2, 5)
    for file in files:
        floor = max(floor, newest("GLIBC", file)[:2])
        standard = newest("GLIBCXX", file)
        if standard > LIBSTDCXX[-1][0]:
            raise SystemExit(f"{file} needs GLIBCXX_{'.'.join(map(str, standard))}, which is in no manylinux "
                             "policy; build with -DDLLM_SELF_CONTAINED=ON")
        if standard > (0,):
            floor = max(floor, next(glibc for last, glibc in LIBSTDCXX if standard <= last))
    return floor


def describe(library):
    """(files, platform tag): as of bundle(); manylinux with the glibc floor, or linux where the system has to
    bring more."""
    files, missing = bundle(library)
    major, minor = glibc_floor(files.values())
    print(f"needs glibc {major}.{minor} or newer" + (f", and on the system: {' '.join(missing)}" if missing else ""),
          file=sys.stderr)
    kind = "linux" if missing else f"manylinux_{major}_{minor}"
    return files, f"{kind}_{platform.machine()}"


def needs(folder):
    """Lines with what the programs and libraries below a folder need of the system: versions, then names of libraries."""
    files = [file for file in sorted(pathlib.Path(folder).rglob("*")) if file.is_file() and not file.is_symlink()
             and file.open("rb").read(4) == b"\x7fELF"]
    lines = []
    for what, prefix in (("glibc", "GLIBC"), ("libstdc++", "GLIBCXX")):
        version = max([(0,)] + [newest(prefix, file) for file in files])
        if version > (0,):
            lines.append(f"{what} {prefix}_{'.'.join(map(str, version))}")
    inside = {soname(file) for file in files if "(SONAME)" in readelf(file)}
    return lines + sorted({name for file in files for name in needed(file)} - inside)


def package_version(root):
    text = (pathlib.Path(root) / "bindings/python/dllm/_version.py").read_text()
    return re.search(r'VERSION = "(.*)"', text).group(1)


def add_to_zip(archive, name, data):
    entry = zipfile.ZipInfo(name)  # of 1980-01-01: two builds give equal bytes
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    archive.writestr(entry, data)
