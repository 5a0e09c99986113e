using System;
using System.Collections.Generic;
using System.Linq;

namespace Dllm
{
    /// <summary>A model or a data set of the hub in the cache. Sizes are in bytes.</summary>
    public sealed class CachedRepository
    {
        /// <summary>Its name, "org/name".</summary>
        public string Name { get; }

        /// <summary>model or dataset.</summary>
        public string Kind { get; }

        /// <summary>Bytes of all its files.</summary>
        public long Bytes { get; }

        /// <summary>Bytes of files whose pull ended early.</summary>
        public long Incomplete { get; }

        /// <summary>When it was last used.</summary>
        public DateTimeOffset Used { get; }

        /// <summary>Its folder in the cache.</summary>
        public string Path { get; }

        /// <summary>Its commits.</summary>
        public IReadOnlyList<CachedSnapshot> Snapshots { get; }

        internal CachedRepository(JsonObject all)
        {
            Name = all.String("name");
            Kind = all.String("kind");
            Bytes = all.Whole("bytes");
            Incomplete = all.Whole("incomplete");
            Used = DateTimeOffset.FromUnixTimeMilliseconds((long)(1000 * all.Real("used")));
            Path = all.String("path");
            Snapshots = all.List("snapshots").Select(each => new CachedSnapshot(each)).ToArray();
        }
    }

    /// <summary>One commit of a CachedRepository.</summary>
    public sealed class CachedSnapshot
    {
        /// <summary>The commit.</summary>
        public string Commit { get; }

        /// <summary>The branches and tags that are this commit.</summary>
        public IReadOnlyList<string> Revisions { get; }

        /// <summary>How many files it has.</summary>
        public long Files { get; }

        /// <summary>Bytes of its files.</summary>
        public long Bytes { get; }

        /// <summary>Its folder, which Load takes.</summary>
        public string Path { get; }

        internal CachedSnapshot(JsonObject all)
        {
            Commit = all.String("commit");
            Revisions = all.Strings("revisions");
            Files = all.Whole("files");
            Bytes = all.Whole("bytes");
            Path = all.String("path");
        }
    }
}
