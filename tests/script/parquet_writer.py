"""Writes Parquet files of texts without another library: plain pages, no compression, several row groups."""
import struct


class Thrift:
    """A struct in Thrift's compact protocol."""

    def __init__(self):
        self.bytes, self.last = b"", 0

    def head(self, number, kind):
        self.bytes += bytes([(number - self.last) << 4 | kind])
        self.last = number

    def varint(self, value):
        while value >= 128:
            self.bytes += bytes([value & 127 | 128])
            value >>= 7
        self.bytes += bytes([value])
        return self

    def integer(self, number, value, kind=5):
        self.head(number, kind)
        return self.varint(value << 1 if value >= 0 else -value * 2 - 1)

    def text(self, number, value):
        self.head(number, 8)
        self.varint(len(value))
        self.bytes += value
        return self

    def struct(self, number, value):
        self.head(number, 12)
        self.bytes += value.done()
        return self

    def list(self, number, items):
        self.head(number, 9)
        self.bytes += bytes([0xF0 | 12])
        self.varint(len(items))
        self.bytes += b"".join(item.done() for item in items)
        return self

    def done(self):
        return self.bytes + b"\0"


def page(texts):
    body = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    inner = Thrift().integer(1, len(texts)).integer(2, 0).integer(3, 3).integer(4, 3)
    return Thrift().integer(1, 0).integer(2, len(body)).integer(3, len(body)).struct(5, inner).done() + body


def chunk(name, at, size, values):
    data = Thrift().integer(1, 6).integer(4, 0).integer(5, values, 6).integer(6, size, 6).integer(7, size, 6).integer(9, at, 6)
    return Thrift().integer(2, at, 6).struct(3, data)


def parquet(columns, rows_of_group, rows_of_page=50, size_error=0):
    """columns: {name: texts}. Returns the file, and the (begin, end) of each row group in it. Each chunk of a column says that it has
    `size_error` bytes more than it has."""
    count = len(next(iter(columns.values())))
    file, groups, places = b"PAR1", [], []
    for begin in range(0, count, rows_of_group):
        end, chunks, begin_at = min(count, begin + rows_of_group), [], len(file)
        for name, texts in columns.items():
            pages = b"".join(page([text.encode() for text in texts[at:min(end, at + rows_of_page)]]) for at in range(begin, end, rows_of_page))
            chunks.append(chunk(name, len(file), len(pages) + size_error, end - begin))
            file += pages
        groups.append(Thrift().list(1, chunks).integer(2, len(file) - begin_at, 6).integer(3, end - begin, 6))
        places.append((begin_at, len(file)))
    schema = [Thrift().text(4, b"schema").integer(5, len(columns))]
    schema += [Thrift().integer(1, 6).integer(3, 0).text(4, name.encode()) for name in columns]
    footer = Thrift().integer(1, 1).list(2, schema).integer(3, count, 6).list(4, groups).done()
    return file + footer + struct.pack("<I", len(footer)) + b"PAR1", places
