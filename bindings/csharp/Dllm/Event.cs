using System;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>What an event tells; the keys of each kind are in dllm/event.h.</summary>
    public enum EventKind
    {
        /// <summary>A long call goes on.</summary>
        Progress = Raw.EVENT_PROGRESS,
        /// <summary>A step of a trainer.</summary>
        TrainStep = Raw.EVENT_TRAIN_STEP,
        /// <summary>An evaluation of a run.</summary>
        Eval = Raw.EVENT_EVAL,
        /// <summary>A step of a request of a decoder.</summary>
        DecodeStep = Raw.EVENT_DECODE_STEP,
        /// <summary>A block of a request is decided.</summary>
        Block = Raw.EVENT_BLOCK,
        /// <summary>A run has saved a checkpoint.</summary>
        Checkpoint = Raw.EVENT_CHECKPOINT,
        /// <summary>A step of a request of a generator, with its new text.</summary>
        Text = Raw.EVENT_TEXT,
        /// <summary>A request of a generator is over.</summary>
        Answer = Raw.EVENT_ANSWER,
    }

    /// <summary>What a callback returns.</summary>
    public enum Answer
    {
        /// <summary>The call goes on.</summary>
        Continue = Raw.CONTINUE,
        /// <summary>The call ends without an error.</summary>
        Stop = Raw.STOP,
    }

    /// <summary>Gets the events of a call, on the thread of the call. What it throws comes out of the call.</summary>
    public delegate Answer EventCallback(Event e);

    /// <summary>The argument of a callback, valid until it returns. include/dllm/event.h has the keys of each kind.</summary>
    public sealed class Event
    {
        private IntPtr pointer;

        internal Event(IntPtr pointer) { this.pointer = pointer; }

        internal void Close() => pointer = IntPtr.Zero;

        private IntPtr Open
        {
            get
            {
                if (pointer == IntPtr.Zero) throw new ObjectDisposedException("Event", "its callback has returned");
                return pointer;
            }
        }

        /// <summary>What the event tells.</summary>
        public EventKind Kind => (EventKind)Library.Api.dllm_event_kind(Open);

        /// <summary>A whole number of the event. NotFound for another key.</summary>
        public long Int(string key)
        {
            long value;
            Failure.Check(Library.Api.dllm_event_i64(Open, Text.Z(key), out value, Failure.Here));
            return value;
        }

        /// <summary>A number of the event. NotFound for another key.</summary>
        public double Float(string key)
        {
            double value;
            Failure.Check(Library.Api.dllm_event_f64(Open, Text.Z(key), out value, Failure.Here));
            return value;
        }

        /// <summary>A text; null when the event has none of this name.</summary>
        public string String(string key) => Text.At(Library.Api.dllm_event_str(Open, Text.Z(key)));

        /// <summary>A copy of ids, states or changed; null when the event has none of this name.</summary>
        public int[] Ints(string key)
        {
            long count;
            IntPtr found = Library.Api.dllm_event_i32s(Open, Text.Z(key), out count);
            if (found == IntPtr.Zero) return null;
            var values = new int[count];
            Marshal.Copy(found, values, 0, values.Length);
            return values;
        }

        /// <summary>A copy of confidence; null when the event has none of this name.</summary>
        public float[] Floats(string key)
        {
            long count;
            IntPtr found = Library.Api.dllm_event_f32s(Open, Text.Z(key), out count);
            if (found == IntPtr.Zero) return null;
            var values = new float[count];
            Marshal.Copy(found, values, 0, values.Length);
            return values;
        }

        /// <summary>All keys and values as JSON.</summary>
        public string Describe()
        {
            using (var buffer = new TextBuffer())
            {
                Failure.Check(Library.Api.dllm_event_describe(Open, buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }
    }

    /// <summary>Compilers ahead of time (IL2CPP, Mono AOT) look for this name on methods that native code calls.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class MonoPInvokeCallbackAttribute : Attribute
    {
        public MonoPInvokeCallbackAttribute(Type type) { Type = type; }

        public Type Type { get; }
    }

    /// <summary>One call with a callback. An exception is kept while native frames are on the stack.</summary>
    internal sealed class Session
    {
        private static readonly EventFn function = Dispatch;

        private readonly EventCallback callback;
        private ExceptionDispatchInfo thrown;

        private Session(EventCallback callback) { this.callback = callback; }

        [MonoPInvokeCallback(typeof(EventFn))]
        private static int Dispatch(IntPtr pointer, IntPtr data)
        {
            var session = (Session)GCHandle.FromIntPtr(data).Target;
            var e = new Event(pointer);
            try
            {
                return (int)session.callback(e);
            }
            catch (Exception problem)
            {
                session.thrown = ExceptionDispatchInfo.Capture(problem);
                return Raw.FAIL;
            }
            finally
            {
                e.Close();
            }
        }

        /// <summary>Runs a long call with a callback, which may be null.</summary>
        internal static void Run(Control control, EventCallback callback, Func<EventFn, IntPtr, SafeHandle, int> call)
        {
            if (callback == null)
            {
                control.Run(task => call(null, IntPtr.Zero, task));
                return;
            }
            var session = new Session(callback);
            GCHandle data = GCHandle.Alloc(session);
            try
            {
                control.Run(task =>
                {
                    int status = call(function, GCHandle.ToIntPtr(data), task);
                    if (session.thrown != null) session.thrown.Throw();
                    return status;
                });
            }
            finally
            {
                data.Free();
            }
        }
    }
}
