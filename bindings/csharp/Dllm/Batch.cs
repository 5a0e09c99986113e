using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>Named arrays: token rows, prepared noise, results of a forward pass.</summary>
    public sealed class Batch : Noun
    {
        internal Batch(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_batch_release(p)); }

        /// <summary>An empty batch, for Set.</summary>
        public Batch() : this(Make()) {}

        private static IntPtr Make()
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_batch_new(out made, Failure.Here));
            return made;
        }

        /// <summary>Copies an array in; without dims it is one row.</summary>
        public void Set<T>(string name, T[] values, params long[] dims) where T : struct
        {
            long[] shape = Elements.Dims(values.Length, dims);
            Elements.Pin(values, data => Failure.Check(Library.Api.dllm_batch_set(
                                     Handle, Text.Z(name), (int)Elements.TypeOf<T>(), shape, shape.Length, data, Failure.Here)));
        }

        /// <summary>A copy of one array with its type and shape. NotFound; the hint names the nearest.</summary>
        public Tensor Array(string name)
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_batch_array(Handle, Text.Z(name), out made, Failure.Here));
            return new Tensor(made);
        }

        /// <summary>A copy of one array, converted to T.</summary>
        public T[] Read<T>(string name) where T : struct
        {
            using (Tensor array = Array(name)) return array.Read<T>();
        }

        /// <summary>The names of the arrays.</summary>
        public IReadOnlyList<string> Names
        {
            get
            {
                var names = new string[Library.Api.dllm_batch_count(Open)];
                for (int i = 0; i < names.Length; i++) names[i] = Text.At(Library.Api.dllm_batch_name(Open, i));
                return names;
            }
        }
    }
}
