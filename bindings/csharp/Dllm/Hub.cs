using System;
using System.Collections.Generic;
using System.Linq;

namespace Dllm
{
    /// <summary>Models and data sets of the Hugging Face hub by name, and the cache that has them. The variables
    /// HF_ENDPOINT, HF_TOKEN and HF_HUB_CACHE of the process count, as for Python's huggingface_hub.</summary>
    public static class Hub
    {
        /// <summary>Loads the files of "org/name", "org/name@revision" or "org/name:file" into the cache, unless they are
        /// there; the path that Load takes. The progress of a task counts bytes. A pull that ends early keeps its bytes,
        /// and the next one goes on with them. NotFound for a name that the hub does not have, PermissionDenied,
        /// Unauthenticated, ResourceExhausted for a full disk, Unavailable without a network.</summary>
        public static string Pull(string name, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("hub", settings))
                return Written(control, (task, to) => Library.Api.dllm_hub_pull(Text.Z(name), options.Handle, task, to,
                                                                                Failure.Here));
        }

        /// <summary>Asks the hub what Pull would load, and loads nothing. It throws as Pull does.</summary>
        public static PullPlan Describe(string name, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("hub", settings))
                return new PullPlan(new JsonObject(Written(control, (task, to) => Library.Api.dllm_hub_describe(
                    Text.Z(name), options.Handle, task, to, Failure.Here))));
        }

        /// <summary>The repositories in the cache. The network is not used.</summary>
        public static IReadOnlyList<CachedRepository> List(Control control = default(Control))
        {
            string written = Written(control, (task, to) => Library.Api.dllm_hub_list(task, to, Failure.Here));
            return JsonObject.List(JsonReader.Read(written)).Select(each => new CachedRepository(each)).ToArray();
        }

        /// <summary>Reads every file of a repository in the cache and compares the SHA-256 of large files. Faults are in
        /// the report and throw nothing; NotFound for a name that the cache does not have.</summary>
        public static CacheReport Verify(string name, Control control = default(Control)) =>
            new CacheReport(new JsonObject(Written(control, (task, to) => Library.Api.dllm_hub_verify(
                Text.Z(name), task, to, Failure.Here))));

        /// <summary>Removes a repository from the cache, or one revision of it for "org/name@revision"; the bytes that were
        /// freed. Files that another revision uses stay. NotFound for a name that the cache does not have.</summary>
        public static long Remove(string name, Control control = default(Control)) =>
            new JsonObject(Written(control, (task, to) => Library.Api.dllm_hub_remove(Text.Z(name), task, to,
                                                                                      Failure.Here))).Whole("freed");

        private static string Written(Control control,
            Func<System.Runtime.InteropServices.SafeHandle, System.Runtime.InteropServices.SafeHandle, int> function)
        {
            using (var buffer = new TextBuffer())
            {
                control.Run(task => function(task, buffer.Handle));
                return buffer.Read();
            }
        }
    }
}
