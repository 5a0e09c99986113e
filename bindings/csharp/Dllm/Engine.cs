using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>The devices and threads that compute.</summary>
    public sealed class Engine : Noun
    {
        private static readonly object gate = new object();
        private static Engine shared;

        /// <summary>Options of kind "engine". NotFound for an unknown option or plugin; Unavailable for a plugin
        /// without a device.</summary>
        public Engine(Options settings = null)
        {
            using (var options = new NativeOptions("engine", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_engine_new(options.Handle, out made, Failure.Here));
                Adopt(made, p => Library.Api.dllm_engine_release(p));
            }
        }

        /// <summary>The engine of models that were made without one. It is made once.</summary>
        public static Engine Default
        {
            get
            {
                lock (gate)
                {
                    if (shared == null || shared.IsDisposed) shared = new Engine();
                    return shared;
                }
            }
        }

        /// <summary>The names of its devices.</summary>
        public IReadOnlyList<string> Devices
        {
            get
            {
                var names = new string[Library.Api.dllm_engine_device_count(Open)];
                for (int i = 0; i < names.Length; i++) names[i] = Text.At(Library.Api.dllm_engine_device_name(Open, i));
                return names;
            }
        }

        /// <summary>kind, devices, threads, simd, arithmetic, product_kernel and memory (used, peak, limit, in
        /// bytes), as JSON.</summary>
        public string Describe() => Written((self, to, error) => Library.Api.dllm_engine_describe(self, to, error));

        /// <summary>A number of the engine: threads, memory_limit, ...</summary>
        public long this[string key]
        {
            get
            {
                long value;
                Failure.Check(Library.Api.dllm_engine_i64(Handle, Text.Z(key), out value, Failure.Here));
                return value;
            }
            set { Failure.Check(Library.Api.dllm_engine_set_i64(Handle, Text.Z(key), value, Failure.Here)); }
        }

        /// <summary>What a job on the model at path needs, in the chosen format (JSON by default).</summary>
        public string Plan(string path, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("plan", settings))
            using (var buffer = new TextBuffer())
            {
                control.Run(task => Library.Api.dllm_engine_plan(Handle, Text.Z(path), options.Handle, task, buffer.Handle,
                                                                 Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Frees memory that is not in use.</summary>
        public void Trim() => Failure.Check(Library.Api.dllm_engine_trim(Handle, Failure.Here));
    }
}
