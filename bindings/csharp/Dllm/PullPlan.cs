using System.Collections.Generic;
using System.Linq;

namespace Dllm
{
    /// <summary>What a pull would load. Sizes are in bytes.</summary>
    public sealed class PullPlan
    {
        /// <summary>The name of the repository, "org/name".</summary>
        public string Name { get; }

        /// <summary>The commit of its revision.</summary>
        public string Commit { get; }

        /// <summary>The path that Hub.Pull will return.</summary>
        public string Path { get; }

        /// <summary>Bytes of all files.</summary>
        public long Bytes { get; }

        /// <summary>Bytes that are not in the cache yet.</summary>
        public long Missing { get; }

        /// <summary>Bytes that the disk has left.</summary>
        public long Free { get; }

        /// <summary>Bytes of memory that this process may use.</summary>
        public long Memory { get; }

        /// <summary>The files in the order of the pull.</summary>
        public IReadOnlyList<PlannedFile> Files { get; }

        internal PullPlan(JsonObject all)
        {
            Name = all.String("name");
            Commit = all.String("commit");
            Path = all.String("path");
            Bytes = all.Whole("bytes");
            Missing = all.Whole("missing");
            Free = all.Whole("free");
            Memory = all.Whole("memory");
            Files = all.List("files").Select(each => new PlannedFile(each)).ToArray();
        }
    }

    /// <summary>One file of a PullPlan.</summary>
    public sealed class PlannedFile
    {
        /// <summary>Its path in the repository.</summary>
        public string Path { get; }

        /// <summary>Its size in bytes.</summary>
        public long Size { get; }

        /// <summary>Whether it is in the cache.</summary>
        public bool IsCached { get; }

        /// <summary>Whether it has weights.</summary>
        public bool HasWeights { get; }

        internal PlannedFile(JsonObject all)
        {
            Path = all.String("path");
            Size = all.Whole("size");
            IsCached = all.Flag("cached");
            HasWeights = all.Flag("weights");
        }
    }
}
