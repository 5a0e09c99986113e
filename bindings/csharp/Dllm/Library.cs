using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>Finds and opens libdllm, and has what belongs to no object.</summary>
    public static class Library
    {
        private static readonly object gate = new object();
        private static volatile Raw raw;
        private static string loaded;

        /// <summary>The functions of the library, which is opened at the first use.</summary>
        internal static Raw Api
        {
            get
            {
                if (raw == null) Load(null);
                return raw;
            }
        }

        /// <summary>Opens the library at path; with null the first of DLLM_LIBRARY, the folder of this assembly,
        /// the NuGet package around it, build/release/lib of a checkout around it, and the folders of the system.</summary>
        public static void Load(string path)
        {
            lock (gate)
            {
                if (raw != null)
                {
                    if (path == null || path == loaded) return;
                    throw new DllmException(Code.FailedPrecondition, loaded + " is loaded, " + path + " cannot be", "");
                }
                var tried = new List<string>();
                foreach (string candidate in Candidates(path))
                {
                    IntPtr opened = SharedLibrary.Open(candidate);
                    if (opened == IntPtr.Zero)
                    {
                        tried.Add(candidate);
                        continue;
                    }
                    raw = Bind(opened, candidate);
                    loaded = candidate;
                    return;
                }
                throw new DllNotFoundException("cannot load libdllm; tried " + string.Join(", ", tried) +
                                               "; set DLLM_LIBRARY to its path");
            }
        }

        // The folder of a NuGet package, which builds copy next to the assembly.
        private static readonly string Packaged = Path.Combine("runtimes",
            "linux-" + RuntimeInformation.ProcessArchitecture.ToString().ToLowerInvariant(), "native");

        private static IEnumerable<string> Candidates(string path)
        {
            string named = path ?? Environment.GetEnvironmentVariable("DLLM_LIBRARY");
            if (!string.IsNullOrEmpty(named)) return new[] {named};
            var found = new List<string>();
            string folder = Path.GetDirectoryName(typeof(Library).Assembly.Location);
            if (!string.IsNullOrEmpty(folder))
                foreach (string place in Places(folder))
                    foreach (string name in SharedLibrary.Names)
                        if (File.Exists(Path.Combine(place, name))) found.Add(Path.Combine(place, name));
            found.AddRange(SharedLibrary.Names);
            return found;
        }

        // Around the folder of the assembly; a checkout is known by bindings/csharp/Dllm.csproj.
        private static IEnumerable<string> Places(string folder)
        {
            yield return folder;
            yield return Path.Combine(folder, Packaged);
            yield return Path.Combine(folder, "..", "..", Packaged);
            for (string above = folder; !string.IsNullOrEmpty(above); above = Path.GetDirectoryName(above))
                if (File.Exists(Path.Combine(above, "bindings", "csharp", "Dllm.csproj")))
                    yield return Path.Combine(above, "build", "release", "lib");
        }

        private static Raw Bind(IntPtr opened, string path)
        {
            var missing = new List<string>();
            var bound = new Raw(name => SharedLibrary.Find(opened, name), missing);
            if (bound.dllm_abi_version == null)
                throw new DllmException(Code.Unavailable, path + " is not a libdllm: it has no dllm_abi_version", "");
            int version = bound.dllm_abi_version();
            if (version != Raw.ABI)
                throw new DllmException(Code.Unavailable, path + " has ABI " + version + ", this package ABI " + Raw.ABI,
                                        "install versions that belong together");
            if (missing.Count > 0)
                throw new DllmException(Code.Unavailable,
                                        path + " is older than this package, it lacks " + string.Join(", ", missing),
                                        "install a newer library");
            return bound;
        }

        /// <summary>The version of the C interface that the library has.</summary>
        public static int AbiVersion => Api.dllm_abi_version();

        /// <summary>The version of the library, "0.2.0".</summary>
        public static string Version => Text.At(Api.dllm_version());

        /// <summary>How the library was built, as JSON.</summary>
        public static string BuildInfo => Text.At(Api.dllm_build_info());

        /// <summary>Whether the library was built with a part: "lua", "pjrt", "openmp", "bf16".</summary>
        public static bool HasFeature(string name) => Api.dllm_has_feature(Text.Z(name)) != 0;

        /// <summary>Names of a registry: engine family objective options policy schedule sink.</summary>
        public static IReadOnlyList<string> Names(string kind)
        {
            var names = new List<string>();
            while (true)
            {
                IntPtr name = Api.dllm_registry_name(Text.Z(kind), names.Count);
                if (name == IntPtr.Zero) return names;
                names.Add(Text.At(name));
            }
        }

        /// <summary>The options of a kind as JSON: name, type, default, limits, a sentence.</summary>
        public static string Schema(string kind)
        {
            using (var buffer = new TextBuffer())
            {
                Failure.Check(Api.dllm_options_schema(Text.Z(kind), buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>The PJRT plugins that are found, as JSON; none is loaded.</summary>
        public static string Plugins()
        {
            using (var buffer = new TextBuffer())
            {
                Failure.Check(Api.dllm_plugin_list(buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Describes a plugin as JSON. It is loaded into this process, which a bad one may end.</summary>
        public static string DescribePlugin(string plugin)
        {
            using (var buffer = new TextBuffer())
            {
                Failure.Check(Api.dllm_plugin_describe(Text.Z(plugin), buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }
    }

    /// <summary>What the system has to open a shared library: the same in Mono, .NET and Unity.</summary>
    internal static class SharedLibrary
    {
        private const int Now = 2;

        internal static readonly bool Windows = Environment.OSVersion.Platform == PlatformID.Win32NT;

        internal static readonly string[] Names =
            Windows ? new[] {"dllm.dll"}
                    : Directory.Exists("/System/Library") ? new[] {"libdllm.1.dylib", "libdllm.dylib"}
                                                          : new[] {"libdllm.so.1", "libdllm.so"};

        internal static IntPtr Open(string path) => Windows ? LoadLibrary(path) : OpenUnix(path);

        internal static IntPtr Find(IntPtr opened, string name) =>
            Windows ? GetProcAddress(opened, name) : FindUnix(opened, name);

        // glibc has them in libdl.so.2, other systems in libdl, which the runtime completes.
        private static IntPtr OpenUnix(string path)
        {
            try
            {
                return dlopen2(path, Now);
            }
            catch (DllNotFoundException)
            {
                return dlopen(path, Now);
            }
        }

        private static IntPtr FindUnix(IntPtr opened, string name)
        {
            try
            {
                return dlsym2(opened, name);
            }
            catch (DllNotFoundException)
            {
                return dlsym(opened, name);
            }
        }

        [DllImport("libdl.so.2", EntryPoint = "dlopen")]
        private static extern IntPtr dlopen2(string path, int flags);

        [DllImport("libdl.so.2", EntryPoint = "dlsym")]
        private static extern IntPtr dlsym2(IntPtr opened, string name);

        [DllImport("libdl")]
        private static extern IntPtr dlopen(string path, int flags);

        [DllImport("libdl")]
        private static extern IntPtr dlsym(IntPtr opened, string name);

        [DllImport("kernel32", CharSet = CharSet.Unicode)]
        private static extern IntPtr LoadLibrary(string path);

        [DllImport("kernel32", CharSet = CharSet.Ansi, ExactSpelling = true)]
        private static extern IntPtr GetProcAddress(IntPtr opened, string name);
    }
}
