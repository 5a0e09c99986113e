using System;

namespace Dllm
{
    /// <summary>The codes of the C ABI.</summary>
    public enum Code
    {
        /// <summary>The call succeeded.</summary>
        Ok = Raw.OK,
        /// <summary>The task was cancelled.</summary>
        Cancelled = Raw.CANCELLED,
        /// <summary>An error of an unknown kind.</summary>
        Unknown = Raw.UNKNOWN,
        /// <summary>A value out of range, of the wrong type or shape.</summary>
        InvalidArgument = Raw.INVALID_ARGUMENT,
        /// <summary>The deadline of the task has passed.</summary>
        DeadlineExceeded = Raw.DEADLINE_EXCEEDED,
        /// <summary>There is no such key, name or file; the hint names the nearest.</summary>
        NotFound = Raw.NOT_FOUND,
        /// <summary>A name or a folder is taken.</summary>
        AlreadyExists = Raw.ALREADY_EXISTS,
        /// <summary>The system or the sandbox refuses.</summary>
        PermissionDenied = Raw.PERMISSION_DENIED,
        /// <summary>Memory, disk, or a limit that was set.</summary>
        ResourceExhausted = Raw.RESOURCE_EXHAUSTED,
        /// <summary>The right call in the wrong state.</summary>
        FailedPrecondition = Raw.FAILED_PRECONDITION,
        /// <summary>The object is unusable after an earlier failure.</summary>
        Aborted = Raw.ABORTED,
        /// <summary>The end of the data, or an index past the end.</summary>
        OutOfRange = Raw.OUT_OF_RANGE,
        /// <summary>This build or engine does not have it.</summary>
        Unimplemented = Raw.UNIMPLEMENTED,
        /// <summary>A bug of the library.</summary>
        Internal = Raw.INTERNAL,
        /// <summary>A device or a peer cannot be reached now.</summary>
        Unavailable = Raw.UNAVAILABLE,
        /// <summary>A file is damaged.</summary>
        DataLoss = Raw.DATA_LOSS,
        /// <summary>The caller is not authenticated.</summary>
        Unauthenticated = Raw.UNAUTHENTICATED,
        /// <summary>A callback failed without an exception.</summary>
        CallbackFailed = Raw.CALLBACK_FAILED,
        /// <summary>A Lua script raised an error; the hint has its traceback.</summary>
        ScriptFailed = Raw.SCRIPT_FAILED,
    }

    /// <summary>What a call of the library returned. ToString has the hint too.</summary>
    public class DllmException : Exception
    {
        /// <summary>The kind of the error, for `catch (DllmException e) when (e.Code == Code.NotFound)`.</summary>
        public Code Code { get; }

        /// <summary>What to try; may be empty.</summary>
        public string Hint { get; }

        /// <summary>An error with its kind, one line that names the thing and the numbers, and what to try.</summary>
        public DllmException(Code code, string message, string hint) : base(message)
        {
            Code = code;
            Hint = hint;
        }

        /// <summary>Message, stack and hint.</summary>
        public override string ToString() => Hint.Length > 0 ? base.ToString() + "\nhint: " + Hint : base.ToString();
    }

    /// <summary>The one error object of a thread, which a failing call fills.</summary>
    internal static class Failure
    {
        [ThreadStatic]
        private static NativeHandle here;

        internal static NativeHandle Here =>
            here ?? (here = new NativeHandle(Library.Api.dllm_error_new(), p => Library.Api.dllm_error_release(p)));

        internal static void Check(int status)
        {
            if (status != Raw.OK) throw Read(status);
        }

        internal static DllmException Read(int status) =>
            new DllmException((Code)status, Text.At(Library.Api.dllm_error_message(Here)) ?? "",
                              Text.At(Library.Api.dllm_error_hint(Here)) ?? "");
    }
}
