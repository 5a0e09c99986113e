using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>Documents to train on.</summary>
    public sealed class Dataset : Noun
    {
        private Dataset(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_dataset_release(p)); }

        /// <summary>Opens text, JSON lines or token files; without a tokenizer as raw text.</summary>
        public static Dataset Load(string path, Tokenizer tokenizer = null, Options settings = null,
                                   Control control = default(Control))
        {
            using (var options = new NativeOptions("dataset", settings))
            {
                IntPtr made = IntPtr.Zero;
                control.Run(task => Library.Api.dllm_dataset_open(Text.Z(path), Optional(tokenizer), options.Handle, task,
                                                                  out made, Failure.Here));
                return new Dataset(made);
            }
        }

        /// <summary>A dataset of texts; null: none yet.</summary>
        public static Dataset Of(IEnumerable<string> texts, Tokenizer tokenizer = null, Options settings = null)
        {
            Dataset data;
            using (var options = new NativeOptions("dataset", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_dataset_new(Optional(tokenizer), options.Handle, out made, Failure.Here));
                data = new Dataset(made);
            }
            foreach (string text in texts ?? new string[0]) data.Add(text);
            return data;
        }

        /// <summary>Adds one document, a JSON object as in a line of a JSONL file. InvalidArgument for another
        /// text.</summary>
        public void Add(string text) => AddJson(Json.Checked(new Options {["text"] = text}, ""));

        /// <summary>Adds a document: a line of a JSONL file.</summary>
        public void AddJson(string json)
        {
            byte[] bytes = Text.Utf8(json);
            Failure.Check(Library.Api.dllm_dataset_add(Handle, bytes, bytes.Length, Failure.Here));
        }

        /// <summary>How many documents there are.</summary>
        public long Count => Library.Api.dllm_dataset_size(Open);

        /// <summary>Writes a token file.</summary>
        public void Save(string path, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("save", settings))
                control.Run(task => Library.Api.dllm_dataset_save(Handle, Text.Z(path), options.Handle, task, Failure.Here));
        }

        /// <summary>Appends the trajectories of the rows that the file lacks, and returns their number. The teacher is
        /// null for method left_to_right.</summary>
        public long ExtractTrajectories(Model teacher, string path, Options settings = null,
                                        Control control = default(Control))
        {
            long rows = 0;
            using (var options = new NativeOptions("trajectories", settings))
                control.Run(task => Library.Api.dllm_dataset_extract_trajectories(
                    Handle, Optional(teacher), Text.Z(path), options.Handle, task, out rows, Failure.Here));
            return rows;
        }
    }
}
