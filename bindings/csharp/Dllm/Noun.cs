using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Dllm
{
    /// <summary>A handle of the library. A call keeps it open; its finalizer releases what was not disposed.</summary>
    internal sealed class NativeHandle : SafeHandle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly NativeHandle None = new NativeHandle(IntPtr.Zero, null);

        private readonly Action<IntPtr> release;

        internal NativeHandle(IntPtr pointer, Action<IntPtr> release) : base(IntPtr.Zero, true)
        {
            this.release = release;
            SetHandle(pointer);
        }

        public override bool IsInvalid => handle == IntPtr.Zero;

        protected override bool ReleaseHandle()
        {
            release(handle);
            return true;
        }
    }

    /// <summary>Every object of the library. Dispose releases it, also twice and in any order; a member of a disposed
    /// object throws ObjectDisposedException.</summary>
    public abstract class Noun : IDisposable
    {
        private volatile bool isDisposed;

        internal NativeHandle Handle { get; private set; }

        internal Noun() {}

        internal void Adopt(IntPtr pointer, Action<IntPtr> release) => Handle = new NativeHandle(pointer, release);

        /// <summary>Whether Dispose was called.</summary>
        public bool IsDisposed => isDisposed;

        /// <summary>Frees the object now. A second call does nothing.</summary>
        public void Dispose()
        {
            isDisposed = true; // the handle is closed only when the last call that uses it has returned
            Handle.Dispose();
        }

        /// <summary>The name of the C noun.</summary>
        internal virtual string Kind => GetType().Name.ToLowerInvariant();

        internal static SafeHandle Optional(Noun noun) => noun == null ? NativeHandle.None : noun.Handle;

        /// <summary>A handle for functions that report nothing: they throw too when it was disposed.</summary>
        internal NativeHandle Open
        {
            get
            {
                if (Handle.IsClosed) throw new ObjectDisposedException(GetType().Name);
                return Handle;
            }
        }

        internal delegate int Part(SafeHandle self, out IntPtr made, SafeHandle error);

        /// <summary>A handle of what this object keeps.</summary>
        internal IntPtr Made(Part part)
        {
            IntPtr made;
            Failure.Check(part(Handle, out made, Failure.Here));
            return made;
        }

        /// <summary>The text that a function writes about this object.</summary>
        internal string Written(Func<SafeHandle, SafeHandle, SafeHandle, int> function)
        {
            using (var buffer = new TextBuffer())
            {
                Failure.Check(function(Handle, buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }
    }

    internal static class Text
    {
        internal static byte[] Utf8(string text) => Encoding.UTF8.GetBytes(text);

        /// <summary>UTF-8 with a 0 byte at the end; null stays null.</summary>
        internal static byte[] Z(string text)
        {
            if (text == null) return null;
            if (text.IndexOf('\0') >= 0) throw new ArgumentException("the text has a 0 character");
            var bytes = new byte[Encoding.UTF8.GetByteCount(text) + 1];
            Encoding.UTF8.GetBytes(text, 0, text.Length, bytes, 0);
            return bytes;
        }

        internal static string At(IntPtr text)
        {
            if (text == IntPtr.Zero) return null;
            int size = 0;
            while (Marshal.ReadByte(text, size) != 0) size++;
            return At(text, size);
        }

        internal static string At(IntPtr text, int size)
        {
            var bytes = new byte[size];
            if (size > 0) Marshal.Copy(text, bytes, 0, size);
            return Encoding.UTF8.GetString(bytes);
        }
    }

    /// <summary>Text that the library writes.</summary>
    internal sealed class TextBuffer : Noun
    {
        internal TextBuffer() { Adopt(Library.Api.dllm_buffer_new(), p => Library.Api.dllm_buffer_release(p)); }

        internal string Read() =>
            Text.At(Library.Api.dllm_buffer_data(Handle), checked((int)Library.Api.dllm_buffer_size(Handle)));
    }
}
