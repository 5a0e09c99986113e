using System;

namespace Dllm
{
    /// <summary>The codes of the C ABI.</summary>
    public enum Code
    {
        Ok = Raw.OK,
        Cancelled = Raw.CANCELLED,
        Unknown = Raw.UNKNOWN,
        InvalidArgument = Raw.INVALID_ARGUMENT,
        DeadlineExceeded = Raw.DEADLINE_EXCEEDED,
        NotFound = Raw.NOT_FOUND,
        AlreadyExists = Raw.ALREADY_EXISTS,
        PermissionDenied = Raw.PERMISSION_DENIED,
        ResourceExhausted = Raw.RESOURCE_EXHAUSTED,
        FailedPrecondition = Raw.FAILED_PRECONDITION,
        Aborted = Raw.ABORTED,
        OutOfRange = Raw.OUT_OF_RANGE,
        Unimplemented = Raw.UNIMPLEMENTED,
        Internal = Raw.INTERNAL,
        Unavailable = Raw.UNAVAILABLE,
        DataLoss = Raw.DATA_LOSS,
        Unauthenticated = Raw.UNAUTHENTICATED,
        CallbackFailed = Raw.CALLBACK_FAILED,
        ScriptFailed = Raw.SCRIPT_FAILED,
    }

    /// <summary>What a call of the library returned. ToString has the hint too.</summary>
    public class DllmException : Exception
    {
        /// <summary>The kind of the error, for `catch (DllmException e) when (e.Code == Code.NotFound)`.</summary>
        public Code Code { get; }

        /// <summary>What to try; may be empty.</summary>
        public string Hint { get; }

        public DllmException(Code code, string message, string hint) : base(message)
        {
            Code = code;
            Hint = hint;
        }

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
