using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>The type of elements. F16 and BF16 are read as float.</summary>
    public enum DType
    {
        /// <summary>Floats of 32 bits.</summary>
        F32 = Raw.F32,
        /// <summary>Floats of 16 bits.</summary>
        F16 = Raw.F16,
        /// <summary>Floats of 16 bits with the range of F32.</summary>
        BF16 = Raw.BF16,
        /// <summary>Floats of 64 bits.</summary>
        F64 = Raw.F64,
        /// <summary>Whole numbers of 32 bits.</summary>
        I32 = Raw.I32,
        /// <summary>Whole numbers of 64 bits.</summary>
        I64 = Raw.I64,
        /// <summary>Whole numbers of 8 bits without a sign.</summary>
        U8 = Raw.U8,
        /// <summary>Whole numbers of 8 bits.</summary>
        I8 = Raw.I8,
        /// <summary>Whole numbers of 32 bits without a sign.</summary>
        U32 = Raw.U32,
    }

    /// <summary>An array of the library; its elements never change.</summary>
    public sealed class Tensor : Noun
    {
        internal Tensor(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_tensor_release(p)); }

        /// <summary>A copy of elements in row-major order; without dims they are one row.</summary>
        public static Tensor Of<T>(T[] values, params long[] dims) where T : struct
        {
            IntPtr made = IntPtr.Zero;
            long[] shape = Elements.Dims(values.Length, dims);
            Elements.Pin(values, data => Failure.Check(Library.Api.dllm_tensor_new(
                                     (int)Elements.TypeOf<T>(), shape, shape.Length, data, out made, Failure.Here)));
            return new Tensor(made);
        }

        /// <summary>The type of the elements.</summary>
        public DType DType => (DType)Library.Api.dllm_tensor_dtype(Open);

        /// <summary>The dimensions, outermost first.</summary>
        public long[] Shape
        {
            get
            {
                var shape = new long[Library.Api.dllm_tensor_rank(Open)];
                for (int axis = 0; axis < shape.Length; axis++) shape[axis] = Library.Api.dllm_tensor_dim(Open, axis);
                return shape;
            }
        }

        private long Count()
        {
            long count = 1;
            foreach (long extent in Shape) count *= extent;
            return count;
        }

        /// <summary>A copy of the elements, converted to T.</summary>
        public T[] Read<T>() where T : struct
        {
            var values = new T[Count()];
            long size = values.LongLength * Marshal.SizeOf(typeof(T));
            Elements.Pin(values, data => Failure.Check(Library.Api.dllm_tensor_read(
                                     Handle, (int)Elements.TypeOf<T>(), data, size, Failure.Here)));
            return values;
        }

        /// <summary>A copy of the elements as they are stored, of any type.</summary>
        public byte[] Bytes()
        {
            IntPtr data = Library.Api.dllm_tensor_data(Open);
            if (data == IntPtr.Zero)
                throw new DllmException(Code.FailedPrecondition, "the tensor is not in host memory", "use Read");
            var bytes = new byte[Count() * Elements.SizeOf(DType)];
            Marshal.Copy(data, bytes, 0, bytes.Length);
            GC.KeepAlive(this);
            return bytes;
        }
    }

    internal static class Elements
    {
        private static readonly Dictionary<Type, DType> types = new Dictionary<Type, DType>
        {
            {typeof(float), DType.F32}, {typeof(double), DType.F64}, {typeof(int), DType.I32}, {typeof(long), DType.I64},
            {typeof(byte), DType.U8}, {typeof(sbyte), DType.I8}, {typeof(uint), DType.U32},
        };

        internal static DType TypeOf<T>()
        {
            DType found;
            if (types.TryGetValue(typeof(T), out found)) return found;
            throw new ArgumentException("no array of " + typeof(T).Name + ": float double int long byte sbyte uint");
        }

        internal static int SizeOf(DType type)
        {
            switch (type)
            {
            case DType.F64:
            case DType.I64: return 8;
            case DType.F16:
            case DType.BF16: return 2;
            case DType.U8:
            case DType.I8: return 1;
            default: return 4;
            }
        }

        internal static long[] Dims(long count, long[] dims)
        {
            if (dims.Length == 0) return new[] {count};
            long product = 1;
            foreach (long extent in dims) product *= extent;
            if (product == count) return dims;
            throw new ArgumentException(count + " elements do not fill the dimensions " + string.Join(" x ", dims));
        }

        internal static void Pin<T>(T[] values, Action<IntPtr> use)
        {
            GCHandle pinned = GCHandle.Alloc(values, GCHandleType.Pinned);
            try
            {
                use(values.Length > 0 ? pinned.AddrOfPinnedObject() : IntPtr.Zero);
            }
            finally
            {
                pinned.Free();
            }
        }
    }
}
