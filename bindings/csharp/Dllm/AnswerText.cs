using System;

namespace Dllm
{
    /// <summary>Why an answer is over. Open: it is not over.</summary>
    public enum AnswerEnd
    {
        /// <summary>The answer is not over.</summary>
        Open = Raw.ANSWER_OPEN,
        /// <summary>Every position is decided.</summary>
        Full = Raw.ANSWER_FULL,
        /// <summary>An end token is decided.</summary>
        EndToken = Raw.ANSWER_END_TOKEN,
        /// <summary>A stop text is decided.</summary>
        StopText = Raw.ANSWER_STOP_TEXT,
    }

    /// <summary>The text of a canvas while it is decided.</summary>
    public sealed class AnswerText : Noun
    {
        /// <summary>Settings: the options of kind "answer": begin, prompt, end_tokens, stop, stop_texts, stop_pattern.</summary>
        public AnswerText(Tokenizer tokenizer, Options settings = null)
        {
            using (var options = new NativeOptions("answer", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_answer_new(tokenizer.Handle, options.Handle, out made, Failure.Here));
                Adopt(made, p => Library.Api.dllm_answer_release(p));
            }
        }

        /// <summary>Sets the canvas as it is now, as of Decoder.Ids and Decoder.States.</summary>
        public AnswerEnd Update(int[] ids, State[] states)
        {
            if (ids.Length != states.Length)
                throw new ArgumentException(ids.Length + " ids, " + states.Length + " states");
            int end;
            byte[] numbers = Array.ConvertAll(states, state => (byte)state);
            Failure.Check(Library.Api.dllm_answer_update(Handle, ids, numbers, ids.Length, out end, Failure.Here));
            return (AnswerEnd)end;
        }

        /// <summary>The text up to the first masked position or the end of the answer.</summary>
        public string Read() => Written((self, to, error) => Library.Api.dllm_answer_text(self, to, error));

        /// <summary>The final text that is new since the last call.</summary>
        public string Next() => Written((self, to, error) => Library.Api.dllm_answer_next(self, to, error));

        /// <summary>One text per position of the canvas.</summary>
        public string[] Cells()
        {
            using (var buffer = new TextBuffer())
            {
                long[] ends = Decoder.ReadAll((long[] room, long size, out long count) =>
                    Library.Api.dllm_answer_cells(Handle, buffer.Handle, room, size, out count, Failure.Here));
                byte[] all = Text.Utf8(buffer.Read());
                var cells = new string[ends.Length];
                int begin = 0;
                for (int i = 0; i < cells.Length; begin = checked((int)ends[i]), i++)
                    cells[i] = System.Text.Encoding.UTF8.GetString(all, begin, checked((int)ends[i]) - begin);
                return cells;
            }
        }
    }
}
